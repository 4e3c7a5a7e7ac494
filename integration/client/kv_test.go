package client_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/kv"
)

// shaking repeatedly ends all connections until stop, each time after a client has
// reconnected, which on a busy machine takes longer than the pause. begun is closed
// after the first time, for work that could otherwise be over before.
func shaking(srv *clienttest.Server) (begun <-chan struct{}, stop func()) {
	first, ending, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		open := first
		for {
			select {
			case <-ending:
				return
			case <-time.After(time.Duration(1+rand.IntN(20)) * time.Millisecond):
			}
			if srv.TCP().Stats().Get("server_clients") == 0 {
				continue
			}
			srv.Cut()
			if open != nil {
				close(open)
				open = nil
			}
		}
	}()
	return first, func() {
		close(ending)
		<-ended
	}
}

// Eight writers on a connection that breaks at random: every increment counts once,
// and a watch sees each once.
func TestRealServerKVIncrementsUnderLoss(t *testing.T) {
	const writers, each = 8, 60
	srv, c := real(t, clienttest.Options{})
	n := c.KV("n")
	w := watchKV(t, n, client.WatchOptions{State: true})
	begun, stop := shaking(srv)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				if i == each-1 {
					<-begun
				}
				if _, err := insisting(func() (int64, error) { return n.Incr(t.Context(), "sum", 1) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stop()
	sum, err := insisting(func() (int64, error) { return n.GetInt(t.Context(), "sum", 0) })
	require.NoError(t, err)
	require.EqualValues(t, writers*each, sum)

	seen, synced := int64(0), false
	for seen < sum {
		notice, err := w.Next(t.Context())
		require.NoError(t, err)
		switch notice.Kind {
		case kv.Resync: // the state was cut off
			require.False(t, synced)
			seen = 0
		case kv.Synced:
			synced = true
		case kv.State:
			require.False(t, synced)
		}
		for _, e := range notice.Events {
			got, err := e.Entry.Value.Int()
			require.NoError(t, err)
			if synced {
				require.Equal(t, seen+1, got)
			}
			seen = got
		}
	}
}

// The server is restarted under writers that keep trying.
func TestRealServerKVRestarts(t *testing.T) {
	const writers, rounds = 4, 3
	srv, c := real(t, clienttest.Options{})
	n := c.KV("n")
	w := watchKV(t, n, client.WatchOptions{})
	cache, err := n.Cache(t.Context())
	require.NoError(t, err)
	stopping := make(chan struct{})
	var done atomic.Int64
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stopping:
					return
				default:
				}
				token := fmt.Sprintf("%d.%d", writer, i)
				for { // until it is known to have happened
					_, err := n.Incr(t.Context(), "sum", 1, client.WithToken(token))
					if err == nil {
						break
					}
					if code := codes.Of(err); code != codes.Unreachable && code != codes.Closed && code != codes.Timeout {
						t.Error(err)
						return
					}
				}
				done.Add(1)
			}
		})
	}
	for range rounds {
		before := done.Load()
		eventually(t, func() bool { return done.Load() > before+50 }, "they write")
		srv.Restart()
	}
	close(stopping)
	wg.Wait()
	sum, err := n.GetInt(t.Context(), "sum", 0)
	require.NoError(t, err)
	require.Equal(t, done.Load(), sum)
	for want := int64(1); want <= sum; {
		notice, err := w.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, kv.Changed, notice.Kind)
		for _, e := range notice.Events {
			require.Equal(t, fmt.Sprint(want), string(e.Entry.Value.Data))
			want++
		}
	}
	eventually(t, func() bool { return cache.Current() && cache.GetInt("sum", 0) == sum }, "the cache has caught up")
}

