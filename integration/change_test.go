package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/integration/process"
)

// changing is how many documents a change has here: more than a transaction of the log takes.
const changing = 300

// generation is a change after which all documents are of generation n.
func generation(n int) *history.ApplyAsk {
	q := &history.ApplyAsk{Said: history.Said{Comment: fmt.Sprint("generation ", n)}}
	for i := range changing {
		q.Documents = append(q.Documents, history.Wanted{Name: fmt.Sprintf("d%d/%d.json", i%7, i), Text: fmt.Sprintf("{\n  \"generation\": %d,\n  \"pad\": %q\n}\n", n, strings.Repeat("x", i))})
	}
	if n%2 == 1 { // every second one deletes a document
		q.Documents[0].Text, q.Documents[0].Delete = "", true
	}
	return q
}

// generationOf is that of all documents that are there, of which there must be one.
func generationOf(t *testing.T, p *process.Process, c *client.Client) int {
	t.Helper()
	found := map[string]bool{}
	count := 0
	for q := (history.ExportAsk{}); ; {
		page, err := calls.History(c).Export(t.Context(), &q)
		require.NoError(t, err)
		for _, d := range page.Documents {
			file, err := os.ReadFile(filepath.Join(p.Conf, d.Name))
			require.NoError(t, err)
			require.Equal(t, string(file), d.Text, "%s: what the log has is in place", d.Name)
			served, err := c.Get(t.Context(), d.Name)
			require.NoError(t, err)
			is, _, _ := strings.Cut(d.Text, ",")
			found[is] = true
			require.JSONEq(t, d.Text, string(served.Raw()))
			count++
		}
		if q = (history.ExportAsk{Rev: fmt.Sprint(page.At), From: page.Next, Offset: page.NextOffset}); page.Next == "" {
			break
		}
	}
	require.Len(t, found, 1, "all documents are of one change")
	for text := range found {
		var n int
		_, err := fmt.Sscanf(text, "{\n  \"generation\": %d", &n)
		require.NoError(t, err)
		require.Equal(t, changing-n%2, count)
		_, err = os.Stat(filepath.Join(p.Conf, "d0/0.json"))
		require.Equal(t, n%2 == 1, os.IsNotExist(err))
		return n
	}
	return 0
}

// fact waits until something can be seen below the directory, or the change is answered.
func fact(t *testing.T, dir string, answered <-chan error, seen func(name, text string) bool) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case <-answered:
			return
		case <-late:
			require.FailNow(t, "nothing has happened")
		default:
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			if seen(e.Name(), string(text)) {
				return
			}
		}
	}
}

// Killed while a change is on its way into the directory, the server comes back with all of it or
// nothing; with all of it if it was acknowledged.
func TestAChangeIsWholeAfterKill9(t *testing.T) {
	t.Parallel()
	conf := t.TempDir()
	p := process.Start(t, conf)
	acknowledged := 0
	for n := range 10 {
		c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "ci", RequestTimeout: time.Minute})
		require.NoError(t, err)
		if n > 0 {
			is := generationOf(t, p, c)
			require.Contains(t, []int{acknowledged, n - 1}, is)
			acknowledged = is
		}
		answered := make(chan error, 2)
		var sent sync.WaitGroup
		sent.Go(func() {
			_, err := calls.History(c).Apply(t.Context(), generation(n))
			answered <- err
			answered <- err
		})
		last := filepath.Join(conf, fmt.Sprintf("d%d", n%7))
		switch {
		case n == 0:
			require.NoError(t, <-answered)
		case n%3 == 0: // it is being written
			fact(t, last, answered, func(name, _ string) bool { return strings.HasPrefix(name, ".") })
		case n%3 == 1: // some of it is in place
			fact(t, last, answered, func(_, text string) bool { return strings.Contains(text, fmt.Sprintf("\"generation\": %d,", n)) })
		default:
			require.NoError(t, <-answered)
		}
		p.Kill()
		require.NoError(t, c.Close())
		sent.Wait()
		if err := <-answered; err == nil {
			acknowledged = n
		}
		p.Start()
	}
}

func TestConcurrentAppliesOfTheSameBase(t *testing.T) {
	t.Parallel()
	p := process.Start(t, t.TempDir())
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "ci", RequestTimeout: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	const writers = 6
	results := make(chan error, writers)
	for n := range writers {
		q := generation(2 * n)
		for i := range q.Documents {
			q.Documents[i].Base = "none"
		}
		go func() {
			_, err := calls.History(c).Apply(t.Context(), q)
			results <- err
		}()
	}
	made := 0
	for range writers {
		if err := <-results; err == nil {
			made++
		} else {
			require.Equal(t, codes.Conflict, codes.Of(err))
			require.ErrorContains(t, err, fmt.Sprintf("because of %d of %d documents", changing, changing))
		}
	}
	require.Equal(t, 1, made)
	generationOf(t, p, c)
}

