package confstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/revisions"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// everything is what a follower of all documents wants.
var everything = []kv.Filter{{NS: revisions.Own}, {NS: revisions.Resolved}}

// revisionTexts says of changes all that followers learn from them.
func revisionTexts(changes []kv.Change) (list []string) {
	of := func(e *kv.Entry) string {
		if e == nil {
			return "nothing"
		}
		return fmt.Sprintf("%s as of %ds", e.Value.Data, e.Updated/1000)
	}
	for _, c := range changes {
		for _, e := range c.Events {
			prev := "nothing"
			if e.Prev != nil {
				prev = string(e.Prev.Value.Data)
			}
			list = append(list, fmt.Sprintf("%d %s %s %s: %s, after %s", c.Revision, e.Kind, e.Entry.NS, e.Entry.Key, of(e.Entry), prev))
		}
	}
	return list
}

// readBack reads changes as a follower does who was away, a few at a time.
func (m *memKit) readBack(after kv.Revision, maxBytes int, filters ...kv.Filter) (list []kv.Change) {
	m.t.Helper()
	r := revisions.New(m.writer.log, &m.publisher.exact, m.Store.cfg.Caches.Limit()/2) // which keeps none
	for {
		if after >= r.Revision() {
			return list
		}
		page, err := r.ChangesOf(context.Background(), filters, after, maxBytes)
		require.NoError(m.t, err)
		if len(page) == 0 {
			return list
		}
		for _, c := range page {
			require.Greater(m.t, c.Revision, after)
			after = c.Revision
		}
		list = append(list, page...)
	}
}

// followAll collects what is told from now on, what has to be read back included.
func (m *memKit) followAll() (told func() []kv.Change) {
	m.t.Helper()
	r := m.Revisions()
	for _, f := range everything {
		m.t.Cleanup(r.Want(f))
	}
	at := r.Revision()
	batches := make(chan *kv.Batch, 10_000)
	m.t.Cleanup(r.Follow(func(b *kv.Batch) { batches <- b }))
	var list []kv.Change
	return func() []kv.Change {
		for at < r.Revision() {
			b := <-batches
			switch {
			case b.Last() <= at:
			case b.Reset:
				for _, c := range m.readBack(at, 1<<20, everything...) {
					list, at = append(list, c), c.Revision
				}
				at = max(at, b.Last())
			default:
				list, at = append(list, b.Changes...), b.Last()
			}
		}
		return list
	}
}

func TestWhatIsServedUnsavedIsToldOnceItIsSaved(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"n":1}`})
	told := m.followAll()
	full := m.cfg.State.(interface{ SetFull(bool) })
	full.SetFull(true)
	before := m.Revisions().Revision()
	m.edit("a.json", `{"n":2}`, 2000)
	m.edit("b.json", `{"n":3}`, 2000)
	require.Equal(t, `{"n":2}`, m.text("a.json"), "it is served")
	require.Equal(t, before, m.Revisions().Revision())
	e, _ := m.Revisions().Get([]byte(revisions.Own), []byte("a.json"))
	require.Equal(t, `{"n":1}`, string(e.Value.Data), "what is not in the log is not there")
	full.SetFull(false)
	m.await("the edits are saved", func() bool { m.clock.Advance(time.Minute); return m.Revisions().Revision() > before })
	changes := told()
	require.Len(t, changes, 1, "they are one revision")
	require.Len(t, changes[0].Events, 4)
	m.setAt("a.json", `{"n":4}`, 3000)
	require.Len(t, told(), 2)
}

func TestRevisionsThatAreNotKeptAreCompacted(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"n":1}`})
	begin := m.Revisions().Revision()
	m.mustSet("a.json", `{"n":2}`)
	m.mustSet("a.json", `{"n":3}`)
	m.inside(func() {
		txn := &kv.Txn{System: true, Then: []kv.Op{{Kind: kv.OpDelete, NS: "@conf/versions", Key: "a.json//0000000001"}}}
		_, err := kv.Commit(t.Context(), m.cfg.State, txn)
		require.NoError(t, err)
	})
	_, err := m.Revisions().ChangesOf(t.Context(), everything, begin, 1<<20)
	require.Equal(t, codes.Compacted, codes.Of(err), err)
	_, err = m.Revisions().ChangesOf(t.Context(), everything, m.Revisions().Revision()+1, 1<<20)
	require.Equal(t, codes.FutureRevision, codes.Of(err), err)
	list, err := m.Revisions().ChangesOf(t.Context(), []kv.Filter{{NS: revisions.Own, Text: "b"}}, begin, 1<<20)
	require.NoError(t, err, "nothing of others is needed")
	require.Empty(t, list)
}

