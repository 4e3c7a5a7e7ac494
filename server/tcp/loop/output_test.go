package loop

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
	"confcenter/server/tcp/loop/looptest"
)

func TestAPeerThatDoesNotReadGetsEveryByteInOrderLater(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, w := newConn(t, Limits{})
		w.Room = rapid.IntRange(0, 200_000).Draw(rt, "room")
		var want bytes.Buffer
		shared := bytes.Repeat([]byte("0123456789"), 30_000)
		for i := range rapid.IntRange(1, 12).Draw(rt, "sends") {
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				p := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(1, 100_000).Draw(rt, "own"))
				want.Write(p)
				c.Out.SendOwn(p)
				clear(p) // the caller's again
			case 1:
				p := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(1, 100_000).Draw(rt, "frame"))
				want.Write(p)
				c.Out.SendFrame(p)
			case 2:
				head := []byte(fmt.Sprintf("head%d", i))
				want.Write(head)
				want.Write(shared)
				want.WriteString("}")
				c.Out.SendShared(head, shared, "}")
			default:
				w.Read(rapid.IntRange(0, 300_000).Draw(rt, "read"))
				sweepAll(c.Loop)
			}
		}
		require.LessOrEqual(t, w.Buffered(), armSize, "what the transport copies is bounded")
		for c.Out.Owing() > 0 {
			w.Read(50_000)
			sweepAll(c.Loop)
		}
		require.True(t, bytes.Equal(want.Bytes(), w.Got.Bytes()))
		require.Zero(t, c.Group().Memory.Held(), "everything sent is accounted for")
		require.Empty(t, c.Loop.relief.retained)
		require.Empty(t, c.Loop.sweep.blocked)
	})
}

func TestAFrameUpTo64KiBIsOneWrite(t *testing.T) {
	c, w := newConn(t, Limits{})
	w.Room = 1 << 20
	c.Out.SendShared([]byte("header"), make([]byte, WholeFrame-100), "}")
	require.Equal(t, 1, w.Writes)
}

func TestPushesToABlockedPeerCoalesceToTheNewest(t *testing.T) {
	c, w := newConn(t, Limits{})
	c.Out.SendOwn([]byte("reply that fills the socket"))
	c.Out.SendOwn(bytes.Repeat([]byte("x"), armSize))
	for i := range 1000 {
		c.Out.SendPush([]byte(fmt.Sprintf("[a@%d]", i)), PushKey{File: "a"})
		c.Out.SendPush([]byte(fmt.Sprintf("[b@%d]", i)), PushKey{File: "b"})
	}
	require.EqualValues(t, 1998, c.Group().Count.Coalesced.Load())
	for c.Out.Owing() > 0 {
		w.Read(1000)
		sweepAll(c.Loop)
	}
	require.True(t, bytes.HasSuffix(w.Got.Bytes(), []byte("[a@999][b@999]")), w.Got.String()[armSize:])
}

func TestFramesLimitClosesAPeerThatDoesNotRead(t *testing.T) {
	c, w := newConn(t, Limits{Frames: 10})
	for range 12 {
		c.Out.SendFrame([]byte("routed"))
	}
	require.True(t, w.Closed)
	require.EqualValues(t, 1, c.Group().Count.OutputLimit.Load())
	require.Zero(t, c.Group().Memory.Held())
}

func TestMemoryLimitClosesThePeerThatReadsLeast(t *testing.T) {
	c, w := newConn(t, Limits{Memory: 200_000})
	c.Out.SendFrame(make([]byte, 110_000))
	c.Loop.now += int64(3 * time.Second)
	other, w2 := addConn(c.Loop)
	other.Out.SendFrame(make([]byte, 110_000))
	require.True(t, w.Closed, "it has not read for longer")
	require.False(t, w2.Closed)
	require.EqualValues(t, 1, c.Group().Count.MemoryLimit.Load())
	require.False(t, c.Group().Memory.Over())
}

func TestMemoryLimitSparesWhoReadsForWhoHoardsHalfFrames(t *testing.T) {
	c, w := newConn(t, Limits{Memory: 200_000})
	c.User.(*echo).known = true
	half := protocol.AppendHeader(nil, protocol.SetConfig, 1, 1<<20)
	c.Receive(append(half, make([]byte, 120_000)...))
	c.Loop.now += int64(3 * time.Second)
	reader, w2 := addConn(c.Loop)
	reader.User.(*echo).known = true
	reader.Touch()
	reader.Out.SendFrame(make([]byte, 110_000))
	require.True(t, w.Closed)
	require.False(t, w2.Closed)
	require.False(t, c.Group().Memory.Over())
}

