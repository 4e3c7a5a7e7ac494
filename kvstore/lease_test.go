package kvstore

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
)

func TestKeysExpireAtTheirTime(t *testing.T) {
	b := onFake(t, Config{})
	events := make(chan kv.Event, 10)
	stop := b.Follow(func(batch *kv.Batch) {
		for _, c := range batch.Changes {
			for _, event := range c.Events {
				if event.Kind != kv.Put {
					events <- event
				}
			}
		}
	})
	defer stop()
	b.must(until(put("k", "1"), 500*time.Millisecond), until(put("l", "1"), 600*time.Millisecond), until(put("stays", "1"), 500*time.Millisecond))
	b.must(put("stays", "2"))
	b.clock.BlockUntil(1)
	b.clock.Advance(499 * time.Millisecond)
	b.settled()
	require.Equal(t, "1", b.text("a", "k"))
	b.clock.Advance(time.Millisecond)
	event := <-events // no one has to ask
	require.Equal(t, kv.Expire, event.Kind)
	require.Equal(t, "k", event.Entry.Key)
	require.Equal(t, "1", string(event.Prev.Value.Data))
	require.Equal(t, "-", b.text("a", "k"))
	require.Equal(t, "1", b.text("a", "l"))
	b.clock.Advance(time.Second)
	require.Equal(t, "l", (<-events).Entry.Key)
	require.Equal(t, "2", b.text("a", "stays"))
	b.settled()
	require.EqualValues(t, 2, b.Stats().Expired)
	op := put("past", "1")
	op.Expires = 1
	r := b.must(op)
	require.Equal(t, "-", b.text("a", "past"))
	require.Equal(t, r.Revision+1, (<-events).Entry.Mod)
}

// What is due when a transaction comes is gone before it is evaluated.
func TestExpiryComesBeforeTransactions(t *testing.T) {
	b := onFake(t, Config{})
	r := b.must(grant(time.Second), until(incr("n", 5), time.Second))
	b.must(leased("k", r.Ops[0].Lease.ID))
	b.clock.Advance(time.Second)
	require.Equal(t, "1", string(b.must(incr("n", 1)).Ops[0].Entry.Value.Data))
	require.Equal(t, "-", b.text("a", "k"))
	_, err := b.do(&kv.Txn{Then: []kv.Op{leased("k", r.Ops[0].Lease.ID)}})
	require.ErrorIs(t, err, codes.LeaseGone)
}

func TestExpiryWaitsForADiskThatTakesNothing(t *testing.T) {
	b := onFake(t, Config{})
	r := b.must(until(put("k", "1"), time.Second), grant(time.Second))
	id := r.Ops[1].Lease.ID
	b.must(leased("l", id))
	b.disk.set(nil, nil, codes.Errorf(codes.Storage, "full to the brim"))
	b.clock.Advance(time.Second)
	b.settled()
	require.Equal(t, "1", b.text("a", "k"))
	_, err := b.KeepAlive(t.Context(), id)
	require.ErrorIs(t, err, codes.LeaseGone, "its time is over all the same")
	_, err = b.do(&kv.Txn{Then: []kv.Op{del("k")}})
	require.ErrorIs(t, err, codes.Storage)
	b.disk.set(nil, errors.New("still full"), nil)
	b.clock.Advance(time.Second)
	b.settled()
	require.Equal(t, "- -", b.text("a", "k")+" "+b.text("a", "l"))
	require.Zero(t, b.Stats().Leases)
}

func TestLeasesEndTogetherWithTheirKeys(t *testing.T) {
	b := onFake(t, Config{})
	batches := make(chan *kv.Batch, 10)
	id := b.must(grant(time.Second)).Ops[0].Lease.ID
	b.must(leased("k", id), leased("l", id), leased("other", id))
	b.must(put("other", "free"))
	l, err := b.Lease(id)
	require.NoError(t, err)
	require.Equal(t, kv.Lease{ID: id, TTL: time.Second, Left: time.Second, Keys: 2}, l)
	b.clock.Advance(900 * time.Millisecond)
	l, err = b.KeepAlive(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, time.Second, l.Left)
	b.clock.Advance(900 * time.Millisecond)
	b.settled()
	require.Equal(t, "leased", b.text("a", "k"))
	stop := b.Follow(func(batch *kv.Batch) { batches <- batch })
	defer stop()
	b.clock.Advance(100 * time.Millisecond)
	batch := <-batches
	require.Len(t, batch.Changes, 1)
	require.Len(t, batch.Changes[0].Events, 2)
	require.Equal(t, kv.Expire, batch.Changes[0].Events[1].Kind)
	require.Equal(t, "free", b.text("a", "other"))
	_, err = b.KeepAlive(t.Context(), id)
	require.ErrorIs(t, err, codes.LeaseGone)
}

