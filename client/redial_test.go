package client

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client/internal/connection"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/protocol"
)

// nowhere is an address where no one listens.
func nowhere(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

func TestDialTriesEachAddress(t *testing.T) {
	s := newFakeServer(t, nil)
	cfg := quick(s)
	cfg.Addrs = []string{nowhere(t), s.addr}
	c := dialWith(t, cfg)
	require.True(t, c.Connected())
	require.Equal(t, 1, c.good)
}

func TestDialUnreachable(t *testing.T) {
	addrs := []string{nowhere(t), nowhere(t)}
	_, err := Dial(t.Context(), Config{Addrs: addrs})
	require.ErrorIs(t, err, ErrUnreachable)
	require.Equal(t, codes.Unreachable, codes.Of(err))
	require.ErrorContains(t, err, addrs[0])
	require.ErrorContains(t, err, addrs[1])
	require.True(t, SafeToRetry(err))
}

func TestDialRefused(t *testing.T) {
	s := newFakeServer(t, nil)
	s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
		c.reply(h, protocol.AppendNotIdentified(nil, int(codes.Limit), "too many connections"))
		c.Close()
		return true
	}
	_, err := Dial(t.Context(), quick(s))
	require.ErrorIs(t, err, codes.Limit)
	require.ErrorContains(t, err, "too many connections")
}

// The port of another program is not taken for a server's.
func TestDialSomethingElse(t *testing.T) {
	for name, answer := range map[string]string{"no svrid": `{"code":0}`, "svrid 0": `{"code":0,"svrid":0}`, "not JSON": `hello`} {
		s := newFakeServer(t, nil)
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			c.reply(h, []byte(answer))
			return true
		}
		_, err := Dial(t.Context(), quick(s))
		require.ErrorContains(t, err, "cannot be read", name)
	}
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	s := newFakeServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.script = func(*fakeConn, protocol.Header, []byte) bool {
		cancel()
		return true
	}
	_, err := Dial(ctx, quick(s))
	require.ErrorIs(t, err, context.Canceled)
}

func TestReconnectKeepsTheID(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	s.drop()
	_, err := c.Get(t.Context(), "a.json") // waits for the new connection
	require.NoError(t, err)
	require.EqualValues(t, 2001, c.ID())
	require.Len(t, s.requests(protocol.Whoami), 2)
	require.Contains(t, s.requests(protocol.Whoami)[1], `"svrid":2001`)
}

// If the server holds the id for a connection it does not know to be dead, the
// client takes a new one.
func TestReconnectWithoutTheID(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
			if h.Command != protocol.Whoami || !bytes.Contains(body, []byte(`"svrid":2001`)) {
				return false
			}
			c.reply(h, protocol.AppendNotIdentified(nil, 400, "svrid=2001 existed"))
			c.Close()
			return true
		}
	})
	s.drop()
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.EqualValues(t, 2002, c.ID())
}

// The address that worked is tried first, the others when it does not any more.
func TestReconnectElsewhere(t *testing.T) {
	one, two := newFakeServer(t, map[string]string{"a.json": `1`}), newFakeServer(t, map[string]string{"a.json": `2`})
	cfg := quick(one)
	cfg.Addrs = []string{one.addr, two.addr}
	c := dialWith(t, cfg)
	get := func() string {
		d, err := c.Get(t.Context(), "a.json")
		require.NoError(t, err)
		return string(d.Raw())
	}
	require.Equal(t, `1`, get())
	one.stop()
	require.Equal(t, `2`, get())
	one.restart()
	two.drop()
	require.Equal(t, `2`, get(), "the good one first")
	two.stop()
	require.Equal(t, `1`, get())
}

// While a first attempt is under way requests wait; after it has failed they do
// not.
func TestUnreachableAtOnce(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	var errs collector
	cfg := quick(s)
	cfg.OnError = errs.add
	c := dialWith(t, cfg)
	s.stop()
	_, err := c.Get(t.Context(), "a.json")
	require.ErrorIs(t, err, ErrUnreachable)
	require.NotErrorIs(t, err, codes.NotFound)
	_, err = c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`1`)})
	require.ErrorIs(t, err, ErrUnreachable)
	require.True(t, SafeToRetry(err))
	_, err = c.Watch(t.Context(), Query{Name: "a.json"}, func(*Document) {})
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, c.Connected())
	eventually(t, func() bool { return errs.has(ErrUnreachable) }, "OnError is told")

	s.restart()
	eventually(t, c.Connected, "it comes back")
	_, err = c.Get(t.Context(), "a.json")
	require.NoError(t, err)
}

