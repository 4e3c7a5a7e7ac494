package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/confstore"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/server/http/search"
)

func (k *kit) search(t *testing.T, q string) (found foundBody) {
	t.Helper()
	a := k.get("/v1/config/search?q=" + url.QueryEscape(q))
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &found))
	return found
}

// startOn is start on a directory of configurations with these files.
func startOn(t *testing.T, files map[string]string) *kit {
	t.Helper()
	conf := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o600))
	}
	config, err := confstore.Open(confstore.Config{Dir: conf, DataDir: t.TempDir(), State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, config.Close()) })
	return start(t, func(_ *Config, s *Stores) { s.Config = config })
}

func TestSearchInContentsOfConfigurations(t *testing.T) {
	k := startOn(t, map[string]string{
		"a.json":      `{"db":{"Host":"db.internal","port":5432,"x/y~":"\u914d置 \"q\""},"list":[{"deep":"Internal"}]}`,
		"b.json":      `{"internal":{"k":1}}`,
		"broken.json": "{\n  \"host\": internal\n}",
		"none.json":   `{"a":1}`,
	})
	require.Equal(t, []foundFile{
		{"a.json", "good", search.Found{Matches: []search.Hit{{Path: "/db/Host", Text: `"db.internal"`}, {Path: "/list/0/deep", Text: `"Internal"`}}}},
		{"b.json", "good", search.Found{Matches: []search.Hit{{Path: "/internal", Text: `{"k":1}`}}}},
		{"broken.json", "broken", search.Found{Matches: []search.Hit{{Path: "line 2", Text: `"host": internal`}}}},
	}, k.search(t, "INTERNAL").Files, "whatever the case, in keys and values, in broken files by the line")
	require.Equal(t, []search.Hit{{Path: "/db/port", Text: "5432"}}, k.search(t, "543").Files[0].Matches)
	for _, q := range []string{"配置", `置 "q"`, "X/Y~"} {
		require.Equal(t, "/db/x~1y~0", k.search(t, q).Files[0].Matches[0].Path, "as people know it, without escapes: %s", q)
	}
	require.Equal(t, []foundFile{{"none.json", "good", search.Found{Matches: []search.Hit{}}}}, k.search(t, "none").Files, "by its name")
	require.Empty(t, k.search(t, "nowhere").Files)
	require.Equal(t, http.StatusBadRequest, k.get("/v1/config/search?q="+strings.Repeat("x", 256+1)).status)
	require.Equal(t, http.StatusBadRequest, k.get("/v1/config/search").status)
}

func TestSearchTellsOnlyWhatIsBounded(t *testing.T) {
	files := map[string]string{"many.json": `[` + strings.Repeat(`"found",`, 100) + `"` + strings.Repeat("x", 1000) + `found` + strings.Repeat("y", 1000) + `"]`}
	for i := range maxHitFiles + 1 {
		files[fmt.Sprintf("z%03d.json", i)] = `"wanted"`
	}
	k := startOn(t, files)
	many := k.search(t, "found").Files[0]
	require.Len(t, many.Matches, 5)
	require.Equal(t, 101-5, many.More)
	long := k.search(t, "xfound").Files[0].Matches[0].Text
	require.Less(t, len(long), 2*160)
	require.Contains(t, long, "xfoundy")
	found := k.search(t, "wanted")
	require.Len(t, found.Files, maxHitFiles)
	require.True(t, found.More)
}