func TestLeasesBeginAnewWhenTheStoreIsOpened(t *testing.T) {
	f, c := &fakeLog{}, clocktest.NewFake(noon)
	b := reopened(t, Config{}, f, c)
	id := b.must(grant(time.Second)).Ops[0].Lease.ID
	b.must(leased("k", id))
	c.Advance(900 * time.Millisecond)
	b.settled()
	require.NoError(t, b.Store.Close())
	c.Advance(time.Hour)
	b = reopened(t, Config{}, f, c)
	l, err := b.Lease(id)
	require.NoError(t, err)
	require.Equal(t, kv.Lease{ID: id, TTL: time.Second, Left: time.Second, Keys: 1}, l)
	c.Advance(time.Second)
	b.settled()
	require.Equal(t, "-", b.text("a", "k"))
}

func TestLeasesBeginAnewAfterAPause(t *testing.T) {
	b := onFake(t, Config{PauseAfter: 500 * time.Millisecond})
	id := b.must(grant(time.Second)).Ops[0].Lease.ID
	b.must(leased("k", id))
	for range 9 {
		b.clock.Advance(100 * time.Millisecond)
		b.settled()
	}
	b.clock.Advance(10 * time.Second) // in one step
	_, err := b.Lease(id)
	require.NoError(t, err, "also before the committer has noticed")
	b.settled()
	require.Equal(t, "leased", b.text("a", "k"))
	l, err := b.Lease(id)
	require.NoError(t, err)
	require.Equal(t, time.Second, l.Left)
	for range 10 {
		b.clock.Advance(100 * time.Millisecond)
		b.settled()
	}
	require.Equal(t, "-", b.text("a", "k"), "time that passes step by step counts")

	b = onFake(t, Config{})
	id = b.must(grant(time.Second)).Ops[0].Lease.ID
	b.must(leased("k", id))
	b.clock.Advance(10 * time.Second)
	b.settled()
	require.Equal(t, "-", b.text("a", "k"), "with a clock of its own the store looks for no pauses")
}

// A lease that has ended, but could not be written yet, gets no time again.
func TestAPauseRevivesNoLeaseThatHasEnded(t *testing.T) {
	b := onFake(t, Config{PauseAfter: 2 * time.Second})
	id := b.must(grant(time.Second)).Ops[0].Lease.ID
	b.must(leased("k", id))
	b.disk.set(nil, nil, codes.Errorf(codes.Storage, "full to the brim"))
	b.clock.Advance(time.Second)
	b.settled()
	_, err := b.KeepAlive(t.Context(), id)
	require.ErrorIs(t, err, codes.LeaseGone)
	b.disk.set(nil, nil, nil)
	b.clock.Advance(10 * time.Second)
	b.settled()
	require.Equal(t, "-", b.text("a", "k"))
}

// However much is due, and however many transactions ask, a group ends only so
// many keys, and the rest follows by itself.
func TestExpiriesOfAGroupAreBounded(t *testing.T) {
	b := gated(t, Config{})
	const keys = 3 * maxExpiries
	for from := 0; from < keys; from += 1024 {
		var ops []kv.Op
		for i := range 1024 {
			ops = append(ops, until(put(strconv.Itoa(from+i), "x"), time.Second))
		}
		written := b.begin(&kv.Txn{Then: ops})
		b.allow()
		require.NoError(t, (<-written).err)
	}
	first := b.begin(&kv.Txn{Then: []kv.Op{incr("n", 1)}})
	<-b.disk.entered
	b.clock.Advance(time.Second)
	var last <-chan outcome
	for range 10 {
		last = b.begin(&kv.Txn{Then: []kv.Op{incr("n", 1)}})
	}
	b.disk.gate <- struct{}{}
	<-first
	for range keys / maxExpiries {
		groups := make(chan int, 1)
		stop := b.Follow(func(batch *kv.Batch) { groups <- len(batch.Changes) })
		b.allow()
		require.LessOrEqual(t, <-groups, maxExpiries+10)
		stop()
	}
	require.NoError(t, (<-last).err)
	require.EqualValues(t, 1, b.Stats().Keys)
}