// A real server understands what every part of the SDK asks.
func TestRealServerKV(t *testing.T) {
	_, c := real(t, clienttest.Options{})
	n, ctx := c.KV("n"), t.Context()
	octets := bytes.Repeat([]byte("\x00}\xff"), 100_000)
	w := watchKV(t, n, client.WatchOptions{Prev: true})
	put, err := n.PutBytes(ctx, "b", octets)
	require.NoError(t, err)
	_, err = n.PutBytes(ctx, "b", []byte{}, client.IfMod(put.Revision))
	require.NoError(t, err)
	for _, want := range [][2]int{{len(octets), -1}, {0, len(octets)}} {
		notice, err := w.Next(ctx)
		require.NoError(t, err)
		require.Len(t, notice.Events[0].Entry.Value.Data, want[0])
		if want[1] >= 0 {
			require.Equal(t, octets, notice.Events[0].Prev.Value.Data)
		}
	}
	stands, err := n.PutInt(ctx, "b", 1, client.IfAbsent())
	require.ErrorIs(t, err, codes.Conflict)
	require.Equal(t, kv.Bytes, stands.Entry.Value.Type)
	past, err := n.GetAt(ctx, "b", put.Revision)
	require.NoError(t, err)
	require.Equal(t, octets, past.Value.Data)
	_, err = n.GetAt(ctx, "b", 1<<40)
	require.ErrorIs(t, err, codes.FutureRevision)

	res, err := n.Txn().IfExists("b").IfAbsent("nothing").Put("c", kv.BytesValue(octets), client.WithPrev()).Get("b").Delete("d").Incr("i", 2).Commit(ctx)
	require.NoError(t, err)
	require.True(t, res.Held)
	many, err := n.GetMany(ctx, "c", "nothing", "i")
	require.NoError(t, err)
	require.Equal(t, octets, many[0].Value.Data)
	require.Nil(t, many[1])
	list, err := c.Namespaces(ctx)
	require.NoError(t, err)
	require.Equal(t, []kv.Namespace{{Name: "n", Keys: 3, Bytes: int64(len("bci") + len(octets) + 1)}}, list)
	page, err := n.List(ctx, kv.List{Limit: 1, After: "b"})
	require.NoError(t, err)
	require.Equal(t, octets, page.Entries[0].Value.Data)
	require.True(t, page.More)
	versions, err := n.History(ctx, "b", 0, 0)
	require.NoError(t, err)
	require.Len(t, versions.Entries, 2)
	_, err = n.Restore(ctx, "b", put.Revision, client.WithTTL(time.Hour))
	require.NoError(t, err)
	restored, err := n.Get(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, octets, restored.Value.Data)
	require.NotZero(t, restored.Expires)
	swapped := kv.BytesValue(octets)
	_, err = n.CAS(ctx, "b", &swapped, kv.IntValue(1))
	require.NoError(t, err)

	var keys int64
	for first := 0; first < 3*kv.MaxOps; first += kv.MaxOps {
		var ops []kv.Op
		for i := range kv.MaxOps {
			ops = append(ops, kv.Op{Kind: kv.OpPut, Key: fmt.Sprint("many/", first+i), Value: kv.IntValue(int64(i))})
		}
		_, err := n.Batch(ctx, ops...)
		require.NoError(t, err)
		keys += int64(len(ops))
	}
	all, err := n.Keys(ctx, "many/")
	require.NoError(t, err)
	require.Len(t, all, int(keys))
	gone, err := n.DeletePrefix(ctx, "many/")
	require.NoError(t, err)
	require.Equal(t, keys, gone.Count)
	gone, err = n.Drop(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, gone.Count)
}

