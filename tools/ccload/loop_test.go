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
	l := testLoop(t)
	conns, err := l.identify(ceilingAddr(t), 4, false)
	require.NoError(t, err)
	d := newLoad(l, conns, readTape(newRandom(0), fileNames(10), ""))
	for range 2 { // the connections can be used again
		tl, err := d.closed(32, 50*time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, tl.err)
		require.GreaterOrEqual(t, tl.done, int64(4*32))
		require.EqualValues(t, tl.done, tl.latency.TotalCount())
		for _, c := range conns {
			require.Zero(t, c.inflight, "drained")
		}
	}
}

func TestClosedLoopPlaysExactly(t *testing.T) {
	for _, n := range []int{1, 3, 64, 1000, 70_000} { // the last wraps the sequence
		l := testLoop(t)
		conns, err := l.identify(ceilingAddr(t), 2, false)
		require.NoError(t, err)
		tl, err := newLoad(l, conns, readTape(newRandom(0), fileNames(10), "")).play(16, n)
		require.NoError(t, err)
		require.EqualValues(t, n, tl.done)
		require.Positive(t, tl.perSecond())
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
	l := testLoop(t)
	conns, err := l.identify(addr, 1, false)
	require.NoError(t, err)
	tl, err := newLoad(l, conns, readTape(newRandom(0), fileNames(1), "")).play(2, 10)
	require.NoError(t, err)
	require.EqualValues(t, 10, tl.done)
	require.EqualValues(t, 5, tl.failed)
	require.ErrorContains(t, tl.err, "404")
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
			l := testLoop(t)
			conns, err := l.identify(addr, 1, false)
			require.NoError(t, err)
			_, err = newLoad(l, conns, readTape(newRandom(0), fileNames(1), "")).closed(1, time.Minute)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestRefusedWhoamiIsQuoted(t *testing.T) {
	addr := serveFake(t, func(w *fakeWriter, h protocol.Header, _ []byte) { w.reply(h, `{"code":420,"desc":"no file=x"}`) })
	l := testLoop(t)
	conns, err := l.identify(addr, 1, false)
	require.NoError(t, err)
	require.ErrorContains(t, l.subscribe(conns, "x"), "no file=x")
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
	l := testLoop(t)
	conns, err := l.identify(addr, 1, false)
	require.NoError(t, err)
	_, err = l.ask(conns[0], protocol.GetConfig, []byte(`{}`))
	require.NoError(t, err)
	require.EqualValues(t, 77, <-answered)
}

func TestUntilEnds(t *testing.T) {
	l := testLoop(t)
	require.ErrorIs(t, l.until(time.Millisecond, func() bool { return false }), errTimeout)
	ctx, cancel := context.WithCancelCause(t.Context())
	l.ctx = ctx
	why := errors.New("why")
	cancel(why)
	require.ErrorIs(t, l.until(time.Minute, func() bool { return false }), why)
}

func TestALostConnectionThatMayEnd(t *testing.T) {
	addr := serveFake(t, func(w *fakeWriter, _ protocol.Header, _ []byte) { w.conn.Close() })
	l := testLoop(t)
	conns, err := l.identify(addr, 1, false)
	require.NoError(t, err)
	c := conns[0]
	c.mayEnd = true
	require.NoError(t, c.mute())
	c.expect = protocol.GetConfig.Reply()
	c.request(protocol.AppendFrame(nil, protocol.GetConfig, 0, []byte(`{}`)), 0)
	require.NoError(t, l.until(time.Minute, func() bool { return c.closed }))
}

// What a client that does not read asks for stays with the kernel and the server, and
// what it writes beyond the kernel's room stays in pending.
func TestAMutedConnectionKeepsWhatTheKernelDoesNotTake(t *testing.T) {
	hold := make(chan struct{})
	addr := serveFake(t, func(*fakeWriter, protocol.Header, []byte) { <-hold })
	l := testLoop(t)
	conns, err := l.identify(addr, 1, false)
	require.NoError(t, err)
	c := conns[0]
	big := protocol.AppendFrame(nil, protocol.SetConfig, 0, make([]byte, 16<<20))
	c.write(big)
	require.NotEmpty(t, c.pending)
	close(hold)
	require.NoError(t, l.until(time.Minute, func() bool { return len(c.pending) == 0 }))
}

func TestUrgentConnectionsAreServed(t *testing.T) {
	l := testLoop(t)
	conns, err := l.identify(ceilingAddr(t), 2, true)
	require.NoError(t, err)
	tl, err := newLoad(l, conns, readTape(newRandom(0), fileNames(1), "")).play(1, 50)
	require.NoError(t, err)
	require.EqualValues(t, 50, tl.done)
}

// collector is a receiver that remembers.
type collector struct {
	ignore
	replies, pushes []string
}

func (c *collector) reply(_ *conn, body []byte)         { c.replies = append(c.replies, string(body)) }
func (c *collector) push(_ *conn, body []byte, _ int64) { c.pushes = append(c.pushes, string(body)) }

// However a stream is cut, the same frames come out, and nothing of them is kept.
func TestFramesSurviveAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got, want collector
		c := &conn{to: &got, expect: protocol.GetConfig.Reply()}
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
			require.NoError(t, c.consume(stream[:n], 0))
			stream = stream[n:]
		}
		require.Equal(t, want.replies, got.replies)
		require.Equal(t, want.pushes, got.pushes)
		require.Empty(t, c.carry)
		require.Zero(t, c.inflight)
	})
}

func TestConnectionLostBeforeWhoami(t *testing.T) {
	addr := serveFake(t, func(w *fakeWriter, h protocol.Header, _ []byte) { w.conn.Close() })
	l := testLoop(t)
	conns, err := l.identify(addr, 1, false)
	require.NoError(t, err)
	_, err = l.ask(conns[0], protocol.GetConfig, []byte(`{}`))
	require.ErrorIs(t, err, io.EOF)
}
