package kills

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/ledger"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
)

// documentStream reads /v1/config/revisions as a browser does: after a lost connection it goes on
// behind the last id.
type documentStream struct {
	ledger.History
	url, query string
	last       string            // id
	part       map[string]string // of a revision that is not complete
	resync     string            // the data of one
}

// followDocuments follows all documents behind a revision until one has some contents.
func (r *documentRecord) followDocuments(from int64, name, contents string) (end func() ledger.History) {
	s := &documentStream{url: "http://" + r.process.HTTP, query: fmt.Sprint("resolved=1&from=", from), History: ledger.History{From: from}}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() {
		for {
			found, err := s.read(ctx, func(told ledger.Told) bool { return told.Changes[name] == contents })
			switch {
			case found, s.resync != "":
				done <- nil
				return
			case ctx.Err() != nil:
				done <- err
				return
			}
			s.Told = append(s.Told, ledger.Told{Revision: s.at(), Resumed: true})
			<-time.After(5 * time.Millisecond) // as a browser, but sooner
		}
	}()
	r.t.Cleanup(cancel)
	return func() ledger.History {
		r.t.Helper()
		defer cancel()
		select {
		case err := <-done:
			require.NoError(r.t, err)
		case <-time.After(time.Minute):
			require.Fail(r.t, "the stream does not get there", "it is at %d", s.at())
		}
		require.Empty(r.t, s.resync, "everything is kept")
		return s.History
	}
}

// at is how far it has come.
func (s *documentStream) at() int64 {
	_, number, _ := strings.Cut(s.last, "-")
	rev, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return s.From
	}
	return rev
}

// read notes what the stream tells until done, a resync, or its end.
func (s *documentStream) read(ctx context.Context, done func(ledger.Told) bool) (bool, error) {
	s.part = nil
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/config/revisions?"+s.query, nil)
	if err != nil {
		return false, err
	}
	if s.last != "" {
		r.Header.Set("Last-Event-ID", s.last)
	}
	reply, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return false, fmt.Errorf("answered with %s", reply.Status)
	}
	lines, fields := bufio.NewReader(reply.Body), map[string]string{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false, err
		}
		if name, value, is := strings.Cut(strings.TrimSpace(line), ": "); is {
			fields[name] = value
		} else if line == "\n" {
			if found, err := s.dispatch(fields, done); found || err != nil {
				return found, err
			}
			clear(fields)
		}
	}
}

// dispatch takes one event, or an id alone.
func (s *documentStream) dispatch(fields map[string]string, done func(ledger.Told) bool) (bool, error) {
	switch fields["event"] {
	case "put", "delete":
		var e struct {
			Name     string
			Contents json.RawMessage
		}
		if err := json.Unmarshal([]byte(fields["data"]), &e); err != nil {
			return false, err
		}
		if s.part == nil {
			s.part = map[string]string{}
		}
		s.part[e.Name] = string(e.Contents)
	case "resync":
		s.resync = fields["data"]
		return true, nil
	}
	if fields["id"] == "" {
		return false, nil
	}
	s.last = fields["id"]
	told := ledger.Told{Revision: s.at(), Changes: s.part}
	s.Told, s.part = append(s.Told, told), nil
	return done(told), nil
}

// What a stream of documents is told goes on behind kill -9 with what was done before, between and
// after, each revision once; and it says so if the data are others.
func TestRevisionsOverHTTPGoOnBehindAKill(t *testing.T) {
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	p := process.Start(t, conf)
	text := func(n int) string { return fmt.Sprintf(`{"n":%d,"pad":%q}`, n, strings.Repeat("p", 6000)) }
	put := func(n int) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPut, "http://"+p.HTTP+"/v1/config/file?name=a.json", strings.NewReader(text(n)))
		require.NoError(t, err)
		reply, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusOK, reply.StatusCode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	defer cancel()
	s := &documentStream{url: "http://" + p.HTTP, query: "name=a&from=0"}
	until := func(n int) {
		t.Helper()
		for {
			found, err := s.read(ctx, func(told ledger.Told) bool { return told.Changes["a.json"] == text(n) })
			if found {
				return
			}
			require.NoError(t, ctx.Err(), err)
		}
	}
	put(1)
	put(2)
	until(2)
	put(3) // told to no one
	p.Kill()
	require.NoError(t, os.WriteFile(filepath.Join(conf, "a.json"), []byte(text(4)), 0o600))
	p.Start()
	put(5)
	until(5)
	var told []string
	last := int64(0)
	for _, one := range s.Told {
		if len(one.Changes) == 0 {
			continue // a bookmark
		}
		require.Greater(t, one.Revision, last)
		told, last = append(told, one.Changes["a.json"]), one.Revision
	}
	require.Equal(t, []string{text(1), text(2), text(3), text(4), text(5)}, told)

	other := process.Start(t, process.SampleConf(t))
	s.url = "http://" + other.HTTP
	found, err := s.read(ctx, nil)
	require.NoError(t, err)
	require.True(t, found)
	require.Contains(t, s.resync, `"error":"compacted"`)
}
