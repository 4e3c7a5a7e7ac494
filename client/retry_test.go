package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

// strict is a server that refuses every request once because too much is sent, and how often
// it has answered each.
func strict(t testing.TB, after time.Duration) *fakeServer {
	s := newFakeServer(t, map[string]string{"a.json": `{"k":1}`})
	stateful(t, s, memory.Config{})
	refused := map[protocol.Command]int{} // guarded by mu
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			if h.Command == protocol.Whoami || h.Command.IsReply() {
				return false
			}
			s.mu.Lock()
			refused[h.Command]++
			first := refused[h.Command] == 1
			s.mu.Unlock()
			if first {
				c.reply(h, protocol.AppendRetryAfter(protocol.AppendResult(nil, int(codes.Busy), "too fast"), after))
			}
			return first
		}
	})
	return s
}

func TestWhatIsRefusedForItsRateIsSentAgain(t *testing.T) {
	s := strict(t, 5*time.Millisecond)
	c := dial(t, s)
	ctx := t.Context()
	_, err := c.Get(ctx, "a.json")
	require.NoError(t, err)
	_, err = c.Set(ctx, SetRequest{Name: "b.json", Contents: []byte(`1`)})
	require.NoError(t, err, "nothing was done, so it is safe")
	docs := make(chan *Document, 8)
	w, err := c.Watch(ctx, Query{Name: "a.json"}, func(d *Document) { docs <- d })
	require.NoError(t, err)
	defer w.Stop()
	<-docs
	n := c.KV("n")
	_, err = n.Incr(ctx, "count", 1)
	require.NoError(t, err)
	e, err := n.Get(ctx, "count")
	require.NoError(t, err)
	require.EqualValues(t, "1", e.Value.Data)
	watch, err := n.Watch(ctx, WatchOptions{})
	require.NoError(t, err)
	watch.Stop()
	l, err := n.Lock(ctx, "job", time.Minute)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	for _, cmd := range []protocol.Command{protocol.SetConfig, protocol.KVIncr, protocol.KVGet, protocol.KVWatch, protocol.KVLock} {
		require.GreaterOrEqual(t, len(s.requests(cmd)), 2, cmd)
	}
}

func TestCloseGivesLocksUpThoughItIsRefusedAtFirst(t *testing.T) {
	s := strict(t, 5*time.Millisecond)
	c := dial(t, s)
	locked(t, c.KV("n"), "job")
	require.NoError(t, c.Close())
	require.Len(t, s.requests(protocol.KVRevoke), 2)
	other, err := dial(t, s).KV("n").TryLock(t.Context(), "job", time.Minute)
	require.NoError(t, err)
	require.NoError(t, other.Unlock(t.Context()))
}

// There is no point in waiting longer than the caller does: he gets the refusal.
func TestARefusalThatNobodyWaitsForIsReturned(t *testing.T) {
	s := strict(t, time.Hour)
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg := quick(s)
	cfg.Clock = fake
	c := dialWith(t, cfg)
	results := make(chan error, 2)
	go func() {
		_, err := c.Get(t.Context(), "a.json")
		results <- err
	}()
	eventually(t, func() bool { fake.Advance(time.Second); return len(results) == 1 }, "its time is up")
	err := <-results
	require.ErrorIs(t, err, codes.Busy)
	require.Equal(t, time.Hour, codes.RetryAfter(err))

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := c.KV("n").Get(ctx, "k")
		results <- err
	}()
	eventually(t, func() bool { return len(s.requests(protocol.KVGet)) == 1 }, "it is sent")
	cancel()
	require.Error(t, <-results)
	require.Len(t, s.requests(protocol.KVGet), 1)
}