// The waits between attempts double, vary and have a limit.
func TestBackoff(t *testing.T) {
	b := &backoff{min: 100, max: 1000, next: 100}
	for _, top := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		d := b.delay()
		require.GreaterOrEqual(t, d, top/2)
		require.LessOrEqual(t, d, top)
	}
	b.reset()
	require.LessOrEqual(t, b.delay(), time.Duration(100))

	varied := map[time.Duration]bool{}
	for range 100 {
		b.reset()
		varied[b.delay()] = true
	}
	require.Greater(t, len(varied), 10)
}

// The first wait is on the injected clock, and between half of MinBackoff and all
// of it.
func TestReconnectWaits(t *testing.T) {
	s := newFakeServer(t, nil)
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg := quick(s)
	cfg.Clock, cfg.MinBackoff, cfg.MaxBackoff, cfg.KeepAlive = fake, time.Second, 4*time.Second, time.Hour
	c := dialWith(t, cfg)
	s.drop()
	eventually(t, func() bool {
		sess, _ := c.state()
		return sess == nil && fake.Waiters() == 1
	}, "only the back-off waits")
	fake.Advance(500*time.Millisecond - 1)
	require.Equal(t, 1, fake.Waiters(), "not yet")
	fake.Advance(500*time.Millisecond + 1)
	eventually(t, c.Connected, "it comes back")
	require.Len(t, s.requests(protocol.Whoami), 2)
}

// A connection that is lost while the client is closed stays lost.
func TestCloseWhileReconnecting(t *testing.T) {
	for range 20 {
		s := newFakeServer(t, nil)
		c := dial(t, s)
		s.drop()
		require.NoError(t, c.Close())
		s.stop()
	}
}

// The next session begins only when every goroutine of the last has ended.
func TestGoroutinesEndBeforeTheNextSession(t *testing.T) {
	s := newFakeServer(t, nil)
	c := dial(t, s)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	entered, proceed := make(chan struct{}), make(chan struct{})
	busy, err := connection.Dial(t.Context(), ln.Addr().String(), connection.Settings{
		DialTimeout: c.cfg.DialTimeout, KeepAlive: c.cfg.KeepAlive, KeepAliveTimeout: c.cfg.KeepAliveTimeout, MaxBody: c.cfg.MaxBody,
		Clock: c.cfg.Clock, OnChange: func(protocol.Change) { close(entered); <-proceed }, Lost: ErrUnreachable,
	})
	require.NoError(t, err)
	far, err := ln.Accept()
	require.NoError(t, err)
	defer far.Close()
	attended := make(chan struct{})
	go func() {
		c.attend(&session{Conn: busy})
		close(attended)
	}()
	_, err = far.Write(protocol.AppendFrame(nil, protocol.EvNotify, 1, protocol.AppendChange(nil, protocol.Change{File: "a", Mtime: 1})))
	require.NoError(t, err)
	<-entered
	go busy.Close(net.ErrClosed) // ends with what attended waits for
	<-busy.Done()
	require.Never(t, func() bool {
		select {
		case <-attended:
			return true
		default:
			return false
		}
	}, 20*time.Millisecond, time.Millisecond)
	close(proceed)
	<-attended
}

// A server that accepts and says nothing does not hold up the next one.
func TestSilentServer(t *testing.T) {
	silent := newFakeServer(t, nil)
	silent.script = func(*fakeConn, protocol.Header, []byte) bool { return true }
	s := newFakeServer(t, nil)
	cfg := quick(s)
	cfg.Addrs = []string{silent.addr, s.addr}
	eventually(t, func() bool { // however slow this machine is, some timeout lets the next one answer
		cfg.DialTimeout += 20 * time.Millisecond
		c, err := Dial(t.Context(), cfg)
		if err != nil {
			return false
		}
		defer c.Close()
		return c.Connected()
	}, "connected to the second")
}
