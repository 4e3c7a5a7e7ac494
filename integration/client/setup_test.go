package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/client"
	"confcenter/clienttest"
)

// The server's libraries keep goroutines of their own.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

const (
	// patience is how long a test waits for what must happen.
	patience = time.Minute
	lockTime = time.Minute
)

// real starts a server and a client of it.
func real(t *testing.T, opts clienttest.Options) (*clienttest.Server, *client.Client) {
	t.Helper()
	srv := clienttest.Start(t, opts)
	return srv, dial(t, srv.Address(), "app1")
}

// dial connects to addr; the client is closed with the test.
func dial(t testing.TB, addr, name string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{addr}, Name: name,
		MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually waits for a fact that nothing announces.
func eventually(t testing.TB, fact func() bool, what string) {
	t.Helper()
	require.Eventually(t, fact, patience, time.Millisecond, what)
}

// states collects the states passed to a watch's callback.
type states struct {
	t testing.TB
	c chan *client.Document
}

// watch calls Watch and collects the states.
func watch(t testing.TB, c *client.Client, q client.Query) (*states, *client.Watch) {
	t.Helper()
	s := &states{t, make(chan *client.Document, 1000)}
	w, err := c.Watch(t.Context(), q, func(d *client.Document) { s.c <- d })
	require.NoError(t, err)
	return s, w
}

func (s *states) next() *client.Document {
	s.t.Helper()
	select {
	case d := <-s.c:
		return d
	case <-time.After(patience):
		require.FailNow(s.t, "no state came")
		return nil
	}
}

// want waits for a state with these contents, empty for absent.
func (s *states) want(contents string) *client.Document {
	s.t.Helper()
	d := s.next()
	require.Equal(s.t, contents, string(d.Raw()))
	require.Equal(s.t, contents != "", d.Exists())
	return d
}

// none requires that no state is waiting. Callers first make sure that everything has
// arrived.
func (s *states) none() {
	s.t.Helper()
	select {
	case d := <-s.c:
		require.FailNow(s.t, "unexpected state", "%s", d.Raw())
	default:
	}
}

// watchKV calls KV.Watch, which must succeed.
func watchKV(t testing.TB, n *client.KV, o client.WatchOptions) *client.KVWatch {
	t.Helper()
	w, err := n.Watch(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// insisting repeats fn as long as that is safe and the test runs.
func insisting[T any](fn func() (T, error)) (T, error) {
	for {
		v, err := fn()
		if !client.SafeToRetry(err) || errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled) {
			return v, err
		}
	}
}

// contend takes the lock, adds one under it and releases it, n times. inside counts those
// that believe they hold it.
func contend(t *testing.T, n *client.KV, rounds int, inside *atomic.Int32) {
	for range rounds {
		l, err := insisting(func() (*client.Lock, error) { return n.Lock(t.Context(), "lock", lockTime) })
		if err != nil {
			t.Error(err)
			return
		}
		if inside.Add(1) != 1 {
			t.Error("two at once")
		}
		if _, err := insisting(func() (int64, error) { return n.Incr(t.Context(), "sum", 1, client.WithFence(l)) }); err != nil {
			t.Error(err)
		}
		inside.Add(-1)
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