// That each write takes longer than a pause does not keep the leases of the dead.
func TestLeasesEndOnASlowDisk(t *testing.T) {
	b := gated(t, Config{PauseAfter: 500 * time.Millisecond})
	first := b.begin(&kv.Txn{Then: []kv.Op{grant(time.Second)}})
	b.allow()
	id := (<-first).result.Ops[0].Lease.ID
	next := b.begin(&kv.Txn{Then: []kv.Op{leased("k", id)}})
	for range 5 {
		<-b.disk.entered
		later := b.begin(&kv.Txn{Then: []kv.Op{incr("n", 1)}})
		for range 6 {
			b.clock.Advance(100 * time.Millisecond)
			require.Eventually(t, func() bool {
				b.leases.mu.Lock()
				defer b.leases.mu.Unlock()
				return b.leases.alive == b.leases.now()
			}, 10*time.Second, time.Millisecond)
		}
		b.disk.gate <- struct{}{}
		require.NoError(t, (<-next).err)
		next = later
	}
	require.Equal(t, "-", b.text("a", "k"))
	b.allow()
	require.NoError(t, (<-next).err)
}

// slowClock makes one caller that asks for the time hold it for a while, once.
type slowClock struct {
	*clocktest.Fake
	hold          atomic.Bool
	asked, answer chan struct{}
}

func (c *slowClock) Steady() time.Time {
	now := c.Fake.Steady()
	if c.hold.CompareAndSwap(true, false) {
		c.asked <- struct{}{}
		<-c.answer
	}
	return now
}

// Two goroutines show that the process runs. One that was held up between its look
// at the clock and saying so does not make a pause of what the other has shown since.
func TestALateSignOfLifeIsNoPause(t *testing.T) {
	c := &slowClock{Fake: clocktest.NewFake(noon), asked: make(chan struct{}), answer: make(chan struct{})}
	l := newLeases(c, 500*time.Millisecond)
	l.publish([]*lease{l.grant(LeaseChange{ID: 1, TTL: time.Minute})})
	require.Zero(t, l.running())
	c.hold.Store(true)
	late := make(chan time.Duration)
	go func() { late <- l.running() }()
	<-c.asked
	for range 3 {
		c.Advance(300 * time.Millisecond)
		require.Zero(t, l.running())
	}
	close(c.answer)
	require.Zero(t, <-late)
	require.Zero(t, l.running())
}

// brisk is a clock that moves on by step just before a timer is set.
type brisk struct {
	*clocktest.Fake
	step atomic.Int64
}

type briskTimer struct {
	clock.Timer
	clock *brisk
}

func (c *brisk) NewTimer(d time.Duration) clock.Timer { return briskTimer{c.Fake.NewTimer(d), c} }

func (t briskTimer) Reset(d time.Duration) {
	t.clock.Advance(time.Duration(t.clock.step.Swap(0)))
	t.Timer.Reset(d)
}

// What falls due between the committer's look at the clock and its sleep ends all the
// same, and not a whole time to live later.
func TestALeaseEndsThatFallsDueBeforeTheCommitterSleeps(t *testing.T) {
	c := &brisk{Fake: clocktest.NewFake(noon)}
	s, err := Open(t.Context(), Config{Clock: c}, &fakeLog{})
	require.NoError(t, err)
	defer s.Close()
	c.step.Store(int64(2 * time.Second))
	b := &bench{TB: t, Store: s, clock: c.Fake}
	b.must(grant(time.Second))
	require.Eventually(t, func() bool { return s.Stats().Leases == 0 }, 20*time.Second, time.Millisecond)
}

// A pause may begin after the committer has shown that it runs, and before it looks for
// leases that are over.
func TestNoLeaseEndsBeforeAPauseIsNoticed(t *testing.T) {
	c := clocktest.NewFake(noon)
	l := newLeases(c, 500*time.Millisecond)
	one := l.grant(LeaseChange{ID: 1, TTL: time.Second})
	l.publish([]*lease{one})
	require.Zero(t, l.running())
	c.Advance(10 * time.Second)
	require.Nil(t, l.due())
	require.Equal(t, 10*time.Second, l.running())
	require.Nil(t, l.due())
	for range 10 {
		c.Advance(100 * time.Millisecond)
		require.Zero(t, l.running())
	}
	require.Equal(t, one, l.due())
}
