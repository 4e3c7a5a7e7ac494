package server

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kvlock"
	"confcenter/kvstore/kvtest"
	"confcenter/protocol"
)

// text200 is a value of usual length.
var text200 = strings.Repeat("x", 200)

// stateKit is a session without a socket on a state store that waits.
type stateKit struct {
	*Bench
	*session
	w        *Wire
	state    *HeldState
	handlers *stateHandlers
}

func newStateKit(t T, limits Limits) *stateKit {
	memory := kvtest.NewMemory(kvtest.MemoryConfig{})
	state := &HeldState{Store: memory, Room: 1 << 20}
	locks := kvlock.New(memory, kvlock.Config{}) // it has the store to itself
	t.Cleanup(func() {
		locks.Close()
		require.NoError(t, memory.Close())
	})
	k := &stateKit{Bench: NewBench(t, limits), state: state}
	k.handlers = addState(context.Background(), k.Gate, state, locks, nil)
	k.Open()
	k.session, k.w = k.Peer(Unlimited)
	return k
}

// deafen has the peer take everything and keep nothing.
func (k *stateKit) deafen() {
	d := &Deaf{}
	k.session = ConnectBy(k.T, k.Desk, d, &d.Wire)
	require.True(k.T, k.identify(0, nil))
}

func TestKVGetDoesNotAllocate(t *testing.T) {
	s := newStateKit(t, Limits{})
	s.deafen()
	s.receive(Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"`+text200+`"}`, protocol.KVPut, `{"ns":"n","key":"o","type":"bytes","value":"AAAA"}`))
	s.state.Finish(2)
	s.loop.wake()
	for _, body := range []string{
		`{"ns":"n","key":"a"}`, `{"ns":"n","key":"nope"}`, `{"ns":"n","key":"a","min_rev":1}`, `{"ns":"n","key":"o"}`, `{"ns":"n","key":"o","raw":1}`,
	} {
		frame := Requests(protocol.KVGet, body)
		s.receive(frame)
		require.Zero(t, testing.AllocsPerRun(100, func() { s.receive(frame) }), body)
	}
}

func TestARequestSeesTheWritesBeforeIt(t *testing.T) {
	s := newStateKit(t, Limits{})
	s.receive(Requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`,
		protocol.KVPut, `{"ns":"n","key":"a","value":"2"}`,
		protocol.KVGet, `{"ns":"n","key":"a"}`,
		protocol.KVPut, `{"ns":"n","key":"a","value":"3"}`,
	))
	require.Len(t, s.state.Held, 2, "writes do not wait for writes, reads do")
	require.Empty(t, Frames(t, s.w))
	s.state.Finish(1)
	s.loop.wake()
	require.Len(t, Frames(t, s.w), 1)
	require.Len(t, s.state.Held, 1)
	s.state.Finish(1)
	s.loop.wake()
	got := Frames(t, s.w)
	require.Len(t, got, 2)
	require.Contains(t, got[0], "KVPUT_RSP/2")
	require.Contains(t, got[1], `KVGET_RSP/3 {"code":0,"rev":2`)
	require.Contains(t, got[1], `"value":"2"`)
	require.Len(t, s.state.Held, 1)
}

func TestRepliesThatComeTogetherLeaveInOneWrite(t *testing.T) {
	s := newStateKit(t, Limits{})
	const writes = 16
	var burst []byte
	for i := range writes {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i), []byte(`{"ns":"n","key":"a","value":"1"}`))
	}
	s.receive(burst)
	s.state.Finish(writes)
	before := s.w.Writes
	s.loop.wake()
	require.Len(t, Frames(t, s.w), writes)
	require.Equal(t, before+1, s.w.Writes)
	require.EqualValues(t, writes, s.Group.readings().Get("server_replies_total"))
}

