package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/lock"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// text200 is a value of usual length.
var text200 = strings.Repeat("x", 200)

// stateKit is a session without a socket on a state store that waits.
type stateKit struct {
	*gatetest.Bench
	*gate.Session
	w        *looptest.Wire
	state    *gatetest.HeldState
	handlers *Handlers
}

func newStateKit(t gatetest.T, limits loop.Limits) *stateKit {
	k := &stateKit{Bench: gatetest.NewBench(t, limits)}
	store := memory.New(memory.Config{Clock: k.Clock})
	k.state = &gatetest.HeldState{Store: store, Room: 1 << 20}
	locks := lock.New(store, lock.Config{}) // it has the store to itself
	t.Cleanup(func() {
		locks.Close()
		require.NoError(t, store.Close())
	})
	k.handlers = Add(k.Bench.Gate, k.state, locks, nil)
	k.Open()
	k.Session, k.w = k.Peer(gatetest.Unlimited)
	return k
}

// deafen has the peer take everything and keep nothing.
func (k *stateKit) deafen() {
	d := &gatetest.Deaf{}
	k.Session = gatetest.ConnectBy(k.T, k.Bench.Local, d, &d.Wire)
	require.NoError(k.T, k.Identify(0, nil))
}

func TestKVGetDoesNotAllocate(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.deafen()
	s.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"`+text200+`"}`, protocol.KVPut, `{"ns":"n","key":"o","type":"bytes","value":"AAAA"}`))
	s.state.Finish(2)
	s.Loop.Wake()
	for _, body := range []string{
		`{"ns":"n","key":"a"}`, `{"ns":"n","key":"nope"}`, `{"ns":"n","key":"a","min_rev":1}`, `{"ns":"n","key":"o"}`, `{"ns":"n","key":"o","raw":1}`,
	} {
		frame := gatetest.Requests(protocol.KVGet, body)
		for _, rights := range []*guard.Caller{nil, guardtest.Caller(t, "read kv:n", "-read kv:n/x*", "write kv:m")} {
			s.Rights = rights
			s.Receive(frame)
			require.Zero(t, gatetest.Allocations(func() { s.Receive(frame) }), "%s with rights %v", body, rights != nil)
		}
	}
}

func TestARequestSeesTheWritesBeforeIt(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.Receive(gatetest.Requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`,
		protocol.KVPut, `{"ns":"n","key":"a","value":"2"}`,
		protocol.KVGet, `{"ns":"n","key":"a"}`,
		protocol.KVPut, `{"ns":"n","key":"a","value":"3"}`,
	))
	require.Len(t, s.state.Held, 2, "writes do not wait for writes, reads do")
	require.Empty(t, gatetest.Frames(t, s.w))
	s.state.Finish(1)
	s.Loop.Wake()
	require.Len(t, gatetest.Frames(t, s.w), 1)
	require.Len(t, s.state.Held, 1)
	s.state.Finish(1)
	s.Loop.Wake()
	got := gatetest.Frames(t, s.w)
	require.Len(t, got, 2)
	require.Contains(t, got[0], "KVPUT_RSP/2")
	require.Contains(t, got[1], `KVGET_RSP/3 {"code":0,"rev":2`)
	require.Contains(t, got[1], `"value":"2"`)
	require.Len(t, s.state.Held, 1)
}

func TestRepliesThatComeTogetherLeaveInOneWrite(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	const writes = 16
	var burst []byte
	for i := range writes {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i), []byte(`{"ns":"n","key":"a","value":"1"}`))
	}
	s.Receive(burst)
	s.state.Finish(writes)
	before := s.w.Writes
	s.Loop.Wake()
	require.Len(t, gatetest.Frames(t, s.w), writes)
	require.Equal(t, before+1, s.w.Writes)
	require.EqualValues(t, writes, s.Bench.Group.Readings().Get("server_replies_total"))
}

