package kvstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

func (b *bench) fill(n int) {
	var ops []kv.Op
	for i := range n {
		ops = append(ops, put(fmt.Sprintf("%04d", i), "v"))
	}
	b.must(ops...)
}

func TestListsWalkInSlices(t *testing.T) {
	b := onFake(t, Config{})
	b.fill(3 * sliceKeys)
	b.must(put("0000", "longer"))
	v := b.View()
	defer v.Close()
	page, err := v.List(kv.List{NS: "a"})
	require.NoError(t, err)
	require.Len(t, page.Entries, 3*sliceKeys)
	require.False(t, page.More)
	page, err = v.List(kv.List{NS: "a", Prefix: "1"})
	require.NoError(t, err)
	require.Len(t, page.Entries, 3*sliceKeys-1000)
	page, err = v.List(kv.List{NS: "a", After: "1000x", Limit: 3})
	require.NoError(t, err)
	require.Equal(t, "1001", page.Entries[0].Key)
	require.True(t, page.More)
	page, err = v.List(kv.List{NS: "a", MaxBytes: 11})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2, "it stops behind the entry that reaches the limit")
	page, err = v.List(kv.List{NS: "a", Prefix: "00", CountOnly: true, After: "0050", Limit: 1})
	require.NoError(t, err)
	require.Equal(t, kv.Page{Revision: 2, Count: 100}, page)
	page, err = v.List(kv.List{NS: "a", Prefix: "0", After: "2"})
	require.NoError(t, err)
	require.Empty(t, page.Entries)
	page, err = v.List(kv.List{NS: "nothing"})
	require.NoError(t, err)
	require.Empty(t, page.Entries)
}

func TestNamespacesComeInSlices(t *testing.T) {
	b := onFake(t, Config{})
	b.index.slice = 4
	for i := range 10 {
		b.must(kv.Op{Kind: kv.OpPut, NS: fmt.Sprint("n", i), Key: "k", Value: kv.IntValue(1)})
	}
	list, more := b.Namespaces("", 0)
	require.Len(t, list, 10)
	require.False(t, more)
	list, more = b.Namespaces("n3", 5)
	require.Len(t, list, 5)
	require.Equal(t, "n4", list[0].Name)
	require.True(t, more)
	list, more = b.Namespaces("n4", 5)
	require.Len(t, list, 5)
	require.False(t, more)
}

func TestViewsThatKeepTooMuchAreEnded(t *testing.T) {
	b := onFake(t, Config{Queues: memory.NewPool(queueShares * 1000)})
	b.must(put("k", "1"))
	old, young := b.View(), b.View()
	b.must(put("k", string(make([]byte, 2000))))
	b.settled()
	e, err := old.Get("a", "k")
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value.Data))
	now := b.View()
	b.must(put("k", "3"))
	b.settled()
	for _, v := range []kv.View{old, young, now} {
		_, err = v.Get("a", "k")
		require.ErrorIs(t, err, codes.Compacted)
		_, err = v.List(kv.List{NS: "a"})
		require.ErrorIs(t, err, codes.Compacted)
		v.Close()
	}
	require.Zero(t, b.index.keptBytes)
	require.EqualValues(t, 3, b.Stats().ViewsCut)
	require.Zero(t, b.Stats().Views)
}

func TestViewsThatAreOpenForTooLongAreEnded(t *testing.T) {
	b := onFake(t, Config{ViewAge: time.Minute})
	b.must(put("k", "1"))
	v := b.View()
	b.clock.Advance(time.Hour)
	_, err := v.Get("a", "k")
	require.NoError(t, err, "it costs nothing as long as nothing changes")
	b.must(put("k", "2"))
	b.settled()
	_, err = v.Get("a", "k")
	require.ErrorIs(t, err, codes.Compacted)
	v.Close()

	v = b.View()
	opened := b.clock.Now()
	b.must(put("k", "3"))
	require.Eventually(t, func() bool { // without a commit, too
		b.clock.Advance(time.Second)
		return b.Stats().ViewsCut == 2
	}, 10*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, b.clock.Now().Sub(opened), time.Minute)
	v.Close()
}

func TestClosingAViewFreesWhatItKept(t *testing.T) {
	b := onFake(t, Config{})
	b.fill(2000)
	v := b.View()
	b.must(kv.Op{Kind: kv.OpDeletePrefix, NS: "a", Confirm: "a"})
	b.settled()
	page, err := v.List(kv.List{NS: "a"})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2000)
	require.True(t, b.index.views.keeping.Load())
	v.Close()
	require.Eventually(t, func() bool { return !b.index.views.keeping.Load() }, 10*time.Second, time.Millisecond)
	b.index.mu.RLock()
	defer b.index.mu.RUnlock()
	require.Empty(t, b.index.spaces.of)
}
