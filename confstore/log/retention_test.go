package log_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kv"
)

// at is a change of one document at a time in ms.
func at(ms int64, name, text string) log.Change {
	c := set(name, text)
	c.By.Time = ms
	return c
}

// remove removes versions until there is nothing more to remove.
func (b *bed) remove(keep, before int64) (all log.Removed) {
	b.t.Helper()
	for {
		r, err := b.log.Remove(b.t.Context(), log.Retention{Keep: keep, Before: time.UnixMilli(before), By: log.By{Author: "ann"}})
		require.NoError(b.t, err)
		all.Versions, all.Bytes, all.Chunks, all.Changes, all.Documents = all.Versions+r.Versions, all.Bytes+r.Bytes, all.Chunks+r.Chunks, all.Changes+r.Changes, append(all.Documents, r.Documents...)
		if !r.More {
			return all
		}
	}
}

// archived are the keys of a namespace of the log.
func (b *bed) archived(ns string) (keys []string) {
	b.t.Helper()
	for after := ""; ; {
		page, err := b.store.ListArchive(b.t.Context(), kv.List{NS: "@conf/" + ns, After: after})
		require.NoError(b.t, err)
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
			after = e.Key
		}
		if !page.More {
			return keys
		}
	}
}

// sound asserts that of a document exactly the versions from first on are there, with their texts,
// and that those before are compacted.
func (b *bed) sound(name string, first int, texts []string) {
	b.t.Helper()
	for i, text := range texts {
		v, err := b.log.Version(b.t.Context(), name, int64(i)+1)
		if i+1 < first {
			require.Equal(b.t, codes.Compacted, codes.Of(err), "version %d: %v", i+1, err)
			continue
		}
		require.NoError(b.t, err)
		require.True(b.t, text == string(v.File) || v.Deleted && text == "-")
		_, err = b.log.Change(b.t.Context(), v.Seq)
		require.NoError(b.t, err)
	}
}

func TestOnlyVersionsGoThatAreBothManyAndOld(t *testing.T) {
	for _, c := range []struct {
		keep, before int64
		first        int // version of ten that is left
	}{
		{1000, 1 << 40, 1}, {10, 1 << 40, 1}, {9, 1 << 40, 2}, {1, 1 << 40, 10}, {3, 0, 1}, {3, 1, 1},
		{3, 2, 1}, {3, 3, 2}, {3, 4, 3}, {3, 8, 7}, {3, 9, 8}, {3, 100, 8},
	} {
		b := newBed(t)
		var texts []string
		for i := range 10 {
			texts = append(texts, fmt.Sprint(i+1))
			if i == 4 {
				texts[i] = "-"
			}
			b.commit(at(int64(i+1), "a.json", texts[i]), at(int64(i+1), fmt.Sprintf("%d.json", i), "x"))
		}
		dry, err := b.log.Remove(t.Context(), log.Retention{Keep: c.keep, Before: time.UnixMilli(c.before), DryRun: true})
		require.NoError(t, err)
		b.sound("a.json", 1, texts)
		done := b.remove(c.keep, c.before)
		b.sound("a.json", c.first, texts)
		require.Equal(t, c.first-1, done.Versions, "%+v", c)
		require.Equal(t, c.first-1, done.Changes)
		require.Equal(t, dry.Documents, done.Documents)
		require.Equal(t, dry.Bytes, done.Bytes)
		if c.first > 1 {
			require.Equal(t, []log.RemovedOf{{Name: "a.json", Versions: c.first - 1, First: int64(c.first)}}, done.Documents)
			gone, err := b.log.ChangesGone()
			require.NoError(t, err)
			require.Positive(t, gone)
			_, err = b.log.At(t.Context(), "a.json", gone)
			require.Equal(t, codes.Compacted, codes.Of(err), "%v", err)
			_, err = b.log.At(t.Context(), "a.json", 1)
			require.Equal(t, codes.Compacted, codes.Of(err), "%v", err)
		}
		list, err := b.log.Versions(t.Context(), "a.json", 0, 100)
		require.NoError(t, err)
		require.Len(t, list, 11-c.first)
		require.Zero(t, b.remove(c.keep, c.before).Versions)
		b.open()
		b.commit(at(20, "a.json", "next"))
		b.close()
	}
}