func TestMemoryLimitIsHeldAcrossLoops(t *testing.T) {
	c, w := newConn(t, Limits{Memory: 200_000})
	c.Out.SendFrame(make([]byte, 150_000))
	c.Loop.now += int64(3 * time.Second)
	reader, w2 := addConn(addLoop(t, c.Group()))
	reader.Out.SendFrame(make([]byte, 80_000))
	require.False(t, w2.Closed, "the one who hoards is on the other loop")
	c.Loop.turn(WakeBudget, 0)
	require.True(t, w.Closed)
}

func TestMemoryLimitIsNotFarExceededWhoeverIsToBlame(t *testing.T) {
	c, w := newConn(t, Limits{Memory: 100_000})
	c.Out.SendFrame(make([]byte, 120_000))
	require.False(t, w.Closed, "it has only just begun")
	c.Out.SendFrame(make([]byte, 20_000))
	require.True(t, w.Closed)
}

func TestABodyThatManyWaitForIsHeldOnce(t *testing.T) {
	c, _ := newConn(t, Limits{})
	body := make([]byte, 1<<20)
	c.Out.SendShared([]byte("h"), body, "}")
	for range 100 {
		other, _ := addConn(c.Loop)
		other.Out.SendShared([]byte("h"), body, "}")
	}
	require.Less(t, c.Group().Memory.Held(), int64(1<<20+101*300))
}

func TestStallLimitClosesAPeerThatReadsNothing(t *testing.T) {
	c, w := newConn(t, Limits{Stall: time.Minute})
	c.User.(*echo).known = true
	c.Out.SendFrame(make([]byte, 10_000))
	start := c.Loop.now
	c.Loop.tick(start + int64(50*time.Second))
	require.False(t, w.Closed)
	w.Read(5000)
	sweepAll(c.Loop) // a sign of life
	c.Loop.tick(start + int64(100*time.Second))
	require.False(t, w.Closed)
	c.Loop.tick(start + int64(111*time.Second))
	require.True(t, w.Closed)
	require.EqualValues(t, 1, c.Group().Count.Stalled.Load())
}

func TestInputLimitStopsTheReadingUntilHalfIsGone(t *testing.T) {
	c, w := newConn(t, Limits{Input: 1000})
	c.User.(*echo).known = true
	w.Room = 1 << 20
	send := func() { c.Receive(protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, 490))) }
	require.True(t, c.state.become(forReplies))
	send()
	require.False(t, w.Deaf)
	send()
	require.True(t, w.Deaf)
	send() // was on its way
	require.True(t, w.Deaf)
	require.EqualValues(t, 1, c.Group().Count.InputLimit.Load())
	c.resume()
	require.False(t, w.Deaf)
	require.Equal(t, 3*protocol.HeaderSize, w.Got.Len())
	require.Zero(t, c.Group().Memory.Held())
	require.Empty(t, c.in)
}

func TestAFrameThatIsLongerThanTheInputLimitIsRead(t *testing.T) {
	c, w := newConn(t, Limits{Input: 1000})
	c.User.(*echo).known = true
	frame := protocol.AppendFrame(nil, protocol.SetConfig, 1, make([]byte, 5000))
	for len(frame) > 0 {
		n := min(700, len(frame))
		c.Receive(frame[:n])
		require.False(t, w.Deaf)
		frame = frame[n:]
	}
	w.Read(1000)
	require.Equal(t, protocol.HeaderSize, w.Got.Len())
}

// While the memory is more than half used, little input is enough to stop the reading.
func TestScarceMemoryStopsTheReadingEarlier(t *testing.T) {
	c, w := newConn(t, Limits{Memory: 1 << 20})
	c.User.(*echo).known = true
	require.True(t, c.state.become(forReplies))
	frame := protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, hogBytes/2))
	c.Receive(frame)
	c.Receive(frame)
	require.False(t, w.Deaf)
	c.Group().Memory.Add(500_000)
	c.Receive(frame[:10])
	require.True(t, w.Deaf)
	c.Group().Memory.Give(500_000)
	w.Room = 1000
	c.resume()
	require.False(t, w.Deaf)
}

