package log_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
	"confcenter/kv"
)

// entries are all that a log has in its store.
func (b *bed) entries() (list []*kv.Entry) {
	b.t.Helper()
	for _, part := range []string{"/changes", "/chunks", "/completed", "/stage", "/touched", "/versions"} {
		page, err := b.store.ListArchive(context.Background(), kv.List{NS: kv.ConfigNamespace + part})
		require.NoError(b.t, err)
		require.False(b.t, page.More)
		list = append(list, page.Entries...)
	}
	view := b.store.View()
	defer view.Close()
	page, err := view.List(kv.List{NS: kv.ConfigNamespace})
	require.NoError(b.t, err)
	return append(list, page.Entries...)
}

// check checks entries; change may replace one, or leave it out with nil.
func check(list []*kv.Entry, change func(*kv.Entry) *kv.Entry) []string {
	c := log.NewChecker()
	for _, e := range list {
		copied := *e
		if e := change(&copied); e != nil {
			c.Entry(e)
		}
	}
	faults, _, _ := c.End()
	return faults
}

func same(e *kv.Entry) *kv.Entry { return e }

func TestACheckerFindsWhatIsMissingOrAnother(t *testing.T) {
	b := newBed(t)
	defer b.close()
	b.commit(set("a.json", `{"a":1}`), set("a.json", `{"a":2}`), set("gone.json", `{}`), set("gone.json", "-"), set("long.json", strings.Repeat("x", 600_000)),
		set("mid.json", "1"), set("mid.json", "2"), set("mid.json", "3"))
	list := b.entries()
	require.Empty(t, check(list, same))
	without := func(ns, part string) func(*kv.Entry) *kv.Entry {
		return func(e *kv.Entry) *kv.Entry {
			if e.NS == ns && strings.HasPrefix(e.Key, part) {
				return nil
			}
			return e
		}
	}
	changed := func(ns, part, from, to string) func(*kv.Entry) *kv.Entry {
		return func(e *kv.Entry) *kv.Entry {
			if e.NS == ns && strings.HasPrefix(e.Key, part) {
				e.Value.Data = []byte(strings.Replace(string(e.Value.Data), from, to, 1))
			}
			return e
		}
	}
	const versions, chunks, made = kv.ConfigNamespace + "/versions", kv.ConfigNamespace + "/chunks", kv.ConfigNamespace + "/changes"
	for want, change := range map[string]func(*kv.Entry) *kv.Entry{
		"document a.json: its newest version, 2, is missing": without(versions, "a.json//0000000002"),
		"version long.json//0000000001: chunk":               without(chunks, ""),
		"is not what its name says":                          changed(chunks, "", "x", "y"),
		"the file is not what was written":                   changed(versions, "a.json//0000000001", `"a":1`, `"a":3`),
		"document gone.json is not its newest version":       changed(kv.ConfigNamespace, "doc/gone.json", `"deleted":true`, `"deleted":false`),
		"damaged: doc/a.json":                                changed(kv.ConfigNamespace, "doc/a.json", "{", "["),
		"no change has made it":                              without(made, ""),
		"is not what it made":                                changed(made, "", `"kind":"created"`, `"kind":"deleted"`),
		"names 1 documents of 2":                             changed(made, "", `"count":1`, `"count":2`),
		"mid.json//0000000002, which it made, is missing":    without(versions, "mid.json//0000000002"),
	} {
		faults := check(list, change)
		require.NotEmpty(t, faults, want)
		require.Contains(t, strings.Join(faults, "\n"), want)
	}
	require.Empty(t, check(list, without(versions, "a.json//0000000001")), "older versions may be gone")
}

// After a restore no document is served as a version that a client may have seen, and nothing else
// of it is another.
func TestReissueRaisesWhatIsServed(t *testing.T) {
	b := newBed(t)
	defer b.close()
	changes := []log.Change{}
	for _, name := range strings.Fields(strings.Repeat("n", 200) + " a.json gone.json") {
		changes = append(changes, set(name, `{}`))
	}
	for i := range 300 {
		changes = append(changes, set("many/"+strings.Repeat("x", i)+".json", `{}`))
	}
	b.commit(append(changes, set("gone.json", "-"))...)
	before, _, err := b.log.Behind(0)
	require.NoError(t, err)
	require.NoError(t, b.log.Reissue(context.Background(), 5))
	require.NoError(t, b.log.Reissue(context.Background(), 1000))
	b.open()
	after, _, err := b.log.Behind(0)
	require.NoError(t, err)
	require.Len(t, after, len(before))
	for i, d := range before {
		d.Served = 1000
		require.Equal(t, d, after[i])
	}
	require.Empty(t, check(b.entries(), same))
}
