package client

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

const lockTime = time.Minute

func locked(t testing.TB, n *KV, key string) *Lock {
	t.Helper()
	l, err := n.Lock(t.Context(), key, lockTime)
	require.NoError(t, err)
	return l
}

// inLine begins to wait for a lock that is held.
func inLine(t testing.TB, ctx context.Context, state *fakeState, n *KV, key string) <-chan *Lock {
	t.Helper()
	before := state.locks.Waiting()
	got := make(chan *Lock, 1)
	go func() {
		l, err := n.Lock(ctx, key, lockTime)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		got <- l
	}()
	eventually(t, func() bool { return state.locks.Waiting() == before+1 }, "it stands in line")
	return got
}

func TestLock(t *testing.T) {
	s, state, a := space(t)
	ctx := t.Context()
	b := dial(t, s).KV("n")
	first := locked(t, a, "lock")
	require.Equal(t, "lock", first.Key())
	_, err := b.TryLock(ctx, "lock", lockTime)
	require.ErrorIs(t, err, codes.Locked)
	require.ErrorContains(t, err, "app1")
	e, err := b.Get(ctx, "lock")
	require.NoError(t, err)
	require.Equal(t, kv.StringValue("app1"), e.Value)
	require.Equal(t, first.Fence(), e.Create)

	next := inLine(t, ctx, state, b, "lock")
	last := inLine(t, ctx, state, a, "lock")
	_, err = a.PutInt(ctx, "k", 1, WithFence(first))
	require.NoError(t, err)
	_, err = a.Txn().PutInt("k", 2).Commit(ctx, WithFence(first))
	require.NoError(t, err)
	require.NoError(t, first.Unlock(ctx))
	<-first.Lost()
	second := <-next
	require.Greater(t, second.Fence(), first.Fence())
	_, err = a.PutInt(ctx, "k", 3, WithFence(first))
	require.ErrorIs(t, err, codes.FenceLost)
	_, err = a.c.KV("other").PutInt(ctx, "k", 3, WithFence(second), WithFence(second)) // whatever namespace
	require.NoError(t, err)
	require.ErrorIs(t, first.Unlock(ctx), codes.FenceLost)
	require.NoError(t, second.Unlock(ctx))
	require.NoError(t, (<-last).Unlock(ctx))
	_, err = a.Get(ctx, "lock")
	require.ErrorIs(t, err, codes.NotFound)
	require.Zero(t, state.Stats().Leases, "nothing is left behind")
}

// Who no longer wants to wait leaves the line and nothing behind.
func TestLockGivenUp(t *testing.T) {
	_, state, n := space(t)
	held := locked(t, n, "lock")
	ctx, cancel := context.WithCancel(t.Context())
	got := inLine(t, ctx, state, n, "lock")
	cancel()
	require.Nil(t, <-got)
	eventually(t, func() bool { return state.locks.Waiting() == 0 && state.Stats().Leases == 1 }, "the line is empty")
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := n.Lock(ctx, "lock", lockTime)
	require.ErrorIs(t, err, codes.Timeout)
	require.NoError(t, held.Unlock(t.Context()))
	eventually(t, func() bool { return state.Stats().Leases == 0 && state.locks.Waiting() == 0 }, "nothing is left behind")
}

// The grant crosses with the giving up: the lock is given back.
func TestLockGrantedTooLate(t *testing.T) {
	s, state, n := space(t)
	held := locked(t, n, "lock")
	ctx, cancel := context.WithCancel(t.Context())
	got := inLine(t, ctx, state, n, "lock")
	hold, seen := make(chan struct{}), make(chan struct{})
	s.change(func(s *fakeServer) {
		s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool {
			if h.Command == protocol.KVUnlock {
				close(seen)
				<-hold
			}
			return false
		}
	})
	cancel()
	<-seen // the giving up is under way
	s.change(func(s *fakeServer) { s.script = nil })
	done := make(chan struct{})
	require.NoError(t, state.locks.Unlock(nil, "n", "lock", held.Fence(), func(kv.Revision, error) { close(done) }))
	<-done
	eventually(t, func() bool { return state.locks.Waiting() == 0 }, "it is granted")
	close(hold)
	require.Nil(t, <-got)
	eventually(t, func() bool {
		e, _ := state.Get([]byte("n"), []byte("lock"))
		return e == nil && state.locks.Waiting() == 0
	}, "it is given back")
	<-held.Lost()
}