func TestRevisionsListWhatThereIs(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"n":1}`, "c.json": `{"c":1}`, "x/y.json": `1`, "_meta.json": `{"conf_inherit":{"b.json":"a.json","c.json":"a.json"}}`})
	m.mustSet("gone.json", `{}`)
	m.remove("gone.json")
	list := func(ns, prefix, after string, limit int) (out []string, more bool) {
		v := m.Revisions().View()
		defer v.Close()
		page, err := v.List(kv.List{NS: ns, Prefix: prefix, After: after, Limit: limit})
		require.NoError(t, err)
		for _, e := range page.Entries {
			out = append(out, e.Key+string(e.Value.Data))
		}
		return out, page.More
	}
	got, more := list(revisions.Own, "", "_meta.json", 0)
	require.Equal(t, []string{`a.json{"n":1}`, `c.json{"c":1}`, `x/y.json1`}, got)
	require.False(t, more)
	got, more = list(revisions.Resolved, "", "_meta.json", 2)
	require.Equal(t, []string{`a.json{"n":1}`, `b.json{"n":1}`}, got)
	require.True(t, more)
	got, more = list(revisions.Resolved, "", "b.json", 2)
	require.Equal(t, []string{`c.json{"n":1,"c":1}`, `x/y.json1`}, got)
	require.False(t, more)
	got, _ = list(revisions.Own, "x/", "", 0)
	require.Len(t, got, 1)
}

// TestARevisionOfTooManyHeirsIsNotMade changes a base of so many heirs that what it makes of all of
// them takes more memory than there is for that: a follower of all begins anew, others are told.
func TestARevisionOfTooManyHeirsIsNotMade(t *testing.T) {
	files := map[string]string{"base.json": `{"n":0}`}
	var heirs []string
	for i := range 40 {
		name := fmt.Sprintf("h%d.json", i)
		files[name] = fmt.Sprintf(`{"own":%d}`, i)
		heirs = append(heirs, fmt.Sprintf(`%q:"base.json"`, name))
	}
	files["_meta.json"] = `{"conf_inherit":{` + strings.Join(heirs, ",") + `}}`
	m := newMemKit(t, files)
	m.cfg.Caches = memory.NewPool(1 << 20)
	m.reopen()
	batches := make(chan *kv.Batch, 10)
	for _, f := range everything {
		m.t.Cleanup(m.Revisions().Want(f))
	}
	m.t.Cleanup(m.Revisions().Follow(func(b *kv.Batch) { batches <- b }))
	begin := m.Revisions().Revision()
	m.mustSet("base.json", `{"n":1}`)
	require.Len(t, (<-batches).Changes[0].Events, 42)
	long := strings.Repeat("x", 50_000)
	before := m.Revisions().Revision()
	m.mustSet("base.json", fmt.Sprintf(`{"s":%q}`, long))
	b := <-batches
	require.True(t, b.Reset)
	require.Empty(t, b.Changes[0].Events)
	require.EqualValues(t, 1, m.Stats().Lapses)
	made := 0
	for i := range 40 {
		if _, ready := m.Snapshot().Node(fmt.Sprintf("h%d.json", i)).Contents(true); ready { // it is too long to be made there
			made++
		}
	}
	require.LessOrEqual(t, made, 12, "it is not made first")

	list, err := m.Revisions().ChangesOf(t.Context(), everything, begin, 1<<30)
	require.NoError(t, err)
	require.Len(t, list, 1, "what came before is told")
	_, err = m.Revisions().ChangesOf(t.Context(), everything, before, 1<<30)
	require.Equal(t, codes.Compacted, codes.Of(err), err)
	one := []kv.Filter{{NS: revisions.Resolved, Text: "h7.json", Exact: true}, {NS: revisions.Own}}
	list, err = m.Revisions().ChangesOf(t.Context(), one, before, 1<<30)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Len(t, list[0].Events, 2)
	m.mustSet("h1.json", `{}`)
	require.Len(t, (<-batches).Changes[0].Events, 2, "and so is what comes after")
}
