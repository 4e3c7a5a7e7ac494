package kvstore

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/health"
	"confcenter/kv"
)

// A write that fails may have taken effect or not: that shows at the next start. Until then nothing
// is written, reads go on, and a token that is asked for again says neither yes nor no.
func TestAWriteThatFailedEndsWriting(t *testing.T) {
	for name, keeps := range map[string]bool{"it is durable": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			f := &fakeLog{}
			b := reopened(t, Config{}, f, clocktest.NewFake(noon))
			b.must(put("k", "1"))
			doubtful := withToken("doubt", put("k", "2"), grant(time.Hour))
			f.mu.Lock()
			f.fail, f.keeps = errors.New("no such sector"), keeps
			f.mu.Unlock()
			_, err := b.do(doubtful)
			require.ErrorIs(t, err, codes.Timeout)
			require.ErrorContains(t, err, "no such sector")
			require.Equal(t, "1", b.text("a", "k"))
			require.EqualValues(t, 1, b.Revision())
			require.True(t, b.Trouble().Restart)
			require.ErrorContains(t, b.Trouble().Err, "writes resume when the server is restarted")
			require.ErrorIs(t, b.Commit(doubtful, nil), codes.Timeout, "not known yet")
			require.ErrorIs(t, b.Commit(kv.PutTxn("a", "k", kv.IntValue(3)), nil), codes.Storage)
			changes, err := b.Changes(t.Context(), 0, 1000)
			require.NoError(t, err)
			require.NotEmpty(t, changes)

			f.set(nil, nil, nil)
			again := reopened(t, Config{}, f, b.clock)
			r, err := again.do(doubtful)
			require.NoError(t, err)
			require.Equal(t, keeps, r.Replayed)
			require.EqualValues(t, 2, r.Revision, "once")
		})
	}
}

// All of a group share one record of the log, and with it the doubt.
func TestNobodyOfAGroupThatFailedIsToldMoreThanIsKnown(t *testing.T) {
	f := &fakeLog{entered: make(chan struct{}, 1), gate: make(chan struct{})}
	b := reopened(t, Config{}, f, clocktest.NewFake(noon))
	first := b.begin(&kv.Txn{Then: []kv.Op{put("text", "x")}})
	<-f.entered
	early := b.begin(&kv.Txn{Then: []kv.Op{get("text")}})
	one := b.begin(&kv.Txn{Then: []kv.Op{put("one", "1")}})
	two := b.begin(&kv.Txn{Then: []kv.Op{put("two", "2")}})
	read := b.begin(&kv.Txn{Then: []kv.Op{get("one")}})
	f.gate <- struct{}{}
	require.NoError(t, (<-first).err)
	<-f.entered
	f.set(syscall.EIO, nil, nil)
	f.gate <- struct{}{}
	require.NoError(t, (<-early).err)
	require.ErrorIs(t, (<-one).err, codes.Timeout)
	require.ErrorIs(t, (<-two).err, codes.Timeout)
	require.ErrorIs(t, (<-read).err, codes.Storage)
	require.Equal(t, "- -", b.text("a", "one")+" "+b.text("a", "two"))
}

// Nothing can be written of the end of a key or a lease, so neither ends: not for who reads, and not for
// who keeps it alive.
func TestNothingEndsWhenTheLogHasFailed(t *testing.T) {
	f := &fakeLog{failed: make(chan struct{})}
	b := reopened(t, Config{}, f, clocktest.NewFake(noon))
	b.must(until(put("k", "1"), time.Second), grant(time.Second))
	b.must(leased("held", 1))
	f.broken(syscall.EIO)
	<-b.committer.ended
	for range 100 {
		b.clock.Advance(100 * time.Millisecond)
	}
	require.Equal(t, "1 leased", b.text("a", "k")+" "+b.text("a", "held"))
	lease, err := b.KeepAlive(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, time.Second, lease.Left)
	require.Equal(t, health.Full, b.Trouble().Kind, "as the log says")
	require.True(t, b.Trouble().Restart)
	require.ErrorIs(t, b.Commit(kv.PutTxn("a", "k", kv.IntValue(3)), nil), codes.Storage)
}