func TestSearchInKeysAndValues(t *testing.T) {
	k := start(t, nil)
	for i := range 2500 {
		k.put("n", fmt.Sprintf("key/%04d", i), "plain")
	}
	k.put("n", "key/1234", "the Needle")
	k.put("n", "the/Needle", "v")
	_, err := k.commit(kv.PutTxn("n", "key/bytes", kv.BytesValue([]byte("needle"))))
	require.NoError(t, err)
	type answer struct {
		Entries []struct{ Key string }
		More    bool
		Scanned string
	}
	find := func(query string) (keys []string, last answer) {
		t.Helper()
		a := k.get("/v1/store/keys?ns=n&" + query)
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.NoError(t, json.Unmarshal([]byte(a.body), &last))
		for _, e := range last.Entries {
			keys = append(keys, e.Key)
		}
		return keys, last
	}
	keys, last := find("contains=nEEDLE")
	require.Equal(t, []string{"the/Needle"}, keys)
	require.False(t, last.More)
	keys, _ = find("contains=needle&values=1")
	require.Equal(t, []string{"key/1234", "the/Needle"}, keys)
	keys, _ = find("contains=needle&values=1&prefix=key/")
	require.Equal(t, []string{"key/1234"}, keys)

	keys, last = find("contains=99&limit=3")
	require.Equal(t, []string{"key/0099", "key/0199", "key/0299"}, keys)
	require.True(t, last.More)
	require.Equal(t, "key/0299", last.Scanned)
	keys, _ = find("contains=99&limit=1&after=" + last.Scanned)
	require.Equal(t, []string{"key/0399"}, keys)
	require.Equal(t, http.StatusBadRequest, k.get("/v1/store/keys?ns=n&contains=a&count").status)
}

// searchBusy is how long a search waits for its turn.
const searchBusy = 10 * time.Second

// otherSearches takes the places of all searches, until what it returns is called.
func (k *kit) otherSearches() (ends []func()) {
	for range 2 {
		_, done, err := k.searchers.Begin(k.t.Context(), "", "x")
		require.NoError(k.t, err)
		ends = append(ends, done)
	}
	return ends
}

func TestSearchesWaitForTheirTurn(t *testing.T) {
	fake := clocktest.NewFake(time.UnixMilli(1000))
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock = fake })
	hold := k.otherSearches()
	answers := make(chan answer, 2)
	ask := func() { answers <- k.get("/v1/config/search?q=x") }
	go ask()
	fake.BlockUntil(2) // with the ticker of the samples
	fake.Advance(searchBusy)
	got := <-answers
	require.Equal(t, "busy", errorName(t, got))

	go ask()
	fake.BlockUntil(2)
	hold[0]()
	require.Equal(t, http.StatusOK, (<-answers).status)
	_, done, err := k.searchers.Begin(t.Context(), "", "x")
	require.NoError(t, err, "who has had a turn gives it back")
	done()
}

// No one takes the places of all others, however often they ask at once.
func TestOneSearchOfAnIdentityRunsAtATime(t *testing.T) {
	fake := clocktest.NewFake(time.UnixMilli(1000))
	rights := guardtest.Caller(t, "* *")
	rights.Who = &access.Identity{Name: "token:a"}
	k := start(t, func(cfg *Config, _ *Stores) {
		cfg.Clock = fake
		cfg.edge().LetIn = func(p *control.Proof) (*guard.Caller, error) {
			if p.Token == "other" {
				return &guard.Caller{Permits: rights.Permits, Who: &access.Identity{Name: "token:b"}}, nil
			}
			return rights, nil
		}
	})
	require.Equal(t, http.StatusOK, k.get("/v1/config/search?q=mine").status)
	hold := k.otherSearches() // those asked for below wait
	const many = 5
	answers := make(chan answer, many)
	for range many {
		go func() { answers <- k.get("/v1/config/search?q=mine") }()
	}
	fake.BlockUntil(1 + many)
	other := make(chan answer, 1)
	go func() { other <- k.get("/v1/config/search?q=other", "Authorization: Bearer other") }()
	fake.BlockUntil(2 + many)
	hold[0]()
	hold[1]()
	require.Equal(t, http.StatusOK, (<-other).status)
	for range many {
		require.Equal(t, http.StatusOK, (<-answers).status)
	}

	_, done, err := k.searchers.Begin(t.Context(), "token:a", "x") // a search that runs
	require.NoError(t, err)
	go func() { answers <- k.get("/v1/config/search?q=mine") }()
	fake.BlockUntil(2)
	require.Equal(t, http.StatusOK, k.get("/v1/config/search?q=other", "Authorization: Bearer other").status, "there is a place for others")
	fake.Advance(searchBusy)
	got := <-answers
	require.Equal(t, "busy", errorName(t, got))
	require.Contains(t, got.body, "a search of token:a is already running")
	done()
	require.Equal(t, http.StatusOK, k.get("/v1/config/search?q=mine").status)
}