// A peer whose socket is not read gets its output all the same, from the socket's own room:
// the transport, which would begin to listen again, is given nothing.
func TestAPeerThatIsNotHeardIsSentTo(t *testing.T) {
	c, w := newConn(t, Limits{Input: 1000, Pending: 1 << 20})
	c.User.(*echo).known = true
	require.True(t, c.state.become(forWorker))
	c.Receive(make([]byte, 1000))
	require.True(t, w.Deaf)
	c.Out.SendOwn(make([]byte, 10_000))
	c.Out.SendFrame(make([]byte, 10_000))
	require.Zero(t, w.Buffered())
	for range 40 {
		w.Room = 600
		sweepAll(c.Loop)
	}
	require.Equal(t, 20_000, w.Got.Len())
	require.True(t, w.Deaf)
	c.Out.SendFrame(make([]byte, 10))
	c.Finish()
	require.False(t, w.Deaf, "its end must be seen")
}

// The room for input is in proportion to what waits in it, whatever comes and goes.
func TestInputIsKeptInOrderAndInLittleRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var both [2]input // they share no room, though what one gives back the other may take
		var wants [2][]byte
		next := byte(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "input")
			in, want := &both[i], wants[i]
			in.need = rapid.IntRange(0, 200_000).Draw(t, "need")
			data := make([]byte, rapid.IntRange(1, 40_000).Draw(t, "data"))
			for i := range data {
				data[i] = next
				next++
			}
			in.keep(data)
			want = append(want, data...)
			require.Equal(t, want, in.front())
			took := rapid.IntRange(0, len(want)).Draw(t, "took")
			in.took(took)
			wants[i] = want[took:]
			for i := range both {
				require.True(t, bytes.Equal(wants[i], both[i].front()))
			}
			require.LessOrEqual(t, in.holds(), max(roomy+roomy/2, 4*in.waiting()+8<<10))
		}
	})
}

func TestPendingLimitTakesNoMoreRequestsUntilThePeerReads(t *testing.T) {
	c, w := newConn(t, Limits{Pending: 1000})
	c.User.(*echo).known = true
	c.Out.SendFrame(make([]byte, 10_000))
	c.Receive(protocol.AppendFrame(nil, protocol.KeepAlive, 7, nil))
	require.Zero(t, c.Group().Readings().Get("server_requests_total"), "nobody gets more replies while his are unread")
	for c.Out.Owing() > 0 {
		w.Read(1000)
		sweepAll(c.Loop)
	}
	require.EqualValues(t, 1, c.Group().Readings().Get("server_requests_total"))
	require.True(t, bytes.HasSuffix(w.Got.Bytes(), protocol.AppendFrame(nil, protocol.KeepAlive.Reply(), 7, nil)))
}

func TestNothingIsSentToADeadSession(t *testing.T) {
	c, w := newConn(t, Limits{})
	w.Room = 1000
	c.hangUp()
	c.Out.SendOwn([]byte("own"))
	c.Out.SendFrame([]byte("frame"))
	c.Out.SendPush([]byte("push"), PushKey{})
	c.Out.SendShared([]byte("head"), []byte("body"), "}")
	require.Zero(t, w.Got.Len())
	require.Zero(t, c.Group().Memory.Held())
}

func TestAClosingSessionFlushesThenShutsItsHalfThenIsGone(t *testing.T) {
	c, w := newConn(t, Limits{Linger: 2 * time.Second})
	c.Out.SendFrame(make([]byte, 10_000))
	c.Finish()
	require.False(t, w.HalfShut, "a frame is never cut")
	w.Read(10_000)
	sweepAll(c.Loop)
	require.True(t, w.HalfShut)
	require.False(t, w.Closed, "the peer may still be sending")
	c.Loop.tick(c.Loop.now + int64(3*time.Second))
	require.True(t, w.Closed)
}

func TestAClosingSessionIsWaitedForAsLongAsItsPeerReads(t *testing.T) {
	c, w := newConn(t, Limits{Linger: 2 * time.Second})
	c.Out.SendFrame(make([]byte, 100_000))
	c.Finish()
	for range 9 {
		w.Read(10_000)
		sweepAll(c.Loop)
		c.Loop.tick(c.Loop.now + int64(time.Second))
		require.False(t, w.Closed, "a frame is not cut while it is being read")
	}
	for range 3 {
		c.Loop.tick(c.Loop.now + int64(time.Second))
	}
	require.True(t, w.Closed, "who stops reading is not waited for")
}

