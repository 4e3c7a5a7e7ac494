package client

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

func TestKVConditions(t *testing.T) {
	_, _, n := space(t)
	ctx := t.Context()
	_, err := n.PutInt(ctx, "k", 1, IfMod(7))
	require.ErrorIs(t, err, codes.Conflict)
	require.ErrorContains(t, err, "absent")
	first, err := n.PutInt(ctx, "k", 1, IfAbsent())
	require.NoError(t, err)
	stands, err := n.PutInt(ctx, "k", 2, IfAbsent())
	require.ErrorIs(t, err, codes.Conflict)
	require.ErrorContains(t, err, fmt.Sprint("revision ", first.Revision))
	require.Equal(t, "k=1@"+fmt.Sprint(first.Revision), text(stands.Entry))
	second, err := n.PutInt(ctx, "k", 2, IfMod(first.Revision), WithPrev())
	require.NoError(t, err)
	require.EqualValues(t, 2, second.Entry.Version)
	require.Equal(t, text(stands.Entry), text(second.Prev))

	_, err = n.Incr(ctx, "k", 1, IfMod(first.Revision)) // no command of its own: a transaction
	require.ErrorIs(t, err, codes.Conflict)
	sum, err := n.Incr(ctx, "k", 1, IfMod(second.Revision))
	require.NoError(t, err)
	require.EqualValues(t, 3, sum)

	_, err = n.Delete(ctx, "k", IfMod(first.Revision))
	require.ErrorIs(t, err, codes.Conflict)
	gone, err := n.Delete(ctx, "k", WithPrev())
	require.NoError(t, err)
	require.EqualValues(t, 1, gone.Count)
	require.Nil(t, gone.Entry)
	require.Equal(t, "3", string(gone.Prev.Value.Data))
	gone, err = n.Delete(ctx, "k")
	require.NoError(t, err)
	require.Zero(t, gone.Count)
}

func TestKVCompareAndSwap(t *testing.T) {
	_, _, n := space(t)
	ctx := t.Context()
	a, b := kv.StringValue("1"), kv.BytesValue([]byte{0, '}', 1})
	_, err := n.CAS(ctx, "k", &a, b)
	require.ErrorIs(t, err, codes.Conflict)
	_, err = n.CAS(ctx, "k", nil, a)
	require.NoError(t, err)
	stands, err := n.CAS(ctx, "k", nil, b)
	require.ErrorIs(t, err, codes.Conflict)
	require.Equal(t, a, stands.Entry.Value)
	one := kv.IntValue(1)
	_, err = n.CAS(ctx, "k", &one, b)
	require.ErrorIs(t, err, codes.Conflict, "the same text, but another type")
	_, err = n.CAS(ctx, "k", &a, b)
	require.NoError(t, err)
	stands, err = n.CAS(ctx, "k", &a, b)
	require.ErrorIs(t, err, codes.Conflict)
	require.Equal(t, b, stands.Entry.Value)
	w, err := n.CAS(ctx, "k", &b, a, WithTTL(time.Hour), IfMod(stands.Entry.Mod)) // two conditions: a transaction
	require.NoError(t, err)
	require.NotZero(t, w.Entry.Expires)
}

func TestKVIncr(t *testing.T) {
	_, _, n := space(t)
	ctx := t.Context()
	sum, err := n.Incr(ctx, "k", 5, WithInitial(math.MaxInt64-5))
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64, sum)
	_, err = n.Incr(ctx, "k", 1)
	require.ErrorIs(t, err, codes.Overflow)
	sum, err = n.Incr(ctx, "k", -7)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64-7, sum)
	_, err = n.Incr(ctx, "seats", -1, WithMin(0))
	require.ErrorIs(t, err, codes.OutOfBounds)
	_, err = n.Incr(ctx, "seats", 4, WithMax(3))
	require.ErrorIs(t, err, codes.OutOfBounds)
	_, err = n.PutString(ctx, "text", "7")
	require.NoError(t, err)
	_, err = n.Incr(ctx, "text", 1)
	require.ErrorIs(t, err, codes.WrongType)
}

