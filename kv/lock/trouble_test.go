package lock

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore/disk"
)

func TestABusyStoreIsAskedAgain(t *testing.T) {
	k := start(t, Config{})
	store := &fickle{Store: k.store}
	m := New(store, Config{Clock: k.clock, Tend: long})
	defer m.Close()
	fence := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long)}).has()
	next := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true})
	next.waits()
	refused := make(chan struct{}, 100)
	store.refuseWith(func(txn *kv.Txn) error {
		if txn.If == nil {
			return nil
		}
		refused <- struct{}{}
		return codes.Busy
	})
	require.NoError(t, unlock(t, m, fence))
	for range 5 {
		k.advanceUntil(func() bool { return len(refused) > 0 })
		<-refused
	}
	require.Empty(t, next.granted)
	store.refuseWith(nil)
	k.advanceUntil(func() bool { return len(next.granted) > 0 })
	require.Greater(t, next.gets(), fence)
}

// What has not begun is the caller's to repeat: he has a queue of his own.
func TestABusyStoreIsTheCallersMatterAtFirst(t *testing.T) {
	k := start(t, Config{})
	store := &fickle{Store: k.store, refuse: func(*kv.Txn) error { return codes.Busy }}
	m := New(store, Config{Clock: k.clock})
	defer m.Close()
	lease := k.lease(long)
	require.ErrorIs(t, m.Lock(Request{NS: "ns", Key: "key", Lease: lease, Wait: true}, nil, nil), codes.Busy)
	require.ErrorIs(t, m.Unlock(nil, "ns", "key", 1, nil), codes.Busy)
	require.ErrorIs(t, m.GiveUp(nil, "ns", "key", lease, nil), codes.Busy)
	require.Zero(t, m.Waiting())
	require.Empty(t, m.byName)
	store.refuseWith(nil)
	lock(t, m, Request{NS: "ns", Key: "key", Lease: lease, Wait: true}).has()
}

func TestAFullDiskOnlyDelaysTheNext(t *testing.T) {
	k := start(t, Config{})
	fence := k.lock(k.lease(long), true).has()
	next, lease := k.lock(k.lease(long), true), k.lease(long)
	next.waits()
	k.store.SetFull(true)
	require.NoError(t, k.unlock(fence))
	require.Eventually(t, func() bool {
		k.m.mu.Lock()
		defer k.m.mu.Unlock()
		return len(k.m.stalled) == 1
	}, patience, time.Millisecond)
	late := k.lock(lease, true)
	late.waits()
	k.clock.Advance(time.Second)
	k.settled()
	require.Empty(t, next.granted)
	k.store.SetFull(false)
	k.clock.Advance(time.Second)
	fence = next.gets()
	require.Empty(t, late.granted)
	require.NoError(t, k.unlock(fence))
	late.gets()
}

func TestOthersWriteTheLocksKey(t *testing.T) {
	plain := kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.StringValue("plain")}
	remove := kv.Op{Kind: kv.OpDelete, NS: "ns", Key: "key"}
	t.Run("a plain delete frees it", func(t *testing.T) {
		k := start(t, Config{})
		fence := k.lock(k.lease(long), true).has()
		next := k.lock(k.lease(long), true)
		next.waits()
		k.commit(&kv.Txn{Then: []kv.Op{remove}})
		require.Greater(t, next.gets(), fence)
		require.ErrorIs(t, k.unlock(fence), codes.FenceLost)
	})
	t.Run("a plain put holds it", func(t *testing.T) {
		k := start(t, Config{})
		k.commit(&kv.Txn{Then: []kv.Op{plain}})
		require.ErrorIs(t, k.lock(k.lease(long), false).err, codes.Locked)
		next := k.lock(k.lease(long), true)
		next.waits()
		k.commit(&kv.Txn{Then: []kv.Op{remove, plain}})
		k.settled()
		require.Empty(t, next.granted)
		k.commit(&kv.Txn{Then: []kv.Op{remove}})
		next.gets()
	})
	t.Run("a plain put comes between", func(t *testing.T) {
		k := start(t, Config{})
		store := &fickle{Store: k.store}
		m := New(store, Config{Clock: k.clock})
		defer m.Close()
		fence := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long)}).has()
		next := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true})
		next.waits()
		between := make(chan struct{})
		store.refuseWith(func(txn *kv.Txn) error {
			if txn.If != nil {
				store.refuseWith(nil)
				commit(t, k.store, &kv.Txn{Then: []kv.Op{plain}})
				close(between)
			}
			return nil
		})
		require.NoError(t, unlock(t, m, fence))
		await(t, between)
		k.commit(&kv.Txn{Then: []kv.Op{remove}})
		next.gets()
	})
}

func TestRestartOfTheStore(t *testing.T) {
	k := start(t, Config{})
	mine, other := k.lease(time.Minute), k.lease(long)
	fence := k.lock(mine, true).has()
	cut := k.lock(other, true)
	cut.waits()
	k.close()
	cut.failsWith(codes.Closed)
	k.open()
	require.Equal(t, fence, k.lock(mine, false).has(), "what was held is held")
	again := k.lock(other, true)
	again.waits()
	k.clock.Advance(2 * time.Minute)
	require.Greater(t, again.gets(), fence)
}