// A place in line outlasts the connection, and so does a lock.
func TestLockAcrossConnections(t *testing.T) {
	s, state, a := space(t)
	other := newFakeServer(t, nil) // so that only one of the two loses its connection
	other.change(func(o *fakeServer) { o.state = state })
	t.Cleanup(other.stop)
	b := dial(t, other).KV("n")
	first := locked(t, a, "lock")
	next := inLine(t, t.Context(), state, b, "lock")
	s.drop()
	for range 3 {
		before := len(other.requests(protocol.KVLock))
		other.drop()
		eventually(t, func() bool { return len(other.requests(protocol.KVLock)) > before && state.locks.Waiting() == 1 }, "it stands in line again")
	}
	_, err := a.PutInt(t.Context(), "k", 1, WithFence(first))
	require.NoError(t, err)
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, (<-next).Unlock(t.Context()))
}

// The grant is lost with the connection: asking again finds it.
func TestLockGrantLost(t *testing.T) {
	s, state, n := space(t)
	losingReplies(s, protocol.KVLock, 2)
	l := locked(t, n, "lock")
	require.Len(t, s.requests(protocol.KVLock), 3)
	e, _ := state.Get([]byte("n"), []byte("lock"))
	require.Equal(t, l.Fence(), e.Create)
	losingReplies(s, protocol.KVUnlock, 1)
	require.NoError(t, l.Unlock(t.Context()), "the first one did it")
	require.Len(t, s.requests(protocol.KVUnlock), 2)
}

func TestLockIsLostWithItsKey(t *testing.T) {
	s, _, n := space(t)
	l := locked(t, n, "lock")
	eventually(t, func() bool { return len(s.requests(protocol.KVWatch)) == 1 }, "it is watched")
	_, err := n.Delete(t.Context(), "lock")
	require.NoError(t, err)
	<-l.Lost()
	require.ErrorIs(t, l.Unlock(t.Context()), codes.FenceLost)
}

// The key is gone when a state says so, too.
func TestLockIsLostInAResync(t *testing.T) {
	s, state, n := space(t)
	l := locked(t, n, "lock")
	kept := locked(t, n, "kept")
	eventually(t, func() bool { return len(s.requests(protocol.KVWatch)) == 2 }, "they are watched")
	s.change(func(s *fakeServer) { s.epoch = "e2" })
	s.ln.Close()
	s.drop()
	state.commit(t, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "n", Key: "lock"}}})
	s.restart()
	<-l.Lost()
	select {
	case <-kept.Lost():
		require.Fail(t, "the other one is still held")
	default:
	}
	require.NoError(t, kept.Unlock(t.Context()))
}

func TestLockOfALeaseThatEnds(t *testing.T) {
	s, state, n := space(t)
	held := locked(t, n, "lock")
	got := make(chan error, 1)
	go func() {
		_, err := n.Lock(t.Context(), "lock", lockTime)
		got <- err
	}()
	eventually(t, func() bool { return state.locks.Waiting() == 1 }, "it stands in line")
	var r protocol.Request
	sent := s.requests(protocol.KVLock)
	require.NoError(t, r.ParseTailed([]byte(sent[len(sent)-1])))
	q, err := r.KVLock()
	require.NoError(t, err)
	state.commit(t, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: q.Lease}}})
	require.NoError(t, held.Unlock(t.Context()))
	require.ErrorIs(t, <-got, codes.LeaseGone)
}

// insisting calls fn until it does not fail for want of a connection.
func insisting[T any](fn func() (T, error)) (T, error) {
	for {
		v, err := fn()
		if !SafeToRetry(err) {
			return v, err
		}
	}
}

