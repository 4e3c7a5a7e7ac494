package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

const long = time.Hour

func TestALockIsAKeyWithAFence(t *testing.T) {
	k := start(t, Config{})
	mine, other := k.lease(long), k.lease(long)
	fence := lock(t, k.m, Request{NS: "ns", Key: "key", Lease: mine, Value: kv.StringValue("me")}).has()
	entry := k.holder()
	require.Equal(t, fence, entry.Create)
	require.Equal(t, mine, entry.Lease)
	require.True(t, entry.Value.Equal(kv.StringValue("me")))
	require.True(t, entry.Lock())
	require.Equal(t, fence, k.lock(mine, false).has(), "who has it has it")

	refused := k.lock(other, false)
	require.ErrorIs(t, refused.err, codes.Locked)
	require.Equal(t, entry, refused.out.Holder)
	require.Nil(t, refused.out.Waiter)

	require.ErrorIs(t, k.unlock(fence+1), codes.FenceLost)
	require.NoError(t, k.unlock(fence))
	require.ErrorIs(t, k.unlock(fence), codes.FenceLost)
	require.Greater(t, k.lock(other, false).has(), fence)
}

// In namespaces of player storage only a Manager of the server's own locks, waits and gives back.
func TestLocksInReservedNamespacesAreTheServersOwn(t *testing.T) {
	k := start(t, Config{})
	own := New(k.store, Config{Clock: k.clock, System: true})
	t.Cleanup(own.Close)
	first, second := k.lease(long), k.lease(long)
	req := func(lease kv.LeaseID) Request {
		return Request{NS: "@landing", Key: "lock", Lease: lease, Wait: true}
	}
	require.ErrorIs(t, lock(t, k.m, req(first)).err, codes.Reserved)

	fence := lock(t, own, req(first)).has()
	waiting := lock(t, own, req(second))
	waiting.waits()
	require.ErrorIs(t, k.m.Unlock(nil, "@landing", "lock", fence, nil), codes.Reserved)
	refused := make(chan error, 1)
	require.NoError(t, k.m.GiveUp(nil, "@landing", "lock", first, func(_ kv.Revision, err error) { refused <- err }))
	require.ErrorIs(t, await(t, refused), codes.Reserved)
	freed := make(chan error, 1)
	require.NoError(t, own.Unlock(nil, "@landing", "lock", fence, func(_ kv.Revision, err error) { freed <- err }))
	require.NoError(t, await(t, freed))
	require.Greater(t, waiting.gets(), fence)
	require.NoError(t, own.GiveUp(nil, "@landing", "lock", second, func(_ kv.Revision, err error) { freed <- err }))
	require.NoError(t, await(t, freed))
}

func TestWhatIsNoRequest(t *testing.T) {
	k := start(t, Config{})
	lease := k.lease(long)
	for _, c := range []struct {
		name string
		req  Request
		want codes.Code
	}{
		{"no lease", Request{NS: "ns", Key: "key"}, codes.BadRequest},
		{"a lease that is not", Request{NS: "ns", Key: "key", Lease: lease + 77}, codes.LeaseGone},
		{"no namespace", Request{Key: "key", Lease: lease}, codes.BadKey},
		{"no key", Request{NS: "ns", Lease: lease}, codes.BadKey},
		{"a value that does not fit", Request{NS: "ns", Key: "key", Lease: lease, Value: kv.Value{Type: kv.Int, Data: []byte("x")}}, codes.BadValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, lock(t, k.m, c.req).err, c.want)
			require.Zero(t, k.m.Waiting())
		})
	}
	require.ErrorIs(t, k.m.GiveUp(nil, "ns", "", lease, nil), codes.BadKey)
	require.ErrorIs(t, k.m.Unlock(nil, "", "key", 1, nil), codes.BadKey)
}