// long is a file of two chunks, the first of which it shares with others of its kind.
func long(kind, n int) string {
	return strings.Repeat(fmt.Sprint(kind), 600<<10) + fmt.Sprint(n)
}

func TestChunksGoThatNoVersionHasAnyMore(t *testing.T) {
	b := newBed(t)
	defer b.close()
	var texts []string
	for i := range 6 {
		texts = append(texts, long(i/3, i)) // two kinds
		b.commit(at(int64(i), "a.json", texts[i]))
	}
	b.commit(at(7, "copy.json", texts[0]))
	before := len(b.archived("chunks"))
	require.Equal(t, 2+6, before, "those of a kind share the one in front")
	done := b.remove(2, 100)
	require.Equal(t, 4, done.Versions)
	require.Equal(t, 3, done.Chunks, "the copy and the newest have the others")
	b.sound("a.json", 5, texts)
	require.Equal(t, texts[0], b.text("copy.json"))
	require.Empty(t, b.archived("freed"))
	b.commit(at(8, "copy.json", "-"), at(9, "copy.json", "1"))
	b.remove(1, 100)
	require.Len(t, b.archived("chunks"), 2, "of the newest version: that in front and its end")
	b.sound("a.json", 6, texts)
}

// writes reports whether a transaction does something to a namespace of the log.
func writes(txn *kv.Txn, kind kv.OpKind, ns string) bool {
	return slices.ContainsFunc(txn.Then, func(op kv.Op) bool { return op.Kind == kind && op.NS == "@conf/"+ns })
}

// A change that is made while chunks are removed may need one of them.
func TestAChangeThatHasAChunkWhichIsBeingRemoved(t *testing.T) {
	b := newBed(t)
	defer b.close()
	b.commit(at(1, "a.json", long(0, 0)), at(2, "a.json", "1"))
	times := 0
	b.store.refuse = func(txn *kv.Txn) {
		if writes(txn, kv.OpDelete, "chunks") && times < 3 {
			times++
			b.commit(at(int64(2+times), "b.json", fmt.Sprint(times)))
			if times == 3 {
				b.commit(at(9, "b.json", long(0, 0)))
			}
		}
	}
	b.remove(1, 3)
	require.Equal(t, 3, times)
	require.Equal(t, long(0, 0), b.text("b.json"))
	require.Len(t, b.archived("chunks"), 2)
}

// A long change writes its chunks before it counts: if they are removed in between, it begins
// anew.
func TestALongChangeWhoseChunksAreRemoved(t *testing.T) {
	b := newBed(t)
	defer b.close()
	b.commit(at(1, "a.json", long(0, 0)), at(2, "a.json", "1"))
	removed := 0
	b.store.refuse = func(txn *kv.Txn) {
		if writes(txn, kv.OpPut, "chunks") && !writes(txn, kv.OpPut, "changes") && removed == 0 {
			removed = -1
			b.store.after = true
		}
		if writes(txn, kv.OpPut, "changes") && removed == -1 {
			removed = -2
			removed = b.remove(1, 3).Chunks
		}
	}
	large := at(5, "b.json", long(0, 0))
	for i := range 3 { // too much to go with the change
		large.Versions = append(large.Versions, set(fmt.Sprintf("more%d.json", i), long(i, 1)).Versions...)
	}
	b.commit(large)
	require.Equal(t, 2, removed, "those that the change had written already")
	require.Equal(t, long(0, 0), b.text("b.json"))
}

// A version that is removed while its file is read is compacted, not damaged.
func TestAVersionThatIsRemovedWhileItIsRead(t *testing.T) {
	b := newBed(t)
	defer b.close()
	b.commit(at(1, "a.json", long(0, 0)), at(2, "a.json", "1"))
	d, err := b.log.Document("a.json")
	require.NoError(t, err)
	v, err := b.log.Find(t.Context(), &d, 1)
	require.NoError(t, err)
	b.remove(1, 100)
	err = b.log.Fill(t.Context(), &v)
	require.Equal(t, codes.Compacted, codes.Of(err), "%v", err)
}
