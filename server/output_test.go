package server

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/clock"
	"confcenter/protocol"
)

// wire is a transport without a socket: it takes room bytes and buffers what
// Send adds to that.
type wire struct {
	s        *session
	room     int // what the socket still takes
	got      bytes.Buffer
	buffered []byte
	writes   int
	halfShut bool
	closed   bool
}

func (w *wire) TrySend(p []byte) int {
	if len(w.buffered) > 0 {
		panic("TrySend while something is buffered")
	}
	n := min(w.room, len(p))
	w.got.Write(p[:n])
	w.room -= n
	w.writes++
	return n
}

func (w *wire) Send(p []byte) {
	if w.closed {
		panic("Send on a closed transport")
	}
	w.buffered = append(w.buffered, p...)
}

func (w *wire) Buffered() int { return len(w.buffered) }
func (w *wire) CloseWrite()   { w.halfShut = true }
func (w *wire) Close()        { w.closed = true; w.s.lost(nil) }

// read makes room for n bytes, as a peer that reads does.
func (w *wire) read(n int) {
	k := min(n, len(w.buffered))
	w.got.Write(w.buffered[:k])
	w.buffered = w.buffered[k:]
	w.room += n - k
}

// newWire is a session of a server that has no sockets, on a loop that nobody
// runs.
func newWire(t testing.TB, cfg Config) (*session, *wire) {
	cfg.Clock = clock.NewFake(time.Unix(1_000_000, 0))
	s := New(cfg, Stores{})
	l := newLoop(&s.group, func(func()) error { return nil })
	t.Cleanup(l.close)
	return addWire(t, s, l)
}

func addWire(t testing.TB, s *Server, l *loop) (*session, *wire) {
	w := &wire{}
	w.s = s.open(l, w, netip.MustParseAddrPort("127.0.0.1:9"), 0)
	require.NotNil(t, w.s)
	return w.s, w
}

// sweepAll does what the waker's polls come to.
func sweepAll(l *loop) {
	l.sweep.soon()
	for l.sweep.due() {
		l.turn(wakeBudget, bulkTurn)
	}
}

func TestAPeerThatDoesNotReadGetsEveryByteInOrderLater(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, w := newWire(t, Config{})
		w.room = rapid.IntRange(0, 200_000).Draw(rt, "room")
		var want bytes.Buffer
		shared := bytes.Repeat([]byte("0123456789"), 30_000)
		for i := range rapid.IntRange(1, 12).Draw(rt, "sends") {
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				p := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(1, 100_000).Draw(rt, "own"))
				want.Write(p)
				s.out.sendOwn(p)
				clear(p) // the caller's again
			case 1:
				p := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(1, 100_000).Draw(rt, "frame"))
				want.Write(p)
				s.out.sendFrame(p)
			case 2:
				head := []byte(fmt.Sprintf("head%d", i))
				want.Write(head)
				want.Write(shared)
				want.WriteString("}")
				s.out.sendShared(head, shared, "}")
			default:
				w.read(rapid.IntRange(0, 300_000).Draw(rt, "read"))
				sweepAll(s.loop)
			}
		}
		require.LessOrEqual(t, len(w.buffered), armSize, "what the transport copies is bounded")
		for s.out.owing() > 0 {
			w.read(50_000)
			sweepAll(s.loop)
		}
		require.True(t, bytes.Equal(want.Bytes(), w.got.Bytes()))
		require.Zero(t, s.srv.memory.used.Load(), "everything sent is accounted for")
		require.Empty(t, s.loop.relief.retained)
		require.Empty(t, s.loop.sweep.blocked)
	})
}

func TestAFrameUpTo64KiBIsOneWrite(t *testing.T) {
	s, w := newWire(t, Config{})
	w.room = 1 << 20
	s.out.sendShared([]byte("header"), make([]byte, wholeFrame-100), "}")
	require.Equal(t, 1, w.writes)
}