func TestASessionWaitsForRoomInTheStateStore(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.state.Room = 2
	s.Receive(gatetest.Requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`,
		protocol.KVDel, `{"ns":"n","key":"a"}`,
		protocol.KVIncr, `{"ns":"n","key":"a"}`,
		protocol.KVPut, `{"ns":"n","key":"b","value":"1"}`,
	))
	require.Len(t, s.state.Held, 2)
	require.False(t, s.Reads())
	require.EqualValues(t, 1, s.Bench.Group.Readings().Get("server_limits_met_total", "queue"))
	s.state.Finish(1)
	s.Loop.Wake()
	require.Len(t, s.state.Held, 1)
	require.False(t, s.Reads(), "still no room")
	s.state.Room = 5
	s.state.Finish(1)
	s.Loop.Wake()
	require.True(t, s.Reads())
	require.Len(t, s.state.Held, 2)
	s.state.Finish(2)
	s.Loop.Wake()
	require.Len(t, gatetest.Frames(t, s.w), 4)
}

// counted is a store that notes how many transactions it was handed at a time.
type counted struct {
	kv.Store
	calls []int
	back  chan struct{} // gets one when all are done
}

func (c *counted) CommitEach(caller kv.Caller, writes []*kv.Write) (taken int, err error) {
	c.calls = append(c.calls, len(writes))
	return c.Store.CommitEach(telling{caller, c.back}, writes)
}

type telling struct {
	kv.Caller
	back chan struct{}
}

func (t telling) Committed(writes []*kv.Write) {
	t.Caller.Committed(writes)
	for range writes {
		t.back <- struct{}{}
	}
}

func TestWritesOfOneReadAreHandedOverTogether(t *testing.T) {
	const writes = 40
	memory := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, memory.Close()) })
	state := &counted{Store: memory, back: make(chan struct{}, writes)}
	bench := gatetest.NewBench(t, loop.Limits{})
	Add(bench.Gate, state, nil, nil)
	bench.Open()
	s, w := bench.Peer(gatetest.Unlimited)
	var burst []byte
	for i := range writes {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i), fmt.Appendf(nil, `{"ns":"n","key":"%d","value":"1"}`, i))
	}
	for range 3 { // what was used once is used again
		state.calls = nil
		s.Receive(burst)
		require.Equal(t, []int{writes}, state.calls)
		for range writes {
			<-state.back
		}
		before := w.Writes
		s.Loop.Wake()
		got := gatetest.Frames(t, w)
		require.Len(t, got, writes)
		for i, f := range got {
			require.Contains(t, f, fmt.Sprintf("KVPUT_RSP/%d {\"code\":0,", i))
		}
		require.Equal(t, before+1, w.Writes)
	}
	require.Len(t, s.Local.Part(gate.OfState).(*local).free, writes)
}

// What came before a frame that panics is written at once or never, not when another
// peer speaks on the loop.
func TestAPanicLeavesNoWritesBehind(t *testing.T) {
	k := newStateKit(t, loop.Limits{})
	k.Bench.Gate.Add(map[protocol.Command]gate.Route{
		protocol.SetConfig: {Raw: true, Write: true, Handle: func(*gate.Session, protocol.Header, []byte) bool { panic("planted") }},
	})
	k.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"old"}`, protocol.SetConfig, ""))
	require.True(t, k.Gone())
	require.EqualValues(t, 1, k.Bench.Group.Readings().Get("server_state_writes_total"))
	k.state.Finish(1)
	other, _ := k.Peer(gatetest.Unlimited)
	other.Receive(gatetest.Requests(protocol.KVGet, `{"ns":"n","key":"a"}`))
	require.EqualValues(t, 1, k.Bench.Group.Readings().Get("server_state_writes_total"))
}

func TestAPanicInALookUpEndsWhoWaitedForIt(t *testing.T) {
	k := newStateKit(t, loop.Limits{})
	get := gatetest.Requests(protocol.KVGet, `{"ns":"n","key":"a"}`)
	other, _ := k.Peer(gatetest.Unlimited)
	k.state.Panic = true
	k.Arrive(get)
	other.Arrive(get)
	k.Loop.HandOn()
	require.True(t, k.Gone())
	require.True(t, other.Gone())
	k.state.Panic = false
	third, wire := k.Peer(gatetest.Unlimited)
	fourth, _ := k.Peer(gatetest.Unlimited)
	for range 40 { // some are gathered
		third.Arrive(get)
		fourth.Arrive(get)
		k.Loop.HandOn()
	}
	require.Len(t, gatetest.Frames(t, wire), 40)
}

