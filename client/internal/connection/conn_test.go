package connection

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
	"confcenter/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errLost, errClosed = errors.New("lost"), errors.New("closed")

func settings() Settings {
	return Settings{
		DialTimeout: 5 * time.Second, KeepAlive: 30 * time.Second, KeepAliveTimeout: 10 * time.Second,
		MaxBody: 64 << 20, Clock: clock.Real(), Lost: errLost,
	}
}

// eventually waits for what happens by itself.
func eventually(t testing.TB, fact func() bool, what string) {
	t.Helper()
	require.Eventually(t, fact, 10*time.Second, time.Millisecond, what)
}

// safe reports whether nothing of a request was sent, as its error says.
func safe(t testing.TB, err error) bool {
	var e *Error
	require.ErrorAs(t, err, &e)
	return !e.Sent
}

// peer is the other end of a connection.
type peer struct {
	net.Conn
	mu   sync.Mutex
	seqs map[protocol.Command][]uint16 // of the requests that have come; guarded by mu
}

func (p *peer) asked(cmd protocol.Command) []uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seqs[cmd]
}

func (p *peer) reply(h protocol.Header, body string) {
	p.Write(protocol.AppendFrame(nil, h.Command.Reply(), h.Seq, []byte(body)))
}

// connect is a connection to a peer. answer gets each request, one after the other.
func connect(t testing.TB, set Settings, answer func(p *peer, h protocol.Header, body []byte)) (*Conn, *peer) {
	near, far := net.Pipe()
	p := &peer{Conn: far, seqs: map[protocol.Command][]uint16{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var head [protocol.HeaderSize]byte
			if _, err := io.ReadFull(far, head[:]); err != nil {
				return
			}
			h, err := protocol.ParseHeader(head[:])
			body := make([]byte, h.BodyLen)
			if _, lost := io.ReadFull(far, body); err != nil || lost != nil {
				return
			}
			p.mu.Lock()
			p.seqs[h.Command] = append(p.seqs[h.Command], h.Seq)
			p.mu.Unlock()
			answer(p, h, body)
		}
	}()
	c := newConn(near, "pipe", set)
	t.Cleanup(func() {
		c.Close(errClosed)
		far.Close()
		<-ended
	})
	return c, p
}

func get(body string) []byte { return protocol.AppendFrame(nil, protocol.GetConfig, 0, []byte(body)) }

func (c *Conn) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

// The numbers wrap around, leave out 0 and those in use.
func TestSequenceWraps(t *testing.T) {
	c, p := connect(t, settings(), func(p *peer, h protocol.Header, body []byte) {
		if !bytes.Contains(body, []byte("never")) {
			p.reply(h, "1")
		}
	})
	jump := func(to uint16) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seq = to
	}
	jump(1)
	ctx, cancel := context.WithCancel(t.Context())
	unanswered := make(chan error)
	go func() {
		_, err := c.Request(ctx, nil, protocol.GetConfig, get("never"))
		unanswered <- err
	}()
	eventually(t, func() bool { return len(p.asked(protocol.GetConfig)) == 1 }, "it is under way with number 2")
	cancel()
	require.ErrorIs(t, <-unanswered, context.Canceled)

	jump(65534)
	for range 3 {
		_, err := c.Request(t.Context(), nil, protocol.GetConfig, get("a"))
		require.NoError(t, err)
	}
	require.Equal(t, []uint16{2, 65535, 1, 3}, p.asked(protocol.GetConfig), "2 may still be answered")
}

// Whatever is in use, the next number is free and not 0.
func TestNextSeqIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		used := rapid.MapOf(rapid.Uint16Range(65500, 65535), rapid.Just[*Call](nil)).Draw(t, "high")
		for seq := range rapid.MapOf(rapid.Uint16Range(0, 40), rapid.Just(true)).Draw(t, "low") {
			used[seq] = nil
		}
		c := Conn{books: books{pending: used, seq: rapid.Uint16Range(65500, 65535).Draw(t, "seq")}}
		got := c.nextSeqLocked()
		_, taken := used[got]
		require.False(t, taken)
		require.NotZero(t, got)
	})
}

// A reply that comes when its caller no longer waits leaves nothing behind.
func TestLateReply(t *testing.T) {
	var late protocol.Header
	c, p := connect(t, settings(), func(p *peer, h protocol.Header, body []byte) {
		if string(body) == "a" {
			late = h
			return
		}
		p.reply(late, "late")
		p.reply(h, "b")
	})
	ctx, cancel := context.WithCancel(t.Context())
	first := c.Start(protocol.GetConfig, get("a"))
	eventually(t, func() bool { return len(p.asked(protocol.GetConfig)) == 1 }, "it is sent")
	cancel()
	_, err := first.Wait(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, safe(t, err))
	body, err := c.Request(t.Context(), nil, protocol.GetConfig, get("b"))
	require.NoError(t, err)
	require.Equal(t, "b", string(body))
	eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.forsaken == 0 && len(c.pending) == 0
	}, "nothing is left behind")
}

// A server that never answers anything is given up in the end.
func TestForsakenLimit(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go io.Copy(io.Discard, far)
	c := newConn(near, "pipe", settings())
	for range maxForsaken + 1 {
		c.Start(protocol.GetConfig, protocol.AppendFrame(nil, protocol.GetConfig, 0, nil)).Ignore()
	}
	<-c.Done()
	require.ErrorContains(t, c.Err(), "never answered")
	c.Close(errClosed)
}