func TestKVTimes(t *testing.T) {
	_, _, n := space(t)
	ctx := t.Context()
	at := time.UnixMilli(time.Now().Add(time.Hour).UnixMilli())
	w, err := n.PutInt(ctx, "k", 1, WithExpires(at))
	require.NoError(t, err)
	require.Equal(t, at.UnixMilli(), w.Entry.Expires)
	_, err = n.Incr(ctx, "k", 1)
	require.NoError(t, err)
	e, err := n.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, at.UnixMilli(), e.Expires, "an increment keeps it")
	w, err = n.PutInt(ctx, "k", 1)
	require.NoError(t, err)
	require.Zero(t, w.Entry.Expires, "a put does not")
	w, err = n.PutInt(ctx, "k", 1, WithTTL(time.Minute))
	require.NoError(t, err)
	require.Equal(t, w.Entry.Updated+60_000, w.Entry.Expires)
}

func TestKVTokens(t *testing.T) {
	_, state, n := space(t)
	ctx := t.Context()
	first, err := n.PutInt(ctx, "k", 1, WithToken("once"))
	require.NoError(t, err)
	state.put(t, "k", 2)
	again, err := n.PutInt(ctx, "k", 1, WithToken("once"))
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = n.PutInt(ctx, "k", 3, WithToken("once"))
	require.ErrorIs(t, err, codes.TokenReused)
	got, err := n.GetInt(ctx, "k", 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, got)
}

// More keys than one deletion takes, and a repetition of the whole thing.
func TestKVDeletesInParts(t *testing.T) {
	s, state, n := space(t)
	ctx := t.Context()
	const keys = 2*kv.MaxDeletePrefix + 5
	for first := 0; first < keys; first += kv.MaxOps {
		txn := &kv.Txn{}
		for i := first; i < min(first+kv.MaxOps, keys); i++ {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: "n", Key: fmt.Sprintf("a/%d", i), Value: kv.IntValue(1)})
		}
		state.commit(t, txn)
	}
	state.put(t, "b", 1)
	w, err := n.DeletePrefix(ctx, "a/", WithToken("all"))
	require.NoError(t, err)
	require.EqualValues(t, keys, w.Count)
	require.Equal(t, state.Revision(), w.Revision)
	state.put(t, "a/new", 1)
	again, err := n.DeletePrefix(ctx, "a/", WithToken("all"))
	require.NoError(t, err)
	require.Equal(t, w, again)
	require.Len(t, s.requests(protocol.KVDelPrefix), 6)
	count, err := n.Count(ctx, "")
	require.NoError(t, err)
	require.EqualValues(t, 2, count)
	w, err = n.Drop(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, w.Count)
}

// What cannot have been meant is refused before anything is sent, with what to look at.
func TestOptionsOfNothingAreRefused(t *testing.T) {
	s, _, n := space(t)
	ctx := t.Context()
	for name, c := range map[string]struct {
		option Option
		code   codes.Code
		says   string
	}{
		"no lock":             {WithFence(nil), codes.BadRequest, "the error that Lock returned"},
		"a lock of nothing":   {WithFence(&Lock{}), codes.BadRequest, "the error that Lock returned"},
		"no lease":            {WithLease(nil), codes.BadRequest, "the error that Lease returned"},
		"a lease of nothing":  {WithLease(&Lease{}), codes.BadRequest, "the error that Lease returned"},
		"no time to live":     {WithTTL(0), codes.BadTTL, "omit it"},
		"a time to live gone": {WithTTL(-time.Second), codes.BadTTL, "WithTTL(-1s)"},
	} {
		_, err := n.PutInt(ctx, "k", 1, c.option)
		require.ErrorIs(t, err, c.code, name)
		require.ErrorContains(t, err, c.says, name)
		_, err = n.Txn().PutInt("k", 1, c.option).Commit(ctx)
		require.ErrorIs(t, err, c.code, name)
		txn := n.Txn().PutInt("k", 1)
		_, err = txn.Commit(ctx, c.option)
		require.ErrorIs(t, err, c.code, name)
		_, err = n.Restore(ctx, "k", 1, c.option)
		require.ErrorIs(t, err, c.code, name)
		_, err = n.DeletePrefix(ctx, "k", c.option)
		require.ErrorIs(t, err, c.code, name)
	}
	require.Empty(t, s.requests(protocol.KVPut))
	require.Empty(t, s.requests(protocol.KVTxn))
}
