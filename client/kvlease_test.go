package client

import (
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

const leaseTime = 30 * time.Second

// leased is a lease of leaseTime whose client's clock the test moves; the store's
// stands still, so that only what the client does counts.
func leased(t *testing.T) (*fakeServer, *fakeState, *clocktest.Fake, *Lease) {
	s := newFakeServer(t, nil)
	state := stateful(t, s, memory.Config{Clock: clocktest.NewFake(time.Unix(5000, 0))})
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg := quick(s)
	cfg.Clock, cfg.KeepAlive = fake, time.Hour
	n := dialWith(t, cfg).KV("n")
	l, err := n.Lease(t.Context(), leaseTime)
	require.NoError(t, err)
	waiting(t, fake)
	return s, state, fake, l
}

// waiting waits until the keeper and the lease both wait on the clock.
func waiting(t *testing.T, fake *clocktest.Fake) {
	t.Helper()
	eventually(t, func() bool { return fake.Waiters() == 2 }, "the keeper and the lease wait")
}

func ended(l *Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

func TestLeaseIsKeptAlive(t *testing.T) {
	s, state, fake, l := leased(t)
	_, err := l.s.PutInt(t.Context(), "k", 1, WithLease(l))
	require.NoError(t, err)
	_, err = l.s.c.KV("other").PutInt(t.Context(), "k", 1, WithLease(l))
	require.NoError(t, err)
	require.Equal(t, leaseTime, l.TTL())
	for asked := 1; asked <= 10; asked++ {
		fake.Advance(leaseTime / 3)
		eventually(t, func() bool { return len(s.requests(protocol.KVAlive)) == asked }, "it is kept alive")
		waiting(t, fake)
	}
	require.False(t, ended(l))
	require.NoError(t, l.Err())
	info, err := state.Lease(l.ID())
	require.NoError(t, err)
	require.Equal(t, 2, info.Keys)

	require.NoError(t, l.Revoke(t.Context()))
	require.True(t, ended(l))
	require.ErrorIs(t, l.Err(), ErrClosed)
	_, err = l.s.Get(t.Context(), "k")
	require.ErrorIs(t, err, codes.NotFound)
	require.NoError(t, l.Revoke(t.Context()), "again is no error")
	_, err = l.s.PutInt(t.Context(), "k", 1, WithLease(l))
	require.ErrorIs(t, err, codes.LeaseGone)
}

// The lease is kept alive on whatever connection there is.
func TestLeaseOutlastsAConnection(t *testing.T) {
	s, _, fake, l := leased(t)
	lose := once(protocol.KVAlive, 3)
	losing(s, func(h protocol.Header) (before, after bool) { return lose(h), false })
	fake.Advance(leaseTime / 3)
	for tick := 0; len(s.requests(protocol.KVAlive)) < 4; tick++ { // each time after a wait for the connection
		require.Less(t, tick, 5000)
		fake.Advance(time.Millisecond)
		<-time.After(100 * time.Microsecond)
	}
	waiting(t, fake)
	require.False(t, ended(l))
}

func TestLeaseIsLostWhenCutOff(t *testing.T) {
	s, _, fake, l := leased(t)
	s.change(func(s *fakeServer) {
		s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool { return h.Command == protocol.KVAlive }
	})
	fake.Advance(leaseTime / 3)
	eventually(t, func() bool { return len(s.requests(protocol.KVAlive)) == 1 }, "it asks")
	fake.Advance(leaseTime*2/3 - time.Millisecond)
	require.False(t, ended(l))
	eventually(t, func() bool { fake.Advance(time.Millisecond); return ended(l) }, "its time is over")
	require.ErrorIs(t, l.Err(), codes.Timeout)
}

func TestLeaseIsLostWhenTheServerSaysSo(t *testing.T) {
	_, state, fake, l := leased(t)
	state.commit(t, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: l.ID()}}})
	fake.Advance(leaseTime / 3)
	<-l.Lost()
	require.ErrorIs(t, l.Err(), codes.LeaseGone)
}

// A refusal for the moment is not the end.
func TestLeaseTriesAgain(t *testing.T) {
	s, _, fake, l := leased(t)
	var busy atomic.Bool
	busy.Store(true)
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			no := h.Command == protocol.KVAlive && busy.Load()
			if no {
				c.reply(h, protocol.AppendResult(nil, int(codes.Busy), "busy"))
			}
			return no
		}
	})
	fake.Advance(leaseTime / 3)
	eventually(t, func() bool { return len(s.requests(protocol.KVAlive)) == 1 }, "it asks")
	busy.Store(false)
	eventually(t, func() bool { // the answer may not have been read yet
		fake.Advance(leaseTime / 3000)
		return len(s.requests(protocol.KVAlive)) == 2
	}, "it asks again")
	waiting(t, fake)
	fake.Advance(leaseTime / 3)
	eventually(t, func() bool { return len(s.requests(protocol.KVAlive)) == 3 }, "and goes on")
	require.False(t, ended(l))
}

// A program that slept through the lease's time does not believe in it.
func TestLeaseAfterAPause(t *testing.T) {
	s, _, fake, l := leased(t)
	fake.Advance(leaseTime)
	<-l.Lost()
	require.ErrorIs(t, l.Err(), codes.Timeout)
	require.Empty(t, s.requests(protocol.KVAlive))
}