func TestPushesToABlockedPeerCoalesceToTheNewest(t *testing.T) {
	s, w := newWire(t, Config{})
	s.out.sendOwn([]byte("reply that fills the socket"))
	s.out.sendOwn(bytes.Repeat([]byte("x"), armSize))
	for i := range 1000 {
		s.out.sendPush([]byte(fmt.Sprintf("[a@%d]", i)), pushKey{file: "a"})
		s.out.sendPush([]byte(fmt.Sprintf("[b@%d]", i)), pushKey{file: "b"})
	}
	require.EqualValues(t, 1998, s.srv.count.Coalesced.Load())
	for s.out.owing() > 0 {
		w.read(1000)
		sweepAll(s.loop)
	}
	require.True(t, bytes.HasSuffix(w.got.Bytes(), []byte("[a@999][b@999]")), w.got.String()[armSize:])
}

func TestFramesLimitClosesAPeerThatDoesNotRead(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Frames: 10}})
	for range 12 {
		s.out.sendFrame([]byte("routed"))
	}
	require.True(t, w.closed)
	require.EqualValues(t, 1, s.srv.count.OutputLimit.Load())
	require.Zero(t, s.srv.memory.used.Load())
}

func TestMemoryLimitClosesThePeerThatReadsLeast(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Memory: 200_000}})
	s.out.sendFrame(make([]byte, 110_000))
	s.loop.now += int64(3 * time.Second)
	other, w2 := addWire(t, s.srv, s.loop)
	other.out.sendFrame(make([]byte, 110_000))
	require.True(t, w.closed, "it has not read for longer")
	require.False(t, w2.closed)
	require.EqualValues(t, 1, s.srv.count.MemoryLimit.Load())
	require.False(t, s.srv.memory.over())
}

func TestMemoryLimitSparesWhoReadsForWhoHoardsHalfFrames(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Memory: 200_000}})
	s.client = &client{}
	half := protocol.AppendHeader(nil, protocol.SetConfig, 1, 1<<20)
	s.receive(append(half, make([]byte, 120_000)...))
	s.loop.now += int64(3 * time.Second)
	reader, w2 := addWire(t, s.srv, s.loop)
	reader.client = &client{}
	reader.touch()
	reader.out.sendFrame(make([]byte, 110_000))
	require.True(t, w.closed)
	require.False(t, w2.closed)
	require.False(t, s.srv.memory.over())
}

func TestMemoryLimitIsHeldAcrossLoops(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Memory: 200_000}})
	s.out.sendFrame(make([]byte, 150_000))
	s.loop.now += int64(3 * time.Second)
	second := newLoop(&s.srv.group, func(func()) error { return nil })
	t.Cleanup(second.close)
	reader, w2 := addWire(t, s.srv, second)
	reader.out.sendFrame(make([]byte, 80_000))
	require.False(t, w2.closed, "the one who hoards is on the other loop")
	s.loop.turn(wakeBudget, 0)
	require.True(t, w.closed)
}

func TestMemoryLimitIsNotFarExceededWhoeverIsToBlame(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Memory: 100_000}})
	s.out.sendFrame(make([]byte, 120_000))
	require.False(t, w.closed, "it has only just begun")
	s.out.sendFrame(make([]byte, 20_000))
	require.True(t, w.closed)
}

func TestABodyThatManyWaitForIsHeldOnce(t *testing.T) {
	s, _ := newWire(t, Config{})
	body := make([]byte, 1<<20)
	s.out.sendShared([]byte("h"), body, "}")
	for range 100 {
		other, _ := addWire(t, s.srv, s.loop)
		other.out.sendShared([]byte("h"), body, "}")
	}
	require.Less(t, s.srv.memory.used.Load(), int64(1<<20+101*300))
}

func TestStallLimitClosesAPeerThatReadsNothing(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Stall: time.Minute}})
	s.client = &client{}
	s.out.sendFrame(make([]byte, 10_000))
	start := s.loop.now
	s.loop.tick(start + int64(50*time.Second))
	require.False(t, w.closed)
	w.read(5000)
	sweepAll(s.loop) // a sign of life
	s.loop.tick(start + int64(100*time.Second))
	require.False(t, w.closed)
	s.loop.tick(start + int64(111*time.Second))
	require.True(t, w.closed)
	require.EqualValues(t, 1, s.srv.count.Stalled.Load())
}

