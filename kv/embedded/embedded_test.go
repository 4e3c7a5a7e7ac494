package embedded_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/modeltest"
)

const ns = "model"

func TestAStoreReadsWritesAndWatches(t *testing.T) {
	modeltest.Each(t, func(t *testing.T, b *modeltest.Bed) {
		ctx := modeltest.Context(t)
		e := b.Get(ns, "a")
		require.Nil(t, e)

		w, err := b.Watch(ctx, kv.Filter{NS: ns, Text: "a"}, 0)
		require.NoError(t, err)
		defer w.Stop()
		next := func(kind kv.NoticeKind) kv.Notice {
			t.Helper()
			n, err := w.Next(ctx)
			require.NoError(t, err)
			require.Equal(t, kind, n.Kind)
			return n
		}
		next(kv.Synced)
		granted, err := b.Txn(ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: time.Minute}}})
		require.NoError(t, err)
		lease := granted.Ops[0].Lease.ID
		res, err := b.Txn(ctx, &kv.Txn{If: []kv.Compare{kv.Absent(ns, "a")}, Then: []kv.Op{
			{Kind: kv.OpPut, NS: ns, Key: "a", Value: kv.IntValue(1), Lease: lease}, {Kind: kv.OpPut, NS: ns, Key: "b", Value: kv.IntValue(2)}}})
		require.NoError(t, err)
		require.True(t, res.Held)
		n := next(kv.Changed)
		require.Len(t, n.Events, 1, "b does not match")
		require.Equal(t, "1", string(n.Events[0].Entry.Value.Data))

		page, err := b.List(kv.List{NS: ns, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, "a", page.Entries[0].Key)
		require.True(t, page.More)

		kept, err := b.KeepLease(ctx, lease)
		require.NoError(t, err)
		require.Equal(t, time.Minute, kept.TTL)
		_, err = b.Txn(ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: lease}}})
		require.NoError(t, err)
		n = next(kv.Changed)
		require.Equal(t, "1", string(n.Events[0].Prev.Value.Data))
		_, err = b.KeepLease(ctx, lease)
		require.Equal(t, codes.LeaseGone, codes.Of(err))

		since, err := b.Watch(ctx, kv.Filter{NS: ns, Text: "b", Exact: true}, res.Revision-1)
		require.NoError(t, err)
		defer since.Stop()
		n, err = since.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, "b", n.Events[0].Entry.Key)
		short, cancel := context.WithCancel(ctx)
		cancel()
		_, err = since.Next(short)
		require.ErrorIs(t, err, context.Canceled)
		since.Stop()
		_, err = since.Next(ctx)
		require.Equal(t, codes.Closed, codes.Of(err))
	})
}

// A watch that is slower than the changes misses none of them.
func TestAWatchThatFallsBehindReadsBack(t *testing.T) {
	modeltest.Each(t, func(t *testing.T, b *modeltest.Bed) {
		ctx := modeltest.Context(t)
		w, err := b.Watch(ctx, kv.Filter{NS: ns}, 0)
		require.NoError(t, err)
		defer w.Stop()
		n, err := w.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, kv.Synced, n.Kind)
		// Of 5 MiB the newest 4 are at hand, and the rest is read back.
		const rounds = 20
		big := kv.StringValue(string(make([]byte, 256<<10)))
		for range rounds {
			_, err := b.Txn(ctx, kv.PutTxn(ns, "k", big))
			require.NoError(t, err)
		}
		for events, version := 0, int64(0); events < rounds; {
			n, err := w.Next(ctx)
			require.NoError(t, err)
			require.Equal(t, kv.Changed, n.Kind)
			for _, e := range n.Events {
				version++
				events++
				require.Equal(t, version, e.Entry.Version)
			}
		}
	})
}

func TestModelsWriteToGuardedNamespaces(t *testing.T) {
	modeltest.Each(t, func(t *testing.T, b *modeltest.Bed) {
		for _, guarded := range []string{kv.FlowPrefix + "cl", kv.BenchNamespace} {
			_, err := b.Txn(modeltest.Context(t), kv.PutTxn(guarded, "k", kv.IntValue(1)))
			require.NoError(t, err)
		}
	})
}

func TestCloseEndsAllWatches(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{})
	near := embedded.New(srv.State, nil)
	w, err := near.Watch(t.Context(), kv.Filter{NS: "ns"}, 0)
	require.NoError(t, err)
	defer w.Stop()
	_, err = w.Next(t.Context())
	require.NoError(t, err)
	ended := make(chan error)
	go func() {
		_, err := w.Next(t.Context())
		ended <- err
	}()
	near.Close()
	require.Equal(t, codes.Closed, codes.Of(<-ended))
	_, err = near.Watch(t.Context(), kv.Filter{NS: "ns"}, 0)
	require.Equal(t, codes.Closed, codes.Of(err))
}