func TestAStoreThatClosesFirstEndsAllWaits(t *testing.T) {
	k := start(t, Config{})
	fence := k.lock(k.lease(long), true).has()
	next := k.lock(k.lease(long), true)
	next.waits()
	store := &fickle{Store: k.store}
	require.NoError(t, k.unlock(fence))
	require.NoError(t, store.Store.(interface{ Close() error }).Close())
	g := await(t, next.granted) // it came just before, or not at all
	if g.Err != nil {
		require.ErrorIs(t, g.Err, codes.Closed)
	}
	require.ErrorIs(t, k.m.Lock(Request{NS: "ns", Key: "key", Lease: 1, Wait: true}, nil, nil), codes.Closed)
}

// Who is being told that he waits while the Manager closes is told of that too before Close
// returns, and keeps no room.
func TestCloseWaitsForAnAnswerThatIsBeingGiven(t *testing.T) {
	k := start(t, Config{})
	k.lock(k.lease(long), true).has()
	granted, closed := make(chan Grant, 1), make(chan int64, 1)
	done := func(out Outcome, err error) {
		require.NoError(t, err)
		require.NotNil(t, out.Waiter)
		go func() {
			k.m.Close()
			closed <- k.m.cfg.Queues.Held()
		}()
		require.Eventually(t, func() bool { // Close waits, or has not waited
			k.m.mu.Lock()
			defer k.m.mu.Unlock()
			return k.m.closed && k.m.pending > 0 || len(closed) > 0
		}, patience, time.Millisecond)
	}
	require.NoError(t, k.m.Lock(Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true}, done, func(g Grant) { granted <- g }))
	require.Zero(t, await(t, closed))
	require.Len(t, granted, 1)
	require.ErrorIs(t, (<-granted).Err, codes.Closed)
}

func TestClose(t *testing.T) {
	k := start(t, Config{})
	m := New(k.store, Config{Clock: k.clock})
	lease := k.lease(long)
	fence := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long)}).has()
	a := lock(t, m, Request{NS: "ns", Key: "key", Lease: lease, Wait: true})
	a.waits()
	m.Close()
	a.failsWith(codes.Closed)
	m.Close()
	require.ErrorIs(t, lock(t, m, Request{NS: "ns", Key: "key", Lease: lease, Wait: true}).err, codes.Closed)
	require.ErrorIs(t, m.GiveUp(nil, "ns", "key", lease, nil), codes.Closed)
	require.NoError(t, k.unlock(fence), "what was held stays held, and can be given back through another")
}

// Everything at once, against a store that answers late and in any order: never
// two holders, never a lost wake-up, exactly one end for every request.
func TestManyClientsOnFickleStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		k := start(t, Config{})
		manyClients(t, k.store, k.clock)
	})
	t.Run("embedded", func(t *testing.T) {
		store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: t.TempDir(), AckBeforeDisk: true}})
		require.NoError(t, err)
		defer func() { require.NoError(t, store.Close()) }()
		manyClients(t, store, clock.Real())
	})
}

func manyClients(t *testing.T, engine kv.Store, clock clock.Clock) {
	var managers []*Manager
	for range 2 {
		store := &fickle{Store: engine}
		stop := store.deliver()
		m := New(store, Config{Clock: clock})
		managers = append(managers, m)
		defer stop()
		defer m.Close()
	}
	const clients, rounds = 16, 150
	var holders atomic.Int32
	var last, grants atomic.Int64
	var all sync.WaitGroup
	for c := range clients {
		lease := grant(t, engine, long)
		m := managers[c%len(managers)]
		all.Go(func() {
			for range rounds {
				fence, ok := acquire(t, m, lease, rand.IntN(4) == 0)
				if !ok {
					continue
				}
				if holders.Add(1) != 1 {
					t.Error("two holders")
				}
				if previous := last.Swap(int64(fence)); previous >= int64(fence) {
					t.Errorf("fence %d after %d", fence, previous)
				}
				grants.Add(1)
				holders.Add(-1)
				if err := release(t, m, lease, fence); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Positive(t, grants.Load())
	for _, m := range managers {
		require.Zero(t, m.Waiting())
	}
}

// acquire takes the lock, or cancels the wait as soon as it has begun.
func acquire(t *testing.T, m *Manager, lease kv.LeaseID, cancel bool) (kv.Revision, bool) {
	a := &asked{t: t, granted: make(chan Grant, 2)}
	first := make(chan struct{})
	require.NoError(t, m.Lock(Request{NS: "ns", Key: "key", Lease: lease, Wait: true}, func(out Outcome, err error) {
		a.out, a.err = out, err
		close(first)
	}, func(g Grant) { a.granted <- g }))
	await(t, first)
	switch {
	case a.err != nil:
		t.Error(a.err)
		return 0, false
	case a.out.Granted:
		return a.out.Fence, true
	case cancel && a.out.Waiter.Cancel():
		return 0, false
	}
	g := await(t, a.granted)
	if g.Err != nil {
		t.Error(g.Err)
	}
	return g.Fence, g.Err == nil
}

func release(t *testing.T, m *Manager, lease kv.LeaseID, fence kv.Revision) error {
	got := make(chan error, 1)
	done := func(_ kv.Revision, err error) { got <- err }
	if rand.IntN(4) == 0 {
		require.NoError(t, m.GiveUp(nil, "ns", "key", lease, done))
	} else {
		require.NoError(t, m.Unlock(nil, "ns", "key", fence, done))
	}
	return await(t, got)
}