// Writes that wait for room, though their frames are gone from the input, stay in
// front of everything behind them.
func TestWritesThatWaitForRoomKeepTheirPlace(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.state.Room = 1
	s.Receive(gatetest.Requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`,
		protocol.KVPut, `{"ns":"n","key":"a","value":"2"}`,
		protocol.KVPut, `{"ns":"n","key":"","value":"2"}`,
	))
	s.Receive(gatetest.Requests(protocol.KVUnlock, `{"ns":"n","key":"l","fence":1}`, protocol.KVPut, `{"ns":"n","key":"a","value":"3"}`))
	require.Len(t, s.state.Held, 1)
	s.state.Finish(1)
	s.Loop.Wake()
	require.Len(t, gatetest.Frames(t, s.w), 1)
	require.Empty(t, s.state.Held)
	require.NotZero(t, s.Kept(), "the lock is not asked before")
	s.state.Room = 5
	for s.Kept() > 0 || len(s.state.Held) > 0 {
		s.Loop.HasRoom()
		s.Loop.Wake()
		s.state.Finish(len(s.state.Held))
	}
	var got []string
	for len(got) < 4 {
		s.Loop.Wake()
		got = append(got, gatetest.Frames(t, s.w)...)
	}
	for i, want := range []string{`KVPUT_RSP/2 {"code":0`, `KVPUT_RSP/3 {"code":1010`, `KVUNLOCK_RSP/1 {"code":`, `KVPUT_RSP/2 {"code":0`} {
		require.Contains(t, got[i], want)
	}
	e, _ := s.state.Store.Get([]byte("n"), []byte("a"))
	require.Equal(t, "3", string(e.Value.Data))
}

func TestASessionThatEndsTakesItsWaitingWritesAlong(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.state.Room = 0
	s.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`))
	s.Abort("the test ends it")
	s.state.Room = 1
	s.Loop.HasRoom()
	s.Loop.Wake()
	require.Empty(t, s.state.Held)
}

func TestWritesOfOneSessionAreLimited(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	limit := s.Limits().Writes
	var burst []byte
	for i := range limit + 10 {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i), []byte(`{"ns":"n","key":"a","value":"1"}`))
	}
	s.Receive(burst)
	require.Len(t, s.state.Held, limit)
}

func TestNobodyIsToldOfAWriteAfterTheConnectionIsGone(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`))
	s.Abort("the test ends it")
	s.state.Finish(1)
	s.Loop.Wake()
	require.Empty(t, s.w.Got.Bytes())
	e, _ := s.state.Store.Get([]byte("n"), []byte("a"))
	require.NotNil(t, e, "what was accepted is done")
}

func TestAGrantLeavesBehindTheReplyThatAnnouncesIt(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`))
	waiter := &lockWait{s: s.Session, slot: s.Reserve(protocol.KVLock), h: protocol.Header{Command: protocol.KVLock, Seq: 2}}
	holdingsOf(s.Session).waits[waiter] = struct{}{}
	waiter.done(lock.Outcome{Revision: 1}, nil)
	waiter.granted(lock.Grant{NS: "n", Key: "l", Lease: 7, Fence: 9})
	s.Loop.Wake()
	require.Empty(t, gatetest.Frames(t, s.w), "the put is not answered yet")
	require.Empty(t, holdingsOf(s.Session).waits)
	s.state.Finish(1)
	s.Loop.Wake()
	got := gatetest.Frames(t, s.w)
	require.Len(t, got, 3)
	require.Contains(t, got[1], `KVLOCK_RSP/2 {"code":0`)
	require.Contains(t, got[2], `KVGRANT/`)
	require.Contains(t, got[2], `"fence":9`)
}

func TestWaitsForLocksAreLimited(t *testing.T) {
	s := newStateKit(t, loop.Limits{LockWaits: 1})
	holdingsOf(s.Session).waits[&lockWait{}] = struct{}{}
	s.Receive(gatetest.Requests(protocol.KVLock, `{"ns":"n","key":"a","lease":1,"wait":1}`))
	got := gatetest.Frames(t, s.w)
	require.Len(t, got, 1)
	require.Contains(t, got[0], `"code":1005`)
	require.Contains(t, got[0], "1 lock")
	require.EqualValues(t, 1, s.Bench.Group.Readings().Get("server_limits_met_total", "lock_waits"))
}

func TestWithoutAStateStoreItsCommandsAreNotImplemented(t *testing.T) {
	b := gatetest.NewBench(t, loop.Limits{})
	AddNone(b.Gate)
	b.Open()
	s, w := b.Peer(gatetest.Unlimited)
	s.Receive(gatetest.Requests(protocol.KVGet, `{"ns":"n","key":"a"}`))
	require.Contains(t, gatetest.Frames(t, w)[0], `"code":501`)
}

