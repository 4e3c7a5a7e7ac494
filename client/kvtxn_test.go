package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

func TestKVTxnBuilder(t *testing.T) {
	_, _, n := space(t)
	ctx := t.Context()
	free := kv.StringValue("free")
	sell := func(to string) *kv.Result {
		res, err := n.Txn().
			IfValue("seat", free).IfExists("seat").IfAbsent("closed").
			PutString("seat", to, WithPrev()).Incr("sold", 1).PutInt("price", 3, WithTTL(time.Hour)).Get("sold").
			Else().Get("seat").Get("nothing").
			Commit(ctx)
		require.NoError(t, err)
		return res
	}
	res := sell("nobody")
	require.False(t, res.Held)
	require.Equal(t, []string{"-", "-"}, []string{text(res.Ops[0].Entry), text(res.Ops[1].Entry)})

	w, err := n.PutString(ctx, "seat", "free")
	require.NoError(t, err)
	res = sell("ann")
	require.True(t, res.Held)
	require.Equal(t, free, res.Ops[0].Prev.Value)
	require.Equal(t, "ann", string(res.Ops[0].Entry.Value.Data))
	require.NotZero(t, res.Ops[2].Entry.Expires)
	require.Equal(t, "sold=1", text(res.Ops[3].Entry)[:6])
	for i := range res.Ops {
		require.Equal(t, res.Revision, res.Ops[i].Entry.Mod)
	}
	res = sell("bob")
	require.False(t, res.Held)
	require.Equal(t, "ann", string(res.Ops[0].Entry.Value.Data))

	res, err = n.Txn().IfMod("seat", w.Revision).Delete("seat").Commit(ctx)
	require.NoError(t, err)
	require.False(t, res.Held)
	require.Empty(t, res.Ops)
	res, err = n.Txn().If(kv.Compare{Key: "sold", Target: kv.CompareValue, Relation: kv.Less, Value: kv.IntValue(2)}).
		If(kv.Absent("other", "seat")).DeletePrefix("s").Commit(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, res.Ops[0].Count)
	res, err = n.Txn().PutInt("a", 1).PutInt("b", 1).Drop().Commit(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, res.Ops[2].Count, "with what another program left")
}

// A builder that is committed twice does it twice.
func TestKVTxnBuilderKeepsNothing(t *testing.T) {
	_, _, n := space(t)
	txn := n.Txn().Incr("k", 1)
	for want := int64(1); want <= 3; want++ {
		res, err := txn.Commit(t.Context())
		require.NoError(t, err)
		got, err := res.Ops[0].Entry.Value.Int()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for range 2 {
		res, err := txn.Commit(t.Context(), WithToken("t"))
		require.NoError(t, err)
		require.Equal(t, "4", string(res.Ops[0].Entry.Value.Data))
	}
}

// Client.Txn spans namespaces; its argument stays as it is and can be used again.
func TestClientTxn(t *testing.T) {
	s, _, n := space(t)
	ctx := t.Context()
	txn := &kv.Txn{
		If:   []kv.Compare{kv.Absent("a", "stop")},
		Then: []kv.Op{{Kind: kv.OpIncr, NS: "a", Key: "k", Delta: 1}, {Kind: kv.OpIncr, NS: "b", Key: "k", Delta: 1}, {Kind: kv.OpGrant, TTL: time.Minute}},
		Else: []kv.Op{{Kind: kv.OpGet, NS: "c", Key: "k"}},
	}
	for want := int64(1); want <= 2; want++ {
		res, err := n.c.Txn(ctx, txn)
		require.NoError(t, err)
		require.False(t, res.Replayed)
		require.Equal(t, "b", res.Ops[1].Entry.NS)
		got, err := res.Ops[1].Entry.Value.Int()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NotZero(t, res.Ops[2].Lease.ID)
	}
	require.Empty(t, txn.Token)
	_, err := n.c.Txn(ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "a", Key: "k"}}})
	require.NoError(t, err)
	sent := s.requests(protocol.KVTxn)
	require.NotContains(t, sent[len(sent)-1], "token", "reading needs none")
	_, err = n.c.Txn(ctx, &kv.Txn{Then: make([]kv.Op, kv.MaxOps+1)})
	require.ErrorIs(t, err, codes.TooManyOps)
	_, err = n.c.Txn(ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: 1 << 40}}})
	require.ErrorIs(t, err, codes.LeaseGone)
}

func TestKVBatch(t *testing.T) {
	_, state, n := space(t)
	ctx := t.Context()
	res, err := n.Batch(ctx,
		kv.Op{Kind: kv.OpPut, Key: "k", Value: kv.IntValue(1)},
		kv.Op{Kind: kv.OpPut, Key: "k", Value: kv.BytesValue([]byte{2})},
		kv.Op{Kind: kv.OpPut, NS: "other", Key: "k", Value: kv.IntValue(3)},
	)
	require.NoError(t, err)
	require.Len(t, res.Ops, 3)
	e, _ := state.Get([]byte("n"), []byte("k"))
	require.Equal(t, []any{kv.BytesValue([]byte{2}), int64(1)}, []any{e.Value, e.Version})
	_, err = n.Batch(ctx, kv.Op{Kind: kv.OpPut, Key: "new", Value: kv.IntValue(1)}, kv.Op{Kind: kv.OpIncr, Key: "k", Delta: 1})
	require.ErrorIs(t, err, codes.WrongType)
	_, err = n.Get(ctx, "new")
	require.ErrorIs(t, err, codes.NotFound, "nothing of it was applied")
}