func TestAClosingSessionWaitsForTheReplyToItsWrite(t *testing.T) {
	c, w := newConn(t, Limits{})
	c.User.(*echo).known = true
	w.Room = 1000
	id := c.Reserve(protocol.KVPut)
	c.Dismiss("closelink")
	require.False(t, w.Closed)
	require.False(t, w.HalfShut)
	c.Fill(id, []byte("reply"))
	c.Loop.giveOut()
	require.Equal(t, "reply", w.Got.String())
	require.True(t, w.HalfShut)
}

func TestOneTurnWritesABoundedAmountOfLongOutput(t *testing.T) {
	c, w := newConn(t, Limits{})
	body := make([]byte, 1<<20)
	wires := []*looptest.Wire{w}
	conns := []*Conn{c}
	for range 20 {
		c, w := addConn(c.Loop)
		conns, wires = append(conns, c), append(wires, w)
	}
	for i, c := range conns {
		wires[i].Room = 1 << 30
		c.Out.SendShared([]byte("h"), body, "}")
	}
	total := func() (n int) {
		for _, w := range wires {
			n += w.Got.Len()
		}
		return n
	}
	turns := 0
	for before := total(); before < len(wires)*(len(body)+2); before = total() {
		require.True(t, c.Loop.sweep.due(), "there must be another turn")
		c.Loop.turn(WakeBudget, bulkTurn)
		require.LessOrEqual(t, total()-before, 2*bulkTurn)
		require.NotEqual(t, before, total())
		turns++
	}
	require.Greater(t, turns, 40)
	require.Zero(t, c.Group().Memory.Held())
}

// breaking is a transport whose connection is reset between two writes.
type breaking struct{ *looptest.Wire }

func (b breaking) Send([]byte) { b.Close() }

func TestAConnectionThatBreaksBetweenTwoWritesIsOnlyGone(t *testing.T) {
	s, w := newConn(t, Limits{})
	s.t = breaking{w}
	w.Room = 5
	s.Out.SendFrame(make([]byte, 100))
	require.Equal(t, dead, s.state)
	require.Zero(t, s.Group().Memory.Held())
}

func TestSentOutputIsForgottenAlsoIfThePeerNeverReadsAll(t *testing.T) {
	s, w := newConn(t, Limits{})
	frame := make([]byte, armSize)
	for range 4 {
		s.Out.SendFrame(frame)
	}
	for range 10_000 {
		w.Read(len(frame))
		w.Read(len(frame))
		w.Room = 0
		s.Out.pumpAgain()
		s.Out.SendFrame(frame)
		require.False(t, s.Out.empty())
	}
	require.Less(t, len(s.Out.pieces), 64)
}

// Places of replies are filled in any order, unlike they were taken; the room for them
// goes from connection to connection and stays small, also if there is always one left.
func TestRepliesLeaveInOrderFromRoomThatIsUsedAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one, wireOne := newConn(t, Limits{})
		two, wireTwo := addConn(one.Loop)
		wireOne.Room, wireTwo.Room = 1<<20, 1<<20
		conns, open, next := []*Conn{one, two}, [2][]uint64{}, [2]uint64{}
		most := rapid.IntRange(1, 40).Draw(rt, "most")
		for range 400 {
			i := rapid.IntRange(0, 1).Draw(rt, "conn")
			c := conns[i]
			if len(open[i]) < most && rapid.Bool().Draw(rt, "reserve") {
				require.Equal(t, next[i], c.Reserve(protocol.KVPut))
				open[i] = append(open[i], next[i])
				next[i]++
			} else if n := len(open[i]); n > 0 {
				at := rapid.IntRange(0, n-1).Draw(rt, "which")
				c.Fill(open[i][at], []byte(fmt.Sprintf("%d,", open[i][at])))
				open[i] = slices.Delete(open[i], at, at+1)
				c.Loop.giveOut()
			}
			require.LessOrEqual(t, cap(c.slots), 256)
		}
		for i, c := range conns {
			for _, id := range open[i] {
				c.Fill(id, []byte(fmt.Sprintf("%d,", id)))
			}
			c.Loop.giveOut()
			var want strings.Builder
			for id := range next[i] {
				fmt.Fprintf(&want, "%d,", id)
			}
			require.Equal(t, want.String(), []*looptest.Wire{wireOne, wireTwo}[i].Got.String())
			require.Nil(t, c.slots)
		}
	})
}
