package replica

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

// A write that fails midway may have taken effect or not. Until the log knows, everything is
// refused but what reads, and afterwards what has taken effect is there, for readers, for
// followers and for those who ask by token.
func TestAWriteThatFailedIsSettledWhenTheLogKnows(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint("durable=", keeps), func(t *testing.T) {
			f := &fakeLog{arrived: make(chan struct{}, 1)}
			b := reopened(t, Config{}, f, clock.NewFake(noon))
			b.must(put("k", "1"), grant(time.Hour))
			done, err := b.do(withToken("done", put("x", "1")))
			require.NoError(t, err)
			var told []*kv.Batch
			defer b.Follow(func(batch *kv.Batch) { told = append(told, batch) })()

			f.mu.Lock()
			f.fail, f.keeps = fmt.Errorf("%w: no such sector", ErrUnknown), keeps
			f.mu.Unlock()
			_, err = b.do(withToken("doubt", put("k", "2"), put("new", "2"), grant(time.Hour)))
			require.ErrorIs(t, err, codes.Timeout)
			require.ErrorContains(t, err, "no such sector")
			require.Equal(t, "1", b.text("a", "k"))
			require.EqualValues(t, 2, b.Revision())

			_, err = b.do(&kv.Txn{Then: []kv.Op{put("k", "3")}})
			require.ErrorIs(t, err, codes.Storage)
			_, err = b.do(withToken("doubt", put("k", "2"), put("new", "2"), grant(time.Hour)))
			require.ErrorIs(t, err, codes.Timeout, "not known yet")
			again, err := b.do(withToken("done", put("x", "1")))
			require.NoError(t, err)
			require.Equal(t, done.Revision, again.Revision)
			r, err := b.do(&kv.Txn{Then: []kv.Op{get("k")}})
			require.NoError(t, err)
			require.Equal(t, "1", string(r.Ops[0].Entry.Value.Data))

			b.disk.set(nil, nil, nil)
			f.arrived <- struct{}{}
			r, err = b.do(withToken("doubt", put("k", "2"), put("new", "2"), grant(time.Hour)))
			require.NoError(t, err)
			require.Equal(t, keeps, r.Replayed)
			require.EqualValues(t, 3, r.Revision)
			require.Equal(t, "2 2", b.text("a", "k")+" "+b.text("a", "new"))
			lease, err := b.Lease(r.Ops[2].Lease.ID)
			require.NoError(t, err)
			require.Equal(t, time.Hour, lease.TTL)
			require.EqualValues(t, 4, b.must(put("k", "4")).Revision)
			b.settled()
			require.Len(t, told, 2)
			require.EqualValues(t, 3, told[0].Changes[0].Revision)
			require.EqualValues(t, 2, b.Stats().Leases)
		})
	}
}

// All of a group share one record of the log, and with it the doubt.
func TestNobodyOfAGroupThatFailedIsToldMoreThanIsKnown(t *testing.T) {
	f := &fakeLog{entered: make(chan struct{}, 1), gate: make(chan struct{}), arrived: make(chan struct{}, 1)}
	b := reopened(t, Config{}, f, clock.NewFake(noon))
	t.Cleanup(func() { close(f.gate) })
	first := b.begin(&kv.Txn{Then: []kv.Op{put("text", "x")}})
	<-f.entered
	early := b.begin(&kv.Txn{Then: []kv.Op{get("text")}})
	one := b.begin(&kv.Txn{Then: []kv.Op{put("one", "1")}})
	two := b.begin(&kv.Txn{Then: []kv.Op{put("two", "2")}})
	read := b.begin(&kv.Txn{Then: []kv.Op{get("one")}})
	f.gate <- struct{}{}
	require.NoError(t, (<-first).err)
	<-f.entered
	f.mu.Lock()
	f.fail, f.keeps = ErrUnknown, true
	f.mu.Unlock()
	f.gate <- struct{}{}
	require.NoError(t, (<-early).err)
	require.ErrorIs(t, (<-one).err, codes.Timeout)
	require.ErrorIs(t, (<-two).err, codes.Timeout)
	require.ErrorIs(t, (<-read).err, codes.Storage)
	require.Equal(t, "- -", b.text("a", "one")+" "+b.text("a", "two"))
	b.disk.set(nil, nil, nil)
	f.arrived <- struct{}{}
	b.must(get("one"))
	b.must(get("one"))
	require.Equal(t, "1 2", b.text("a", "one")+" "+b.text("a", "two"))
}

// Keys and leases end when the log takes writes again.
func TestExpiryWaitsForALogThatFailed(t *testing.T) {
	f := &fakeLog{arrived: make(chan struct{}, 1)}
	b := reopened(t, Config{}, f, clock.NewFake(noon))
	b.must(until(put("k", "1"), time.Second), grant(time.Second))
	b.must(leased("held", 1))
	b.disk.set(ErrUnknown, nil, nil)
	_, err := b.do(&kv.Txn{Then: []kv.Op{put("x", "1")}})
	require.ErrorIs(t, err, codes.Timeout)
	require.Eventually(t, func() bool {
		b.clock.Advance(time.Second)
		_, err := b.do(&kv.Txn{Then: []kv.Op{put("x", "1")}})
		return errors.Is(err, codes.Storage)
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, "1 leased", b.text("a", "k")+" "+b.text("a", "held"))
	b.disk.set(nil, nil, nil)
	f.arrived <- struct{}{}
	require.Eventually(t, func() bool {
		b.clock.Advance(time.Second)
		return b.text("a", "k") == "-" && b.text("a", "held") == "-"
	}, 10*time.Second, time.Millisecond)
}
