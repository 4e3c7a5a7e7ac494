package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

func TestClosedLoopKeepsTheDepth(t *testing.T) {
	conns := dial(t, ceilingAddr(t), 4)
	script(t, func() {
		d := newLoad(conns, benchReads(0))
		for range 2 { // the connections can be used again
			tl := d.closed(32, 50*time.Millisecond)
			require.GreaterOrEqual(t, tl.done, int64(4*32))
			require.EqualValues(t, tl.done, tl.latency.TotalCount())
			for _, c := range conns {
				require.Zero(t, c.inflight, "drained")
			}
		}
	})
}

func TestClosedLoopPlaysExactly(t *testing.T) {
	for _, n := range []int{1, 3, 64, 1000, 70_000} { // the last wraps the sequence
		conns := dial(t, ceilingAddr(t), 2)
		script(t, func() {
			tl := newLoad(conns, benchReads(0)).play(16, n)
			require.EqualValues(t, n, tl.done)
			require.Positive(t, tl.perSecond())
		})
	}
}

func TestFailedRepliesAreCounted(t *testing.T) {
	addr := serveFake(t, func(w *fakeWriter, h protocol.Header, _ []byte) {
		if h.Seq%2 == 0 {
			w.reply(h, `{"code":404,"desc":"none"}`)
			return
		}
		w.reply(h, `{"code":0}`)
	})
	d := newLoad(dial(t, addr, 1), benchReads(0))
	require.ErrorContains(t, attempt(func() { d.play(2, 10) }), "404")
	require.EqualValues(t, 10, d.tally.done)
	require.EqualValues(t, 5, d.tally.failed)
}

func TestWrongAnswersEndTheRun(t *testing.T) {
	tests := []struct {
		name   string
		answer func(w *fakeWriter, h protocol.Header)
		want   string
	}{
		{"wrong sequence", func(w *fakeWriter, h protocol.Header) { w.frame(h.Command.Reply(), h.Seq+1, `{"code":0}`) }, "seq"},
		{"wrong command", func(w *fakeWriter, h protocol.Header) { w.frame(protocol.SetConfig.Reply(), h.Seq, `{"code":0}`) }, "SETCONFIG_RSP"},
		{"twice", func(w *fakeWriter, h protocol.Header) { w.reply(h, `{"code":0}`); w.reply(h, `{"code":0}`) }, "seq"},
		{"wrong header", func(w *fakeWriter, h protocol.Header) { w.raw(make([]byte, 10)) }, "header"},
		{"closed", func(w *fakeWriter, h protocol.Header) { w.conn.Close() }, "connection lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := serveFake(t, func(w *fakeWriter, h protocol.Header, _ []byte) { tt.answer(w, h) })
			conns := dial(t, addr, 1)
			require.ErrorContains(t, attempt(func() { newLoad(conns, benchReads(0)).closed(1, time.Minute) }), tt.want)
		})
	}
}

func TestRefusedRequestsAreQuoted(t *testing.T) {
	addr := serveFake(t, func(w *fakeWriter, h protocol.Header, _ []byte) { w.reply(h, `{"code":420,"desc":"no file=x"}`) })
	c := dial(t, addr, 1)[0]
	require.ErrorContains(t, attempt(func() { c.ask(protocol.BookCfgChange, []byte(`{}`)) }), "no file=x")
}

func TestKeepAliveIsAnswered(t *testing.T) {
	answered := make(chan uint16, 1)
	addr := serveFake(t, func(w *fakeWriter, h protocol.Header, _ []byte) {
		if h.Command == protocol.KeepAlive.Reply() {
			answered <- h.Seq
			return
		}
		w.frame(protocol.KeepAlive, 77, "")
		w.reply(h, `{"code":0}`)
	})
	c := dial(t, addr, 1)[0]
	script(t, func() { c.ask(protocol.GetConfig, []byte(`{}`)) })
	require.EqualValues(t, 77, <-answered)
}