func TestASessionWaitsForRoomInTheStateStore(t *testing.T) {
	s := newStateKit(t, Limits{})
	s.state.Room = 2
	s.receive(Requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`,
		protocol.KVDel, `{"ns":"n","key":"a"}`,
		protocol.KVIncr, `{"ns":"n","key":"a"}`,
		protocol.KVPut, `{"ns":"n","key":"b","value":"1"}`,
	))
	require.Len(t, s.state.Held, 2)
	require.False(t, s.reads())
	require.EqualValues(t, 1, s.Group.readings().Get("server_limits_met_total", "queue"))
	s.state.Finish(1)
	s.loop.wake()
	require.Len(t, s.state.Held, 1)
	require.False(t, s.reads(), "still no room")
	s.state.Room = 5
	s.state.Finish(1)
	s.loop.wake()
	require.True(t, s.reads())
	require.Len(t, s.state.Held, 2)
	s.state.Finish(2)
	s.loop.wake()
	require.Len(t, Frames(t, s.w), 4)
}

func TestWritesOfOneSessionAreLimited(t *testing.T) {
	s := newStateKit(t, Limits{})
	limit := s.limits().Writes
	var burst []byte
	for i := range limit + 10 {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i), []byte(`{"ns":"n","key":"a","value":"1"}`))
	}
	s.receive(burst)
	require.Len(t, s.state.Held, limit)
}

func TestNobodyIsToldOfAWriteAfterTheConnectionIsGone(t *testing.T) {
	s := newStateKit(t, Limits{})
	s.receive(Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`))
	s.hangUp()
	s.state.Finish(1)
	s.loop.wake()
	require.Empty(t, s.w.Got.Bytes())
	e, _ := s.state.Store.Get([]byte("n"), []byte("a"))
	require.NotNil(t, e, "what was accepted is done")
}

func TestAGrantLeavesBehindTheReplyThatAnnouncesIt(t *testing.T) {
	s := newStateKit(t, Limits{})
	s.receive(Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`))
	lock := &lockWait{s: s.session, slot: s.reserve(protocol.KVLock), h: protocol.Header{Command: protocol.KVLock, Seq: 2}}
	holdingsOf(s.session).waits[lock] = struct{}{}
	lock.done(kvlock.Outcome{Revision: 1}, nil)
	lock.granted(kvlock.Grant{NS: "n", Key: "l", Lease: 7, Fence: 9})
	s.loop.wake()
	require.Empty(t, Frames(t, s.w), "the put is not answered yet")
	require.Empty(t, holdingsOf(s.session).waits)
	s.state.Finish(1)
	s.loop.wake()
	got := Frames(t, s.w)
	require.Len(t, got, 3)
	require.Contains(t, got[1], `KVLOCK_RSP/2 {"code":0`)
	require.Contains(t, got[2], `KVGRANT/`)
	require.Contains(t, got[2], `"fence":9`)
}

func TestWaitsForLocksAreLimited(t *testing.T) {
	s := newStateKit(t, Limits{LockWaits: 1})
	holdingsOf(s.session).waits[&lockWait{}] = struct{}{}
	s.receive(Requests(protocol.KVLock, `{"ns":"n","key":"a","lease":1,"wait":1}`))
	got := Frames(t, s.w)
	require.Len(t, got, 1)
	require.Contains(t, got[0], `"code":1005`)
	require.Contains(t, got[0], "1 lock")
	require.EqualValues(t, 1, s.Group.readings().Get("server_limits_met_total", "lock_waits"))
}

func TestWithoutAStateStoreItsCommandsAreNotImplemented(t *testing.T) {
	b := NewBench(t, Limits{})
	addNoState(b.Gate)
	b.Open()
	s, w := b.Peer(Unlimited)
	s.receive(Requests(protocol.KVGet, `{"ns":"n","key":"a"}`))
	require.Contains(t, Frames(t, w)[0], `"code":501`)
}

func BenchmarkKVGet(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s := newStateKit(b, Limits{})
			s.deafen()
			s.receive(Requests(protocol.KVPut, `{"ns":"bench","key":"key-000001","value":"`+text200+`"}`))
			s.state.Finish(1)
			s.loop.wake()
			var burst []byte
			for i := range depth {
				burst = protocol.AppendFrame(burst, protocol.KVGet, uint16(i), []byte(`{"ns":"bench","key":"key-000001"}`))
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += depth {
				s.receive(burst)
			}
		})
	}
}

// What cannot be answered at once is read again when its turn comes.
func TestARunOfGetsIsShortInBytesToo(t *testing.T) {
	s := newStateKit(t, Limits{})
	frame := Requests(protocol.KVGet, `{"ns":"n","key":"a","ignored":"`+strings.Repeat("x", 10_000)+`"}`)
	n := s.handlers.lookAhead(s.session, bytes.Repeat(frame, maxGetRun))
	require.Greater(t, n, 1)
	require.Less(t, n*len(frame), wholeFrame+len(frame))
}