func TestFirstComeFirstServed(t *testing.T) {
	k := start(t, Config{})
	const n = 100
	fence := k.lock(k.lease(long), true).has()
	var line []*asked
	for range n {
		a := k.lock(k.lease(long), true)
		a.waits()
		line = append(line, a)
	}
	require.Equal(t, n, k.m.Waiting())
	for i, a := range line {
		for _, later := range line[i:] {
			require.Empty(t, later.granted, "nobody is granted a lock that is held")
		}
		require.NoError(t, k.unlock(fence))
		next := a.gets()
		require.Greater(t, next, fence)
		fence = next
	}
	require.NoError(t, k.unlock(fence))
	k.settled()
	require.Nil(t, k.holder())
	require.Empty(t, k.m.byName, "nothing is left of a line without waiters")
}

// A request that comes while the lock passes from one to the next must not get in
// between, and one that does not wait is not granted it over those who do.
func TestNobodyOvertakes(t *testing.T) {
	k := start(t, Config{})
	store := &fickle{Store: k.store}
	m := New(store, Config{Clock: k.clock})
	defer m.Close()
	fence := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long)}).has()
	first := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true})
	first.waits()

	tried := make(chan struct{}, 100)
	store.refuseWith(func(txn *kv.Txn) error {
		if len(txn.Then) == 1 && txn.Then[0].Kind == kv.OpPut {
			tried <- struct{}{}
			return codes.Busy
		}
		return nil
	})
	require.NoError(t, unlock(t, m, fence))
	await(t, tried)
	require.Nil(t, k.holder(), "the lock is free, and belongs to who is first")

	hasty := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long)})
	require.ErrorIs(t, hasty.err, codes.Locked)
	require.Nil(t, hasty.out.Holder)
	second := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true})
	second.waits()

	store.refuseWith(nil)
	k.advanceUntil(func() bool { return len(first.granted) > 0 })
	fence = first.gets()
	require.Empty(t, second.granted)
	require.NoError(t, unlock(t, m, fence))
	require.Greater(t, second.gets(), fence)
}

func TestTheEndOfALeaseHandsOver(t *testing.T) {
	for name, end := range map[string]func(k *kit, lease kv.LeaseID){
		"expired": func(k *kit, _ kv.LeaseID) { k.clock.Advance(2 * time.Second) },
		"revoked": func(k *kit, lease kv.LeaseID) { k.revoke(lease) },
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, Config{})
			mine := k.lease(time.Second)
			fence := k.lock(mine, true).has()
			next := k.lock(k.lease(long), true)
			next.waits()
			end(k, mine)
			require.Greater(t, next.gets(), fence)
			require.ErrorIs(t, k.unlock(fence), codes.FenceLost, "the late holder")
		})
	}
}

func TestAWaiterWithoutLeaseIsSkippedAndTold(t *testing.T) {
	k := start(t, Config{Tend: long})
	fence := k.lock(k.lease(long), true).has()
	brief := k.lease(long)
	dead, next := k.lock(brief, true), k.lock(k.lease(long), true)
	dead.waits()
	next.waits()
	k.revoke(brief)
	require.NoError(t, k.unlock(fence))
	dead.failsWith(codes.LeaseGone)
	require.Greater(t, next.gets(), fence)
}

func TestAWaiterWithoutLeaseIsToldWithoutATurn(t *testing.T) {
	k := start(t, Config{Tend: time.Second})
	k.lock(k.lease(long), true).has()
	brief := k.lease(time.Second)
	dead := k.lock(brief, true)
	waiter := dead.waits()
	k.lock(k.lease(long), true).waits()
	k.advanceUntil(func() bool { return len(dead.granted) == 1 })
	dead.failsWith(codes.LeaseGone)
	require.Equal(t, 1, k.m.Waiting())
	require.False(t, waiter.Cancel(), "it was told")
}

func TestOneLeaseAskingTwiceDoesNotWaitForItself(t *testing.T) {
	k := start(t, Config{})
	fence := k.lock(k.lease(long), true).has()
	lease := k.lease(long)
	lost, again := k.lock(lease, true), k.lock(lease, true)
	lost.waits()
	again.waits()
	require.NoError(t, k.unlock(fence))
	require.Equal(t, lost.gets(), again.gets())
}