func TestUntilEnds(t *testing.T) {
	l := testLoop(t)
	never := func() bool { return false }
	require.ErrorIs(t, attempt(func() { l.until(time.Millisecond, never) }), errTimeout)
	ctx, cancel := context.WithCancelCause(t.Context())
	l.ctx = ctx
	why := errors.New("why")
	cancel(why)
	require.ErrorIs(t, attempt(func() { l.until(time.Minute, never) }), why)
}

func TestAMutedConnectionIsNotRead(t *testing.T) {
	addr := serveFake(t, func(w *fakeWriter, _ protocol.Header, _ []byte) { w.conn.Close() })
	conns := dial(t, addr, 2)
	muted, other := conns[0], conns[1]
	script(t, func() {
		muted.mute()
		muted.write(protocol.AppendFrame(nil, protocol.GetConfig, 0, []byte(`{}`)))
		muted.loop.wait(10 * time.Millisecond)
	})
	other.write(protocol.AppendFrame(nil, protocol.GetConfig, 0, []byte(`{}`)))
	require.ErrorContains(t, attempt(func() { other.loop.wait(time.Minute) }), "connection lost")
	require.True(t, other.closed)
	require.False(t, muted.closed)
}

// What the kernel does not take at once is written when the peer has made room.
func TestAFullSocketIsWaitedFor(t *testing.T) {
	hold := make(chan struct{})
	addr := serveFake(t, func(w *fakeWriter, h protocol.Header, body []byte) {
		if len(body) < 1000 {
			<-hold
		}
		w.reply(h, `{"code":0}`)
	})
	c := dial(t, addr, 1)[0]
	first := protocol.AppendFrame(nil, protocol.SetConfig, 0, nil)
	big := protocol.AppendFrame(nil, protocol.SetConfig, 0, make([]byte, 16<<20))
	c.take(first)
	c.write(first)
	time.AfterFunc(10*time.Millisecond, func() { close(hold) })
	c.take(big)
	c.write(big)
	script(t, func() { c.loop.until(time.Minute, func() bool { return c.inflight == 0 }) })
}

// collector remembers what a connection tells.
type collector struct{ replies, pushes []string }

func (l *collector) of(c *conn) {
	c.onReply = func(body []byte) { l.replies = append(l.replies, string(body)) }
	c.onPush = func(body []byte, _ int64) { l.pushes = append(l.pushes, string(body)) }
}

// However a stream is cut, the same frames come out, and nothing of them is kept.
func TestFramesSurviveAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got, want collector
		c := &conn{framing: ourFraming, expect: protocol.GetConfig.Reply()}
		got.of(c)
		var stream []byte
		for i := range rapid.IntRange(1, 20).Draw(t, "frames") {
			body := rapid.StringN(0, 200, 400).Draw(t, "body")
			if rapid.Bool().Draw(t, "push") {
				stream = protocol.AppendFrame(stream, protocol.EvNotify, uint16(i), []byte(body))
				want.pushes = append(want.pushes, body)
				continue
			}
			stream = protocol.AppendFrame(stream, c.expect, uint16(len(want.replies)), []byte(body))
			want.replies = append(want.replies, body)
			c.inflight++
		}
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "read")
			_, err := c.consume(stream[:n], 0)
			require.NoError(t, err)
			stream = stream[n:]
		}
		require.Equal(t, want.replies, got.replies)
		require.Equal(t, want.pushes, got.pushes)
		require.Empty(t, c.carry)
		require.Zero(t, c.inflight)
	})
}

func TestConnectionLostBeforeTheReply(t *testing.T) {
	addr := serveFake(t, func(w *fakeWriter, h protocol.Header, _ []byte) { w.conn.Close() })
	c := dial(t, addr, 1)[0]
	require.ErrorIs(t, attempt(func() { c.ask(protocol.GetConfig, []byte(`{}`)) }), io.EOF)
}