// aged is a connection whose keep-alive is asked of a clock that the test moves.
func aged(t *testing.T, answer func(p *peer, h protocol.Header, body []byte)) (*Conn, *peer, *clocktest.Fake) {
	fake := clocktest.NewFake(time.Unix(1000, 0))
	set := settings()
	set.Clock = fake
	c, p := connect(t, set, answer)
	eventually(t, func() bool { return fake.Waiters() == 1 }, "only the keeper waits")
	return c, p, fake
}

func TestKeepAliveAsksAfterSilence(t *testing.T) {
	c, p, fake := aged(t, func(p *peer, h protocol.Header, _ []byte) { p.reply(h, "") })
	fake.Advance(20 * time.Second)
	_, err := c.Request(t.Context(), nil, protocol.GetConfig, get("a")) // a sign of life
	require.NoError(t, err)
	fake.Advance(20 * time.Second)
	require.Empty(t, p.asked(protocol.KeepAlive))
	for asked := 1; asked <= 3; asked++ {
		eventually(t, func() bool { return fake.Waiters() == 1 }, "the keeper waits")
		fake.Advance(30 * time.Second)
		eventually(t, func() bool { return len(p.asked(protocol.KeepAlive)) == asked }, "it asks")
		eventually(t, func() bool { return c.waiting() == 0 }, "the answer is there")
		eventually(t, func() bool { return fake.Waiters() == 1 }, "the keeper waits")
		fake.Advance(10 * time.Second)
	}
	require.NoError(t, c.Err())
}

// A doubt while the keeper waits for an answer shortens the wait.
func TestDoubtShortensTheKeepersWait(t *testing.T) {
	c, p, fake := aged(t, func(*peer, protocol.Header, []byte) {})
	fake.Advance(30 * time.Second)
	eventually(t, func() bool { return len(p.asked(protocol.KeepAlive)) == 1 }, "it asks")
	eventually(t, func() bool { return fake.Waiters() == 1 }, "the keeper waits for the answer")
	c.doubt <- struct{}{}
	eventually(t, func() bool { return len(c.doubt) == 0 }, "it is told")
	eventually(t, func() bool {
		fake.Advance(time.Millisecond)
		return c.Err() != nil
	}, "the connection is given up")
	require.WithinDuration(t, time.Unix(1000+30, 0).Add(probeTimeout), fake.Now(), 5*time.Second, "and not 10 s later")
	require.ErrorContains(t, c.Err(), "no sign of life")
	require.ErrorIs(t, c.Err(), ErrSilent)
}

// A request that is given up before the writer took it was not sent.
func TestForsakenBeforeSent(t *testing.T) {
	near, far := net.Pipe() // no one reads: the writer hangs in its first write
	defer far.Close()
	c := newConn(near, "pipe", settings())
	defer c.Close(errClosed)
	frame := func() []byte { return protocol.AppendFrame(nil, protocol.GetConfig, 0, []byte(`{}`)) }
	first := c.Start(protocol.GetConfig, frame())
	eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return first.state == sent
	}, "the writer has the first")
	second := c.Start(protocol.GetConfig, frame())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := second.Wait(ctx, nil)
	require.True(t, safe(t, err))
	_, err = first.Wait(ctx, nil)
	require.False(t, safe(t, err))

	third := c.Start(protocol.GetConfig, frame())
	c.fail(io.ErrClosedPipe)
	_, err = third.Wait(t.Context(), nil)
	require.ErrorIs(t, err, errLost)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.True(t, safe(t, err))
	_, err = c.Start(protocol.GetConfig, frame()).Wait(t.Context(), nil)
	require.ErrorIs(t, err, errLost)
	require.True(t, safe(t, err))
}

// A server that asks and does not read cannot make the answers pile up.
func TestControlLimit(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := newConn(near, "pipe", settings())
	ask := protocol.AppendFrame(nil, protocol.KeepAlive, 1, nil)
	for range maxControl {
		if _, err := far.Write(ask); err != nil {
			break
		}
	}
	<-c.Done()
	require.ErrorContains(t, c.Err(), "faster than it reads")
	c.Close(errClosed)
}

// Whatever bytes a server sends, in whatever pieces, the connection ends in good
// order.
func FuzzConnRead(f *testing.F) {
	f.Add(protocol.AppendFrame(nil, protocol.GetConfig.Reply(), 1, []byte(`{"code":0}`)), 3)
	f.Add(protocol.AppendFrame(nil, protocol.EvNotify, 1, protocol.AppendChange(nil, protocol.Change{File: "a", Mtime: 1})), 1)
	f.Add(protocol.AppendFrame(nil, protocol.EvNotify, 1, []byte(`{"from":"7"}`)), 10)
	f.Add(protocol.AppendHeader(nil, protocol.KeepAlive, 1, 1<<30), 10)
	f.Add([]byte{1, 10, 255, 255, 255, 255, 0x10, 1, 0, 1}, 100)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far)
		set := settings()
		set.MaxBody, set.OnChange, set.OnGrant = 1<<16, func(protocol.Change) {}, func(protocol.KVGranted) {}
		c := newConn(near, "pipe", set)
		cl := c.Start(protocol.GetConfig, protocol.AppendFrame(nil, protocol.GetConfig, 0, nil))
		piece = 1 + (piece&0xFF+256)%256
		for len(stream) > 0 {
			n := min(piece, len(stream))
			if _, err := far.Write(stream[:n]); err != nil {
				break
			}
			stream = stream[n:]
		}
		far.Close()
		c.Close(errClosed)
		<-cl.done
	})
}