// The lease gets the lock between the question of its second request and the answer.
func TestOneLeaseAskingTwiceAtTheSameMoment(t *testing.T) {
	k := start(t, Config{})
	store := &fickle{Store: k.store}
	m := New(store, Config{Clock: k.clock})
	defer m.Close()
	fence := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long)}).has()
	request := Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true}
	first := lock(t, m, request)
	first.waits()

	kept := store.keepNext()
	second := &asked{t: t, granted: make(chan Grant, 2)}
	require.NoError(t, m.Lock(request, func(out Outcome, err error) { second.out, second.err = out, err }, func(g Grant) { second.granted <- g }))
	answer := await(t, kept)
	require.NoError(t, unlock(t, m, fence))
	fence = first.gets()
	answer()
	second.waits()
	require.Equal(t, fence, second.gets())
}

// A lock that is on its way back must not be granted to the same lease again.
func TestALockThatIsGivenBackIsNotGranted(t *testing.T) {
	k := start(t, Config{})
	store := &fickle{Store: k.store}
	m := New(store, Config{Clock: k.clock})
	defer m.Close()
	fence := lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long)}).has()
	request := Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true}
	first := lock(t, m, request)
	waiter := first.waits()
	dropping := make(chan struct{}, 1000)
	store.refuseWith(func(txn *kv.Txn) error {
		switch {
		case txn.If == nil:
		case len(txn.Then) == 1 && txn.Then[0].Kind == kv.OpPut:
			require.True(t, waiter.Cancel())
		case txn.If[0].Target == kv.CompareCreate:
			dropping <- struct{}{}
			return codes.Busy
		}
		return nil
	})
	require.NoError(t, unlock(t, m, fence))
	await(t, dropping)
	again := lock(t, m, request)
	again.waits()
	store.refuseWith(nil)
	k.advanceUntil(func() bool { return len(again.granted) > 0 })
	require.Greater(t, again.gets(), fence+1)
	require.Empty(t, first.granted)
}

func TestGiveUp(t *testing.T) {
	k := start(t, Config{})
	mine, other := k.lease(long), k.lease(long)
	require.NoError(t, k.giveUp(mine), "nothing to give up is no error")
	k.lock(mine, true).has()
	waiting := k.lock(other, true)
	waiting.waits()
	require.NoError(t, k.giveUp(other))
	require.Zero(t, k.m.Waiting())
	last := k.lock(k.lease(long), true)
	last.waits()
	require.NoError(t, k.giveUp(mine))
	last.gets()
	require.Empty(t, waiting.granted)
	require.NoError(t, k.giveUp(other), "somebody else's lock stays")
	k.settled()
	require.NotNil(t, k.holder())
}

func TestCancel(t *testing.T) {
	k := start(t, Config{})
	fence := k.lock(k.lease(long), true).has()
	first, second := k.lock(k.lease(long), true), k.lock(k.lease(long), true)
	waiter := first.waits()
	require.True(t, waiter.Cancel())
	require.True(t, waiter.Cancel(), "it stays cancelled")
	require.NoError(t, k.unlock(fence))
	second.gets()
	require.False(t, second.waits().Cancel(), "it was granted")
	require.Empty(t, first.granted)
}

// The lock comes for a waiter that has just cancelled: it must go on to the next.
func TestALockThatComesTooLateIsGivenBack(t *testing.T) {
	k := start(t, Config{})
	store := &fickle{Store: k.store}
	m := New(store, Config{Clock: k.clock})
	defer m.Close()
	ask := func() *asked { return lock(t, m, Request{NS: "ns", Key: "key", Lease: k.lease(long), Wait: true}) }
	fence := ask().has()
	first, second := ask(), ask()
	waiter := first.waits()
	second.waits()
	store.refuseWith(func(txn *kv.Txn) error {
		if len(txn.Then) == 1 && txn.Then[0].Kind == kv.OpPut {
			store.refuseWith(nil)
			require.True(t, waiter.Cancel()) // the question is on its way to the store
		}
		return nil
	})
	require.NoError(t, unlock(t, m, fence))
	require.Greater(t, second.gets(), fence+1, "the fence between was the first one's")
	require.Empty(t, first.granted)
}