func BenchmarkKVGet(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s := newStateKit(b, loop.Limits{})
			s.deafen()
			s.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"bench","key":"key-000001","value":"`+text200+`"}`))
			s.state.Finish(1)
			s.Loop.Wake()
			var burst []byte
			for i := range depth {
				burst = protocol.AppendFrame(burst, protocol.KVGet, uint16(i), []byte(`{"ns":"bench","key":"key-000001"}`))
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += depth {
				s.Receive(burst)
			}
		})
	}
}

// A run is looked up together, but it is no way past the gate.
func TestEachFrameOfARunIsAskedForItsRight(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	asked := 0
	s.Bench.Gate.Permits = func(_ *gate.Session, row *gate.Route) error {
		require.Equal(t, access.KVRead, row.Right)
		if asked++; asked == 3 {
			return codes.Forbidden
		}
		return nil
	}
	get := func(key string) []any { return []any{protocol.KVGet, fmt.Sprintf(`{"ns":"n","key":%q}`, key)} }
	s.Receive(gatetest.Requests(slices.Concat(get("a"), get("b"), get("c"), get("d"), get("e"))...))
	require.Equal(t, 5, asked)
	got := gatetest.Frames(t, s.w)
	require.Len(t, got, 5)
	for i, frame := range got {
		require.Contains(t, frame, fmt.Sprintf("KVGET_RSP/%d ", i+1))
		require.Equal(t, i == 2, strings.Contains(frame, `"code":1025`), frame)
	}
}

// gathered is what peers are answered whose KVGETs, for one key each, arrive together;
// before is called, to write something, before they are handed on.
func gathered(s *stateKit, before func(), keys ...string) (got []string) {
	var wires []*looptest.Wire
	for _, key := range keys {
		peer, w := s.Peer(gatetest.Unlimited)
		peer.Arrive(gatetest.Requests(protocol.KVGet, fmt.Sprintf(`{"ns":"n","key":%q}`, key)))
		wires = append(wires, w)
	}
	before()
	s.Loop.Wake()
	for _, w := range wires {
		got = append(got, gatetest.Frames(s.T, w)...)
	}
	return got
}

// put writes one key.
func (k *stateKit) put(key, value string) {
	k.Receive(gatetest.Requests(protocol.KVPut, fmt.Sprintf(`{"ns":"n","key":%q,"value":%q}`, key, value)))
	k.state.Finish(1)
}

func TestGetsOfSeveralPeersAreLookedUpTogether(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.put("a", "first")
	s.put("b", "second")
	for range 3 {
		got := gathered(s, func() { s.put("a", "newer") }, "a", "b", "none", "b")
		require.Len(t, got, 4)
		require.Contains(t, got[0], `"value":"newer"`, "it was looked up when all were there")
		require.Contains(t, got[1], `"value":"second"`)
		require.Contains(t, got[2], `"code":404`)
		require.Contains(t, got[3], `"value":"second"`)
	}
}

// What one of them is refused, another is not given.
func TestEachGetOfSeveralPeersPassesTheGate(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.put("a", "first")
	s.put("b", "second")
	asked := 0
	got := gathered(s, func() {
		s.Bench.Gate.Permits = func(*gate.Session, *gate.Route) error {
			if asked++; asked == 1 {
				return codes.Forbidden
			}
			return nil
		}
	}, "a", "b", "a")
	require.Equal(t, 3, asked)
	require.Len(t, got, 3)
	require.Contains(t, got[0], `"code":1025`)
	require.Contains(t, got[1], `"value":"second"`)
	require.Contains(t, got[2], `"value":"first"`)
}

// A get behind a write that is not answered yet is looked up again when it is.
func TestAGatheredGetSeesTheWritesBeforeIt(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	s.put("a", "old")
	s.Loop.Wake()
	gatetest.Frames(t, s.w)
	s.Arrive(gatetest.Requests(protocol.KVPut, `{"ns":"n","key":"a","value":"new"}`))
	s.Arrive(gatetest.Requests(protocol.KVGet, `{"ns":"n","key":"a"}`))
	s.Loop.Wake()
	require.Empty(t, gatetest.Frames(t, s.w))
	s.state.Finish(1)
	s.Loop.Wake()
	got := gatetest.Frames(t, s.w)
	require.Len(t, got, 2)
	require.Contains(t, got[1], `"value":"new"`)
}