// A program that follows several documents of a change sees no version of one without the others.
func TestProgramsAreToldOfAChangeAtOnce(t *testing.T) {
	t.Parallel()
	p := process.Start(t, t.TempDir())
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "ci", RequestTimeout: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = calls.History(c).Apply(t.Context(), generation(0))
	require.NoError(t, err)
	peer := p.Peer()
	for _, name := range []string{"d1/1.json", "d2/2.json", "d3/3.json"} {
		require.Zero(t, book(t, peer, fmt.Sprintf(`{"file_pattern":%q}`, name)).Code)
	}
	_, err = calls.History(c).Apply(t.Context(), generation(2))
	require.NoError(t, err)
	for _, name := range []string{"d1/1.json", "d2/2.json", "d3/3.json"} {
		require.Equal(t, name, peer.Push().File)
		other, err := c.Get(t.Context(), "d6/6.json")
		require.NoError(t, err)
		require.Contains(t, string(other.Raw()), `"generation":2`)
	}
	peer.Quiet()
}

func TestApplyOverHTTPIsOneRequest(t *testing.T) {
	t.Parallel()
	p := process.Start(t, t.TempDir())
	post := func(path string, q any) (status int, answer map[string]any) {
		body, err := json.Marshal(q)
		require.NoError(t, err)
		res, err := http.Post("http://"+p.HTTP+path, "application/json", bytes.NewReader(body))
		require.NoError(t, err)
		defer res.Body.Close()
		require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
		return res.StatusCode, answer
	}
	q := generation(0)
	q.Token, q.Author = "deploy-1", "ann"
	status, first := post("/v1/history/apply", q)
	require.Equal(t, http.StatusOK, status, first)
	require.EqualValues(t, changing, first["count"])
	status, again := post("/v1/history/apply", q)
	require.Equal(t, http.StatusOK, status, again)
	require.Equal(t, true, again["replayed"])
	require.Equal(t, first["revision"], again["revision"])
	require.Equal(t, first["documents"], again["documents"])

	q = generation(2)
	q.Prune, q.DryRun, q.Documents[5].Text = true, true, "{"
	status, answer := post("/v1/history/apply", q)
	require.Equal(t, http.StatusOK, status, answer)
	require.Len(t, answer["refused"], 1)
	q.DryRun = false
	status, answer = post("/v1/history/apply", q)
	require.Equal(t, http.StatusBadRequest, status, answer)
	status, answer = post("/v1/history/rollback", map[string]any{"name": "d1/1", "rev": "~1"})
	require.NotEqual(t, http.StatusOK, status, answer)
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "ci"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Zero(t, generationOf(t, p, c))
}

// What is staged is part of the server's memory, as /metrics shows, and no more than its share.
func TestWhatIsStagedFitsIntoTheMemory(t *testing.T) {
	t.Parallel()
	const budget = 256 << 20
	p := process.Start(t, t.TempDir(), "--memory", strconv.Itoa(budget))
	store := process.StoreOf(t, p)
	pool := func(name string) (value float64) {
		_, text := store.Ask(http.MethodGet, "/metrics", "")
		_, rest, found := strings.Cut(text, "\nconfcenter_memory_pool_"+name+`{pool="staged"} `)
		require.True(t, found, name)
		_, err := fmt.Sscan(rest, &value)
		require.NoError(t, err)
		return value
	}
	require.EqualValues(t, budget/1000*20, pool("limit_bytes"))
	require.Zero(t, pool("bytes"))
	stage := func(n int) (int, string) {
		return store.Ask(http.MethodPost, "/v1/history/stage", fmt.Sprintf(`{"token":"t","documents":[{"name":"%d.json","text":"%s"}]}`, n, strings.Repeat("x", 1<<20)))
	}
	fits := budget / 1000 * 20 >> 20
	for n := range fits {
		status, text := stage(n)
		require.Equal(t, 200, status, text)
	}
	status, text := stage(fits)
	require.Equal(t, 429, status, text)
	require.Contains(t, text, "raise the server's --memory")
	require.GreaterOrEqual(t, pool("bytes"), float64(fits<<20))
	require.LessOrEqual(t, pool("bytes"), pool("limit_bytes"))
	require.EqualValues(t, 1, pool("refused_total"))
}