// contend takes the lock, adds one under it and gives it back, so many times. inside
// counts who believes to hold it.
func contend(t *testing.T, n *KV, rounds int, inside *atomic.Int32) {
	for range rounds {
		l, err := insisting(func() (*Lock, error) { return n.Lock(t.Context(), "lock", lockTime) })
		if err != nil {
			t.Error(err)
			return
		}
		if inside.Add(1) != 1 {
			t.Error("two at once")
		}
		if _, err := insisting(func() (int64, error) { return n.Incr(t.Context(), "sum", 1, WithFence(l)) }); err != nil {
			t.Error(err)
		}
		inside.Add(-1)
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Under losses of connections, never two hold the lock for the store.
func TestLockUnderLoss(t *testing.T) {
	const workers, rounds = 4, 8
	s, state, first := space(t)
	var inside, asked, lost atomic.Int32
	losing(s, func(protocol.Header) (before, after bool) { // the clock below may never get round to it
		n := asked.Add(1)
		if n%10 == 0 {
			lost.Add(1)
		}
		return n%20 == 0, n%20 == 10
	})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range workers {
		n := first
		if i%2 == 1 {
			n = dial(t, s).KV("n")
		}
		wg.Go(func() { contend(t, n, rounds, &inside) })
	}
	go func() { wg.Wait(); close(stop) }()
	for running := true; running; {
		select {
		case <-stop:
			running = false
		case <-time.After(3 * time.Millisecond):
			s.drop()
		}
	}
	require.NotZero(t, lost.Load())
	e, _ := state.Get([]byte("n"), []byte("sum"))
	require.EqualValues(t, workers*rounds, e.Version)
	require.Zero(t, state.Stats().Leases)
}

// The server was paused: it still has the lock's key, but the client has told Lost and
// keeps to that. What is left is given back, so that no one waits for it.
func TestUnlockAfterLostIsFenceLost(t *testing.T) {
	s := newFakeServer(t, nil)
	state := stateful(t, s, memory.Config{})
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg := quick(s)
	cfg.Clock = fake
	n := dialWith(t, cfg).KV("n")
	l := locked(t, n, "lock")
	next := inLine(t, t.Context(), state, dial(t, s).KV("n"), "lock")
	s.change(func(s *fakeServer) {
		s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool { return h.Command == protocol.KVAlive }
	})
	waiting(t, fake)
	fake.Advance(lockTime / 3)
	eventually(t, func() bool { return len(s.requests(protocol.KVAlive)) == 1 }, "it asks")
	fake.Advance(lockTime)
	<-l.Lost()
	s.change(func(s *fakeServer) { s.script = nil })
	e, _ := state.Get([]byte("n"), []byte("lock"))
	require.Equal(t, l.Fence(), e.Create, "the server has not noticed")

	_, err := n.PutInt(t.Context(), "k", 1, WithFence(l))
	require.ErrorIs(t, err, codes.FenceLost)
	_, err = n.Txn().PutInt("k", 1).Commit(t.Context(), WithFence(l))
	require.ErrorIs(t, err, codes.FenceLost)
	require.Empty(t, s.requests(protocol.KVPut))
	require.Empty(t, s.requests(protocol.KVTxn))
	require.ErrorIs(t, l.Unlock(t.Context()), codes.FenceLost)
	require.NoError(t, (<-next).Unlock(t.Context()), "it got the lock")
}

// Close gives back what is held, so that the next in line does not wait for the
// lock's time to end, and ends the wait of its own.
func TestCloseGivesLocksUp(t *testing.T) {
	s, state, a := space(t)
	b := dial(t, s).KV("n")
	var held []*Lock
	for _, key := range []string{"one", "two"} {
		held = append(held, locked(t, a, key))
	}
	next := inLine(t, t.Context(), state, b, "one")
	got := make(chan error, 1)
	third := locked(t, b, "three")
	go func() {
		_, err := a.Lock(context.Background(), "three", lockTime)
		got <- err
	}()
	eventually(t, func() bool { return state.locks.Waiting() == 2 }, "it stands in line")
	require.NoError(t, a.c.Close())
	require.ErrorIs(t, <-got, ErrClosed)
	for _, l := range held {
		<-l.Lost()
		require.ErrorIs(t, l.Unlock(t.Context()), ErrClosed)
	}
	require.NoError(t, (<-next).Unlock(t.Context()))
	_, err := b.TryLock(t.Context(), "two", lockTime)
	require.NoError(t, err)
	require.NoError(t, third.Unlock(t.Context()))
	eventually(t, func() bool { return state.Stats().Leases == 1 }, "nothing is left behind")
	require.Empty(t, a.c.locks)
}

// A server that does not answer holds Close up for Config.CloseTimeout only.
func TestCloseGivesLocksUpWithinItsTime(t *testing.T) {
	s := newFakeServer(t, nil)
	stateful(t, s, memory.Config{})
	cfg := quick(s)
	cfg.CloseTimeout = time.Millisecond
	c := dialWith(t, cfg)
	l := locked(t, c.KV("n"), "lock")
	freeze(s)
	c.Close() // its own goroutines may take longer than that, too
	<-l.Lost()
}

// Lock, whatever it waits for, ends with ErrClosed when the client is closed.
func TestLockDuringCloseIsErrClosed(t *testing.T) {
	for _, cmd := range []protocol.Command{protocol.KVLease, protocol.KVLock} {
		s, _, _ := space(t)
		s.change(func(s *fakeServer) {
			s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool {
				return h.Command == cmd || h.Command == protocol.KVRevoke
			}
		})
		cfg := quick(s)
		cfg.CloseTimeout = time.Millisecond
		for i, lock := range []func(*KV, context.Context, string, time.Duration) (*Lock, error){(*KV).Lock, (*KV).TryLock} {
			c := dialWith(t, cfg)
			got := make(chan error, 1)
			go func() {
				_, err := lock(c.KV("n"), context.Background(), "lock", lockTime)
				got <- err
			}()
			eventually(t, func() bool { return len(s.requests(cmd)) == i+1 }, "it asks")
			c.Close() // its own goroutines may take longer than that, too
			require.ErrorIs(t, <-got, ErrClosed)
		}
	}
}
