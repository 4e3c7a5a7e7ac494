package lock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// kit is a store with one Manager, or more, in a test.
type kit struct {
	t     *testing.T
	clock *clocktest.Fake
	store *memory.Store // closed before it is opened again
	m     *Manager
	cfg   Config
}

func start(t *testing.T, cfg Config) *kit {
	k := &kit{t: t, clock: clocktest.NewFake(time.Unix(1_700_000_000, 0)), cfg: cfg}
	k.cfg.Clock = k.clock
	k.open()
	t.Cleanup(k.close)
	return k
}

func (k *kit) open() {
	if k.store == nil {
		k.store = memory.New(memory.Config{Clock: k.clock})
	} else {
		k.store = k.store.Clone()
	}
	k.m = New(k.store, k.cfg)
}

func (k *kit) close() {
	k.m.Close()
	require.NoError(k.t, k.store.Close())
}

// commit applies a transaction that must work.
func (k *kit) commit(txn *kv.Txn) *kv.Result {
	k.t.Helper()
	return commit(k.t, k.store, txn)
}

func commit(t *testing.T, store kv.Store, txn *kv.Txn) *kv.Result {
	t.Helper()
	type answer struct {
		res *kv.Result
		err error
	}
	got := make(chan answer, 1)
	require.NoError(t, store.Commit(txn, func(res *kv.Result, err error) { got <- answer{res, err} }))
	a := await(t, got)
	require.NoError(t, a.err)
	return a.res
}

func (k *kit) lease(ttl time.Duration) kv.LeaseID {
	k.t.Helper()
	return grant(k.t, k.store, ttl)
}

func grant(t *testing.T, store kv.Store, ttl time.Duration) kv.LeaseID {
	t.Helper()
	return commit(t, store, &kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: ttl}}}).Ops[0].Lease.ID
}

func (k *kit) revoke(lease kv.LeaseID) {
	k.t.Helper()
	k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: lease}}})
}

func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("not reached")
	}
}

// asked is a request and what came of it.
type asked struct {
	t       *testing.T
	out     Outcome
	err     error
	granted chan Grant
}

// lock asks for ns/key and waits for the first answer.
func (k *kit) lock(lease kv.LeaseID, wait bool) *asked {
	k.t.Helper()
	return lock(k.t, k.m, Request{NS: "ns", Key: "key", Lease: lease, Wait: wait})
}

func lock(t *testing.T, m *Manager, req Request) *asked {
	t.Helper()
	a := &asked{t: t, granted: make(chan Grant, 2)}
	first := make(chan struct{})
	err := m.Lock(req, func(out Outcome, err error) {
		a.out, a.err = out, err
		close(first) // panics if done is called twice
	}, func(g Grant) { a.granted <- g })
	if err != nil {
		a.err = err
		return a
	}
	await(t, first)
	return a
}

func (a *asked) has() kv.Revision {
	a.t.Helper()
	require.NoError(a.t, a.err)
	require.True(a.t, a.out.Granted)
	require.Nil(a.t, a.out.Waiter)
	return a.out.Fence
}

func (a *asked) waits() *Waiter {
	a.t.Helper()
	require.NoError(a.t, a.err)
	require.False(a.t, a.out.Granted)
	require.NotNil(a.t, a.out.Waiter)
	return a.out.Waiter
}

// gets waits for the grant.
func (a *asked) gets() kv.Revision {
	a.t.Helper()
	g := await(a.t, a.granted)
	require.NoError(a.t, g.Err)
	require.Positive(a.t, g.Fence)
	return g.Fence
}

func (a *asked) failsWith(code codes.Code) {
	a.t.Helper()
	g := await(a.t, a.granted)
	require.ErrorIs(a.t, g.Err, code)
	require.Zero(a.t, g.Fence)
}

func (k *kit) unlock(fence kv.Revision) error {
	k.t.Helper()
	return unlock(k.t, k.m, fence)
}

func unlock(t *testing.T, m *Manager, fence kv.Revision) error {
	t.Helper()
	got := make(chan error, 1)
	require.NoError(t, m.Unlock(nil, "ns", "key", fence, func(_ kv.Revision, err error) { got <- err }))
	return await(t, got)
}

func (k *kit) giveUp(lease kv.LeaseID) error {
	k.t.Helper()
	got := make(chan error, 1)
	require.NoError(k.t, k.m.GiveUp(nil, "ns", "key", lease, func(_ kv.Revision, err error) { got <- err }))
	return await(k.t, got)
}

// advanceUntil lets pauses of the Manager pass until ok.
func (k *kit) advanceUntil(ok func() bool) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		if ok() {
			return true
		}
		k.clock.Advance(10 * time.Millisecond)
		return false
	}, patience, time.Millisecond)
}

// settled waits until the Manager has nothing to do. A commit of our own comes
// after all that it has handed over.
func (k *kit) settled() {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		k.m.mu.Lock()
		defer k.m.mu.Unlock()
		for _, l := range k.m.byName {
			if l.trying || l.asking > 0 || l.dropping != 0 {
				return false
			}
		}
		return k.m.pending == 0
	}, patience, time.Millisecond)
}

// holder is the lock's key; nil if it is free.
func (k *kit) holder() *kv.Entry {
	entry, _ := k.store.Get([]byte("ns"), []byte("key"))
	return entry
}

// fickle is a store that refuses, and that answers in any order: what a Manager
// may see from an engine on a network.
type fickle struct {
	kv.Store
	mu      sync.Mutex
	refuse  func(*kv.Txn) error // guarded by mu; nil: nothing is refused
	keep    chan func()         // guarded by mu; the next answer goes there, if not nil
	shuffle bool                // set at start
	late    chan func()         // answers that wait for their turn
	all     sync.WaitGroup
}

func (f *fickle) refuseWith(fn func(*kv.Txn) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = fn
}

// keepNext holds the answer to the next transaction back.
func (f *fickle) keepNext() <-chan func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep = make(chan func(), 1)
	return f.keep
}

func (f *fickle) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	f.mu.Lock()
	refuse, keep := f.refuse, f.keep
	f.keep = nil
	f.mu.Unlock()
	if keep != nil {
		return f.Store.Commit(txn, func(res *kv.Result, err error) { keep <- func() { done(res, err) } })
	}
	if refuse != nil {
		if err := refuse(txn); err != nil {
			return err
		}
	}
	if !f.shuffle {
		return f.Store.Commit(txn, done)
	}
	f.all.Add(1)
	err := f.Store.Commit(txn, func(res *kv.Result, err error) {
		f.late <- func() {
			defer f.all.Done()
			done(res, err)
		}
	})
	if err != nil {
		f.all.Done()
	}
	return err
}

// others adds some of the answers that are there now. It does not wait for any: another
// goroutine may have taken them, and nothing would end the wait.
func (f *fickle) others(held []func()) []func() {
	for len(held) < 4 && rand.IntN(3) > 0 {
		select {
		case call, open := <-f.late:
			if !open {
				return held
			}
			held = append(held, call)
		default:
			return held
		}
	}
	return held
}

// deliver completes callers from goroutines of its own, so that an answer may come
// long after the event of a later change, until stop.
func (f *fickle) deliver() (stop func()) {
	f.shuffle, f.late = true, make(chan func(), 1<<16)
	var goroutines sync.WaitGroup
	for range 4 {
		goroutines.Go(func() {
			for call := range f.late {
				held := f.others([]func(){call})
				rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
				for _, call := range held {
					call()
				}
			}
		})
	}
	return func() {
		f.all.Wait()
		close(f.late)
		goroutines.Wait()
	}
}