// A slow reader of large changes does not delay others, and misses nothing.
func TestRealServerKVSlowWatch(t *testing.T) {
	const last = 3000
	_, c := real(t, clienttest.Options{})
	n, ctx := c.KV("n"), t.Context()
	w := watchKV(t, n, client.WatchOptions{Buffer: 64 << 10})
	value := bytes.Repeat([]byte("x"), 1000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range last / 8 {
				if _, err := n.PutBytes(ctx, "k", value); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	version := int64(0)
	for version < last {
		notice, err := w.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, kv.Changed, notice.Kind)
		for _, e := range notice.Events {
			version++
			require.Equal(t, version, e.Entry.Version)
		}
	}
}

// Locks on connections that break: the store never sees two holders, and none remains.
func TestRealServerKVLocksUnderLoss(t *testing.T) {
	const workers, rounds = 4, 5
	srv, c := real(t, clienttest.Options{})
	other := dial(t, srv.Address(), "app2")
	begun, stop := shaking(srv)
	var inside atomic.Int32
	var wg sync.WaitGroup
	for i := range workers {
		n := []*client.Client{c, other}[i%2].KV("n")
		wg.Go(func() {
			contend(t, n, rounds-1, &inside)
			<-begun
			contend(t, n, 1, &inside)
		})
	}
	wg.Wait()
	stop()
	entry, _ := srv.State.Get([]byte("n"), []byte("sum"))
	require.EqualValues(t, workers*rounds, entry.Version)
	eventually(t, func() bool { e, _ := srv.State.Get([]byte("n"), []byte("lock")); return e == nil }, "nobody holds it")
}

// When a holder dies, the next in line follows after its lease has ended.
func TestRealServerKVLockOfTheDead(t *testing.T) {
	srv, c := real(t, clienttest.Options{})
	dead := dial(t, srv.Address(), "dead")
	held, err := dead.KV("n").Lock(t.Context(), "lock", 300*time.Millisecond)
	require.NoError(t, err)
	got := make(chan *client.Lock, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		l, err := c.KV("n").Lock(ctx, "lock", lockTime)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	dead.Close()
	<-held.Lost()
	next := <-got
	require.NotNil(t, next)
	require.Greater(t, next.Fence(), held.Fence())
	_, err = c.KV("n").PutInt(t.Context(), "k", 1, client.WithFence(held))
	require.ErrorIs(t, err, codes.FenceLost)
	require.NoError(t, next.Unlock(t.Context()))
}

// A watch can resume from an empty store as from any other state: a buffer that fills in
// the first transaction, and a server that goes before the first write, cost no resync
// and no event.
func TestRealServerKVWatchOfAnEmptyStore(t *testing.T) {
	const batches, each = 40, 100
	srv, c := real(t, clienttest.Options{})
	n := c.KV("n")
	small := watchKV(t, n, client.WatchOptions{Buffer: 4 << 10})
	large := watchKV(t, n, client.WatchOptions{Buffer: 64 << 20, State: true})
	first, err := large.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, kv.Synced, first.Kind, "before that it stands nowhere, and would begin with the state again")
	srv.Restart()
	srv.Freeze()
	srv.Cut()
	done := make(chan error, 2)
	for _, op := range []kv.Op{{Kind: kv.OpPut, NS: "n", Key: "gone", Value: kv.IntValue(1)}, {Kind: kv.OpDelete, NS: "n", Key: "gone"}} {
		require.NoError(t, srv.State.Commit(&kv.Txn{Then: []kv.Op{op}}, func(_ *kv.Result, err error) { done <- err }))
		require.NoError(t, <-done)
	}
	srv.Thaw()
	for i := range batches {
		var ops []kv.Op
		for j := range each {
			ops = append(ops, kv.Op{Kind: kv.OpPut, Key: fmt.Sprint(i*each + j), Value: kv.BytesValue(make([]byte, 1000))})
		}
		_, err := insisting(func() (*kv.Result, error) { return n.Batch(t.Context(), ops...) })
		require.NoError(t, err)
	}
	for _, w := range []*client.KVWatch{small, large} {
		var kinds []string
		for seen := 0; seen < batches*each+2; {
			notice, err := w.Next(t.Context())
			require.NoError(t, err)
			require.NotEqual(t, kv.Resync, notice.Kind, "after %d events", seen)
			for _, e := range notice.Events {
				if seen++; e.Entry.Key == "gone" {
					kinds = append(kinds, e.Kind.String())
				}
			}
		}
		require.Equal(t, []string{"put", "delete"}, kinds)
	}
}