func TestLimits(t *testing.T) {
	request := func(k *kit, key string, value int) Request {
		return Request{NS: "ns", Key: key, Lease: k.lease(long), Value: kv.StringValue(fmt.Sprintf("%0*d", value, 0)), Wait: true}
	}
	for _, c := range []struct {
		name string
		cfg  Config
		want string
		keys []string
	}{
		{"of one lock", Config{MaxWaiters: 2}, "lock \"a\" has 2 waiters, the limit is 2", []string{"a", "a"}},
		{"of all locks", Config{MaxAllWaiters: 2}, "2 requests wait for locks, the limit is 2", []string{"a", "b"}},
		{"of bytes", Config{Queues: memory.NewPool(3 * (2*memory.WaiterCost + 30))}, "the limit is 830", []string{"a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := start(t, c.cfg)
			fences := map[string]kv.Revision{"a": lock(t, k.m, request(k, "a", 10)).has(), "b": lock(t, k.m, request(k, "b", 10)).has()}
			var last *asked
			for _, key := range c.keys {
				last = lock(t, k.m, request(k, key, 10))
				last.waits()
			}
			refused := lock(t, k.m, request(k, "a", 10))
			require.ErrorIs(t, refused.err, codes.Limit)
			require.ErrorContains(t, refused.err, c.want)
			require.Nil(t, refused.out.Waiter)
			lock(t, k.m, request(k, "free", 10)).has()

			last.out.Waiter.Cancel()
			lock(t, k.m, request(k, c.keys[len(c.keys)-1], 10)).waits()
			_ = fences
			k.m.Close()
			require.Zero(t, k.m.cfg.Queues.Held())
		})
	}
}

func TestDefaults(t *testing.T) {
	cfg := Config{}.withDefaults()
	require.Equal(t, []int{10_000, 100_000, 192 << 20}, []int{cfg.MaxWaiters, cfg.MaxAllWaiters, int(cfg.Queues.Limit())})
	require.Equal(t, time.Second, cfg.Tend)
	require.NotNil(t, cfg.Clock)
}

func TestALockIsForTheOwnerOfItsLease(t *testing.T) {
	k := start(t, Config{})
	a, b := &access.Actor{Identity: &access.Identity{Name: "token:a"}}, &access.Actor{Identity: &access.Identity{Name: "token:b"}}
	root := &access.Actor{Identity: &access.Identity{Name: "token:root", Groups: []string{access.Administrators}}}
	mine := k.commit(&kv.Txn{Actor: a, Then: []kv.Op{{Kind: kv.OpGrant, TTL: long}}}).Ops[0].Lease.ID
	req := Request{NS: "ns", Key: "key", Lease: mine, Actor: b}
	require.Equal(t, kv.NoLease(mine), lock(t, k.m, req).err)
	req.Actor = a
	fence := lock(t, k.m, req).has()

	req.Actor = b
	require.Equal(t, kv.NoLease(mine), lock(t, k.m, req).err, "who has it has it, but is somebody else")
	require.Equal(t, kv.NotHeld(kv.Fence{NS: "ns", Key: "key", Token: fence}), k.m.Unlock(b, "ns", "key", fence, nil))
	freed := make(chan error, 1)
	require.NoError(t, k.m.GiveUp(b, "ns", "key", mine, func(_ kv.Revision, err error) { freed <- err }))
	require.NoError(t, await(t, freed))
	require.NotNil(t, k.holder())
	require.NoError(t, k.m.Unlock(root, "ns", "key", fence, func(_ kv.Revision, err error) { freed <- err }))
	require.NoError(t, await(t, freed))
}
