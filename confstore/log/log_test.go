package log_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is a log on a store that may be killed at any transaction.
type bed struct {
	t     testing.TB
	store *mortal
	log   *log.Log
}

// mortal is a store as a process has it that is killed at a transaction: before it is applied,
// or after. left -1: it is not.
type mortal struct {
	kvstore.Engine
	left    int
	after   bool
	refuse  func(*kv.Txn) // changes a transaction so that it fails
	largest struct{ ops, bytes int }
}

var errKilled = codes.Errorf(codes.Closed, "killed")

func (m *mortal) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	m.largest.ops = max(m.largest.ops, len(txn.Then)+len(txn.If))
	m.largest.bytes = max(m.largest.bytes, txn.Size())
	if m.refuse != nil {
		m.refuse(txn)
	}
	if m.left < 0 {
		return m.Engine.Commit(txn, done)
	}
	if m.left == 0 {
		return errKilled
	}
	if m.left--; m.left == 0 && !m.after {
		return errKilled
	}
	if m.left > 0 {
		return m.Engine.Commit(txn, done)
	}
	return m.Engine.Commit(txn, func(*kv.Result, error) { done(nil, errKilled) })
}

// CommitEach is Commit for each.
func (m *mortal) CommitEach(caller kv.Caller, writes []*kv.Write) (taken int, err error) {
	for _, w := range writes {
		if err := m.Commit(w.Txn, func(res *kv.Result, err error) {
			if w.Err = err; err == nil {
				w.Result = *res
			}
			caller.Committed([]*kv.Write{w})
		}); err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

func newBed(t testing.TB) *bed {
	engine := memory.New(memory.Config{})
	b := &bed{t: t, store: &mortal{Engine: engine, left: -1}}
	b.open()
	return b
}

func (b *bed) close() { require.NoError(b.t, b.store.Close()) }

// open opens the log as the next process does.
func (b *bed) open() {
	b.t.Helper()
	b.store.left = -1
	log, err := log.Open(context.Background(), b.store, "")
	require.NoError(b.t, err)
	b.log = log
}

func (b *bed) commit(list ...log.Change) []kv.Revision {
	b.t.Helper()
	revs, err := b.log.Commit(context.Background(), list)
	require.NoError(b.t, err)
	require.Len(b.t, revs, len(list))
	return revs
}

// set is a change of one document; text "-": it is deleted.
func set(name, text string) log.Change {
	v := log.Version{Name: name, Served: 10, Given: 9, Deleted: text == "-"}
	if !v.Deleted {
		v.File = []byte(text)
	}
	return log.Change{By: log.By{Author: "ann", Origin: "tcp", Peer: "1.2.3.4:5", Comment: "because", Time: 77}, Versions: []log.Version{v}}
}

// text is the newest file of a name; "-" if it is deleted, "" if it is not known.
func (b *bed) text(name string) string {
	b.t.Helper()
	d, err := b.log.Document(name)
	require.NoError(b.t, err)
	if d.N == 0 {
		return ""
	}
	v, err := b.log.Version(context.Background(), name, d.N)
	require.NoError(b.t, err)
	require.Equal(b.t, d.Hash, v.Hash)
	require.Equal(b.t, d.Seq, v.Seq)
	require.Equal(b.t, d.Revision, v.Revision)
	require.Equal(b.t, d.Deleted, v.Deleted)
	if v.Deleted {
		return "-"
	}
	return string(v.File)
}

func TestAChangeIsOneRevisionWithAllThereIsToKnow(t *testing.T) {
	b := newBed(t)
	defer b.close()
	require.Len(t, b.log.Epoch(), 32)
	before := b.store.Revision()
	revs := b.commit(set("a.json", `{"n":1}`), set("b/c.json", "{}"), set("a.json", `{"n":2}`))
	require.Equal(t, []kv.Revision{before + 1, before + 2, before + 3}, revs)
	list, err := b.log.Versions(t.Context(), "a.json", 0, 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.EqualValues(t, 2, list[0].N)
	require.Equal(t, revs[2], list[0].Revision)
	require.Equal(t, revs[0], list[1].Revision)
	require.Equal(t, `{"n":1}`, string(list[1].File))
	made, err := b.log.Change(t.Context(), list[0].Seq)
	require.NoError(t, err)
	require.Equal(t, revs[2], made.Revision)
	require.Equal(t, log.By{Author: "ann", Origin: "tcp", Peer: "1.2.3.4:5", Comment: "because", Time: 77}, made.By)
	require.Equal(t, []log.Touch{{Name: "a.json", N: 2, Kind: log.Changed}}, made.First)
	_, err = b.log.Version(t.Context(), "a.json", 3)
	require.Equal(t, codes.NotFound, codes.Of(err), "%v", err)

	epoch := b.log.Epoch()
	b.open()
	require.Equal(t, epoch, b.log.Epoch())
	require.Equal(t, `{"n":2}`, b.text("a.json"))
	other, err := log.Open(t.Context(), b.store, "another")
	require.NoError(t, err)
	require.Equal(t, "another", other.Epoch())
	require.Equal(t, `{"n":2}`, b.text("a.json"))
}

func TestListsOfBasesBelongToKnownDocuments(t *testing.T) {
	b := newBed(t)
	defer b.close()
	c := set("a.json", "{}")
	c.Lists = []log.List{{Name: "a.json", Floor: 20, Digest: log.DigestOf([]byte("x"))}, {Name: "ghost.json", Floor: 5}}
	b.commit(c)
	for range 2 {
		d, err := b.log.Document("a.json")
		require.NoError(t, err)
		require.EqualValues(t, 20, d.Floor)
		require.Equal(t, log.DigestOf([]byte("x")), d.Bases)
		require.Empty(t, b.text("ghost.json"))
		b.commit(set("a.json", "[]")) // which leaves the list alone
	}
	b.commit(set("a.json", "[]"), log.Change{Lists: []log.List{{Name: "a.json", Floor: 21}}})
	d, err := b.log.Document("a.json")
	require.NoError(t, err)
	require.EqualValues(t, 21, d.Floor)
	require.Equal(t, "[]", b.text("a.json"), "its revision is that of its version")
}

func TestAfterAChangeThatFailsNothingFollows(t *testing.T) {
	b := newBed(t)
	defer b.close()
	first := b.commit(set("a.json", "0"))
	b.store.refuse = func(txn *kv.Txn) {
		if slices.ContainsFunc(txn.Then, func(op kv.Op) bool { return op.Key == "doc/b.json" }) {
			txn.If = append(txn.If, kv.Compare{NS: "x", Key: "x", Target: kv.CompareVersion, Relation: kv.Equal, Number: 1})
		}
	}
	revs, err := b.log.Commit(t.Context(), []log.Change{set("a.json", "1"), set("b.json", "1"), set("a.json", "2"), set("c.json", "2")})
	require.Equal(t, codes.Conflict, codes.Of(err), "%v", err)
	require.Len(t, revs, 1)
	require.Equal(t, "1", b.text("a.json"))
	require.Empty(t, b.text("c.json"))
	list, newest, err := b.log.Behind(first[0])
	require.NoError(t, err)
	require.EqualValues(t, 2, newest)
	require.Len(t, list, 1)
	require.Equal(t, "a.json", list[0].Name)
	b.store.refuse = nil
	b.commit(set("b.json", "3"), set("a.json", "4"))
	require.Equal(t, "3 4", b.text("b.json")+" "+b.text("a.json"))
}

// Of a change whose chunks are written before it, all or nothing is seen, at whichever of them the
// process is killed.
func TestKilledInTheMiddleOfALargeChange(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	large := log.Change{By: log.By{Author: "git"}}
	for i := range 300 {
		large.Versions = append(large.Versions, set(fmt.Sprintf("many/%03d.json", i), fmt.Sprint(i)).Versions...)
	}
	large.Versions = append(large.Versions, set("long.json", long).Versions...)
	large.Lists = []log.List{{Name: "heir.json", Floor: 30}}
	for _, after := range []bool{false, true} {
		done := false
		for moment := 1; !done; moment++ {
			b := newBed(t)
			b.commit(set("heir.json", "old"), set("many/007.json", "old"))
			b.store.left, b.store.after = moment, after
			revs, err := b.log.Commit(t.Context(), []log.Change{large})
			done = b.store.left > 0
			b.open()
			d, derr := b.log.Document("heir.json")
			require.NoError(t, derr)
			is := d.Floor == 30
			require.True(t, is || err != nil, "what was acknowledged is there")
			if is {
				require.Equal(t, long, b.text("long.json"))
				require.Equal(t, "7", b.text("many/007.json"))
				require.Equal(t, "299", b.text("many/299.json"))
				list, err := b.log.Versions(t.Context(), "many/007.json", 0, 5)
				require.NoError(t, err)
				require.Len(t, list, 2)
				if len(revs) > 0 {
					require.Equal(t, revs[0], list[0].Revision)
				}
				v, err := b.log.Version(t.Context(), "many/008.json", 1)
				require.NoError(t, err)
				require.Equal(t, list[0].Revision, v.Revision, "it is one revision")
			} else {
				require.Empty(t, b.text("long.json"))
				require.Equal(t, "old", b.text("many/007.json"))
				require.Empty(t, b.text("many/299.json"))
			}
			b.commit(set("many/007.json", "next"))
			require.Equal(t, "next", b.text("many/007.json"))
			list, err := b.log.Versions(t.Context(), "many/007.json", 0, 5)
			require.NoError(t, err)
			require.Equal(t, is, len(list) == 3)
			b.close()
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	b := newBed(t)
	defer b.close()
	long := strings.Repeat("y", 1<<20)
	b.commit(set("a.json", long))
	v, err := b.log.Version(t.Context(), "a.json", 1)
	require.NoError(t, err)
	require.Len(t, v.Chunks, 2)
	for _, txn := range []kv.Op{
		{Kind: kv.OpPut, NS: "@conf/chunks", Key: v.Chunks[0].String(), Value: kv.BytesValue([]byte("z"))},
		{Kind: kv.OpDelete, NS: "@conf/chunks", Key: v.Chunks[0].String()},
		{Kind: kv.OpPut, NS: "@conf/versions", Key: "a.json//0000000001", Value: kv.BytesValue([]byte("{"))},
	} {
		_, err := kv.Commit(t.Context(), b.store, &kv.Txn{System: true, Then: []kv.Op{txn}})
		require.NoError(t, err)
		_, err = b.log.Version(t.Context(), "a.json", 1)
		require.Equal(t, codes.Storage, codes.Of(err), "%v", err)
		require.ErrorContains(t, err, "restore the data directory from a backup")
	}
}

// history is a run of random changes beside a list that remembers them all.
type history struct {
	bed
	r    *rapid.T
	past map[string][]kept // by name, oldest first
}

type kept struct {
	rev  kv.Revision
	text string
}

func (h *history) change(least, most int) {
	var list []log.Change
	var texts []map[string]string
	for range rapid.IntRange(1, 3).Draw(h.r, "changes") {
		c, is := log.Change{}, map[string]string{}
		for range rapid.IntRange(least, most).Draw(h.r, "documents") {
			name := fmt.Sprintf("%d.json", rapid.IntRange(0, 2*most).Draw(h.r, "name"))
			text := rapid.SampledFrom([]string{"-", "", "short", strings.Repeat("long", 2000)}).Draw(h.r, "text")
			c.Versions = append(c.Versions, set(name, text).Versions...)
			is[name] = text
		}
		list, texts = append(list, c), append(texts, is)
	}
	for i, rev := range h.commit(list...) {
		for name, text := range texts[i] {
			h.past[name] = append(h.past[name], kept{rev, text})
		}
	}
}

func (h *history) compare() {
	docs, _, err := h.log.Behind(0)
	require.NoError(h.t, err)
	require.Len(h.t, docs, len(h.past))
	names := slices.Sorted(maps.Keys(h.past))
	if len(names) == 0 {
		return
	}
	name := rapid.SampledFrom(names).Draw(h.r, "look at")
	past := h.past[name]
	require.Equal(h.t, past[len(past)-1].text, h.text(name))
	before, limit := rapid.IntRange(0, len(past)+1).Draw(h.r, "before"), rapid.IntRange(1, 4).Draw(h.r, "limit")
	list, err := h.log.Versions(context.Background(), name, int64(before), limit)
	require.NoError(h.t, err)
	newest := len(past)
	if before > 0 {
		newest = min(newest, before-1)
	}
	require.Len(h.t, list, min(limit, newest))
	for i, v := range list {
		require.EqualValues(h.t, newest-i, v.N)
		require.Equal(h.t, past[v.N-1].rev, v.Revision)
	}
	at := rapid.IntRange(0, len(past)-1).Draw(h.r, "at")
	for _, rev := range []kv.Revision{past[at].rev - 1, past[at].rev} {
		v, err := h.log.At(context.Background(), name, rev)
		require.NoError(h.t, err)
		want := 0
		for _, k := range past {
			if k.rev <= rev {
				want++
			}
		}
		require.EqualValues(h.t, want, v.N)
		if want > 0 && !v.Deleted {
			require.Equal(h.t, past[want-1].text, string(v.File))
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	bed := newBed(b)
	defer bed.close()
	list := make([]log.Change, 16)
	text := strings.Repeat("x", 1000)
	for i := range list {
		list[i] = set(fmt.Sprintf("%d.json", i), text)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		_, err := bed.log.Commit(b.Context(), list)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(len(list)*b.N)/b.Elapsed().Seconds(), "changes/s")
}
