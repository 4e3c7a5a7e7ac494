package kvstore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
)

// desk is a caller that passes on what it is given back.
type desk chan []*kv.Write

func (d desk) Committed(writes []*kv.Write) { d <- writes }

func writesOf(txns ...*kv.Txn) []*kv.Write {
	list := make([]*kv.Write, len(txns))
	for i, txn := range txns {
		list[i] = &kv.Write{Txn: txn, For: i}
	}
	return list
}

func increments(n int) (list []*kv.Txn) {
	for range n {
		list = append(list, &kv.Txn{Then: []kv.Op{incr("k", 1)}})
	}
	return list
}

// Callers are told once for each group, of all that is theirs and in their order.
func TestEachCallerIsToldOnceForEachGroup(t *testing.T) {
	b := gated(t, Config{})
	first, one, other := make(desk, 10), make(desk, 10), make(desk, 10)
	taken, err := b.CommitEach(first, writesOf(increments(1)...))
	require.NoError(t, err)
	require.Equal(t, 1, taken)
	<-b.disk.entered
	for range 3 {
		taken, err = b.CommitEach(one, writesOf(increments(100)...))
		require.NoError(t, err)
		require.Equal(t, 100, taken)
		taken, err = b.CommitEach(other, writesOf(&kv.Txn{Then: []kv.Op{put("text", "x")}}, &kv.Txn{Then: []kv.Op{incr("text", 1)}}))
		require.NoError(t, err)
		require.Equal(t, 2, taken)
	}
	alone := b.begin(increments(1)[0])
	b.disk.gate <- struct{}{}
	require.Equal(t, "1", string((<-first)[0].Result.Ops[0].Entry.Value.Data))
	b.allow()
	require.Equal(t, "302", string((<-alone).result.Ops[0].Entry.Value.Data))
	for n, w := range <-one {
		require.NoError(t, w.Err)
		require.Equal(t, n%100, w.For)
		require.Equal(t, fmt.Sprint(n+2), string(w.Result.Ops[0].Entry.Value.Data))
	}
	for n, w := range <-other {
		require.Equal(t, n%2, w.For)
		require.Equal(t, n%2 == 1, codes.Of(w.Err) == codes.WrongType, "%v", w.Err)
	}
	require.Empty(t, one)
	require.Empty(t, other)
	require.EqualValues(t, 2, b.Stats().Groups)
}

// What is given back may be used again, and then tells only of what it was used for.
func TestWritesAreUsedAgain(t *testing.T) {
	b := onFake(t, Config{})
	d := make(desk, 1)
	w := writesOf(&kv.Txn{TokenNS: "a", Token: "t", Then: []kv.Op{put("k", "1")}})
	w[0].Txn.Then[0].WantPrev = true
	b.must(put("k", "0"))
	for range 3 {
		_, err := b.CommitEach(d, w)
		require.NoError(t, err)
		w = <-d
		require.NoError(t, w[0].Err)
		require.Equal(t, "0", string(w[0].Result.Ops[0].Prev.Value.Data), "the same, by its token")
	}
	require.True(t, w[0].Result.Replayed)
	*w[0].Txn = kv.Txn{Then: []kv.Op{incr("k", 1), incr("n", 1)}}
	_, err := b.CommitEach(d, w)
	require.NoError(t, err)
	require.ErrorIs(t, (<-d)[0].Err, codes.WrongType)
	*w[0].Txn = kv.Txn{Then: []kv.Op{incr("n", 1)}}
	_, err = b.CommitEach(d, w)
	require.NoError(t, err)
	w = <-d
	require.NoError(t, w[0].Err)
	require.False(t, w[0].Result.Replayed)
	require.Len(t, w[0].Result.Ops, 1)
	require.Nil(t, w[0].Result.Ops[0].Prev)
	require.Equal(t, "1", b.text("a", "n"))
}

func TestCommitEachStopsAtWhatIsNotTaken(t *testing.T) {
	b := gated(t, Config{MaxQueue: 40})
	d := make(desk, 10)
	bad := writesOf(increments(50)...)
	bad[35].Txn = kv.PutTxn("a", "", kv.IntValue(1))
	taken, err := b.CommitEach(d, bad)
	require.ErrorIs(t, err, codes.BadKey)
	require.Equal(t, 35, taken)
	taken, err = b.CommitEach(d, bad[36:])
	require.ErrorIs(t, err, codes.Busy)
	require.Equal(t, 5, taken)
	require.EqualValues(t, 1, b.Stats().Busy)
	for n := 0; n < 40; {
		select {
		case <-b.disk.entered:
			b.disk.gate <- struct{}{}
		case writes := <-d:
			n += len(writes)
			require.LessOrEqual(t, n, 40)
		}
	}
	require.Equal(t, "40", b.text("a", "k"))
}

// Every caller is told, also when writing fails.
func TestEachCallerIsToldThatWritingHasFailed(t *testing.T) {
	b := gated(t, Config{})
	d := make(desk, 10)
	_, err := b.CommitEach(d, writesOf(increments(1)...))
	require.NoError(t, err)
	<-b.disk.entered
	_, err = b.CommitEach(d, writesOf(increments(10)...))
	require.NoError(t, err)
	b.disk.mu.Lock()
	b.disk.fail = codes.Internal
	b.disk.mu.Unlock()
	b.disk.gate <- struct{}{}
	require.ErrorIs(t, (<-d)[0].Err, codes.Timeout)
	for n := 0; n < 10; {
		writes := <-d
		n += len(writes)
		for _, w := range writes {
			require.ErrorIs(t, w.Err, codes.Storage)
		}
	}
}