func TestInputLimitClosesAPeerThatKeepsSending(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Input: 1000}})
	s.client = &client{}
	require.True(t, s.state.become(forTurn))
	s.receive(protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, 500)))
	require.False(t, w.closed)
	s.receive(protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, 500)))
	require.True(t, w.closed)
	require.EqualValues(t, 1, s.srv.count.InputLimit.Load())
	require.Zero(t, s.srv.memory.used.Load())
}

func TestPendingLimitTakesNoMoreRequestsUntilThePeerReads(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Pending: 1000}})
	s.client = &client{}
	s.out.sendFrame(make([]byte, 10_000))
	s.receive(protocol.AppendFrame(nil, protocol.KeepAlive, 7, nil))
	require.Zero(t, s.srv.Stats().Get("server_requests_total"), "nobody gets more replies while his are unread")
	for s.out.owing() > 0 {
		w.read(1000)
		sweepAll(s.loop)
	}
	require.EqualValues(t, 1, s.srv.Stats().Get("server_requests_total"))
	require.True(t, bytes.HasSuffix(w.got.Bytes(), protocol.AppendFrame(nil, protocol.KeepAlive.Reply(), 7, nil)))
}

func TestNothingIsSentToADeadSession(t *testing.T) {
	s, w := newWire(t, Config{})
	w.room = 1000
	s.hangUp()
	s.out.sendOwn([]byte("own"))
	s.out.sendFrame([]byte("frame"))
	s.out.sendPush([]byte("push"), pushKey{})
	s.out.sendShared([]byte("head"), []byte("body"), "}")
	require.Zero(t, w.got.Len())
	require.Zero(t, s.srv.memory.used.Load())
}

func TestAClosingSessionFlushesThenShutsItsHalfThenIsGone(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Linger: 2 * time.Second}})
	s.out.sendFrame(make([]byte, 10_000))
	s.finish()
	require.False(t, w.halfShut, "a frame is never cut")
	w.read(10_000)
	sweepAll(s.loop)
	require.True(t, w.halfShut)
	require.False(t, w.closed, "the peer may still be sending")
	s.loop.tick(s.loop.now + int64(3*time.Second))
	require.True(t, w.closed)
}

func TestAClosingSessionIsWaitedForAsLongAsItsPeerReads(t *testing.T) {
	s, w := newWire(t, Config{Limits: Limits{Linger: 2 * time.Second}})
	s.out.sendFrame(make([]byte, 100_000))
	s.finish()
	for range 9 {
		w.read(10_000)
		sweepAll(s.loop)
		s.loop.tick(s.loop.now + int64(time.Second))
		require.False(t, w.closed, "a frame is not cut while it is being read")
	}
	for range 3 {
		s.loop.tick(s.loop.now + int64(time.Second))
	}
	require.True(t, w.closed, "who stops reading is not waited for")
}

func TestAClosingSessionWaitsForTheReplyToItsWrite(t *testing.T) {
	s, w := newWire(t, Config{})
	s.client = &client{}
	w.room = 1000
	id := s.reserve(protocol.KVPut)
	s.dismiss("closelink")
	require.False(t, w.closed)
	require.False(t, w.halfShut)
	s.fill(id, slot{frame: []byte("reply")})
	s.loop.giveOut()
	require.Equal(t, "reply", w.got.String())
	require.True(t, w.halfShut)
}

func TestOneTurnWritesABoundedAmountOfLongOutput(t *testing.T) {
	s, w := newWire(t, Config{})
	body := make([]byte, 1<<20)
	wires := []*wire{w}
	sessions := []*session{s}
	for range 20 {
		s, w := addWire(t, s.srv, s.loop)
		sessions, wires = append(sessions, s), append(wires, w)
	}
	for i, s := range sessions {
		wires[i].room = 1 << 30
		s.out.sendShared([]byte("h"), body, "}")
	}
	total := func() (n int) {
		for _, w := range wires {
			n += w.got.Len()
		}
		return n
	}
	turns := 0
	for before := total(); before < len(wires)*(len(body)+2); before = total() {
		require.True(t, s.loop.sweep.due(), "there must be another turn")
		s.loop.turn(wakeBudget, bulkTurn)
		require.LessOrEqual(t, total()-before, 2*bulkTurn)
		require.NotEqual(t, before, total())
		turns++
	}
	require.Greater(t, turns, 40)
	require.Zero(t, s.srv.memory.used.Load())
}
