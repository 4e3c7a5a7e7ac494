package server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvlock"
	"confcenter/kvstore/kvtest"
	"confcenter/protocol"
)

// heldState does what Commit is given only when the test says so.
type heldState struct {
	kv.Store
	room int // transactions that still fit
	held []func()
}

func (f *heldState) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	if f.room == 0 {
		return codes.Errorf(codes.Busy, "full")
	}
	f.room--
	f.held = append(f.held, func() {
		finished := make(chan struct{})
		err := f.Store.Commit(txn, func(res *kv.Result, err error) {
			done(res, err)
			close(finished)
		})
		if err != nil {
			done(nil, err)
			return
		}
		<-finished
	})
	return nil
}

// finish does the n oldest transactions.
func (f *heldState) finish(n int) {
	for range n {
		next := f.held[0]
		f.held = f.held[1:]
		next()
	}
}

// newStateWire is a session without a socket on a state store that waits.
func newStateWire(t testing.TB) (*session, *wire, *heldState) {
	s, w := newStoreWire(t, nil)
	memory := kvtest.NewMemory(kvtest.MemoryConfig{})
	state := &heldState{Store: memory, room: 1 << 20}
	locks := kvlock.New(memory, kvlock.Config{}) // it has the store to itself
	t.Cleanup(func() {
		locks.Close()
		require.NoError(t, memory.Close())
	})
	s.srv.state, s.srv.locks = state, locks
	return s, w, state
}

func requests(pairs ...any) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = protocol.AppendFrame(b, pairs[i].(protocol.Command), uint16(i/2+1), []byte(pairs[i+1].(string)))
	}
	return b
}

// frames takes what was sent apart.
func frames(t require.TestingT, w *wire) (list []string) {
	b := w.got.Bytes()
	for len(b) > 0 {
		h, err := protocol.ParseHeader(b)
		require.NoError(t, err)
		size := protocol.HeaderSize + int(h.BodyLen)
		list = append(list, fmt.Sprintf("%v/%d %s", h.Command, h.Seq, b[protocol.HeaderSize:size]))
		b = b[size:]
	}
	w.got.Reset()
	return list
}

func TestKVGetDoesNotAllocate(t *testing.T) {
	s, _, state := newStateWire(t)
	s.t = &deaf{}
	s.receive(requests(protocol.KVPut, `{"ns":"n","key":"a","value":"`+string(make280())+`"}`, protocol.KVPut, `{"ns":"n","key":"o","type":"bytes","value":"AAAA"}`))
	state.finish(2)
	s.loop.turn(wakeBudget, bulkTurn)
	for _, body := range []string{
		`{"ns":"n","key":"a"}`, `{"ns":"n","key":"nope"}`, `{"ns":"n","key":"a","min_rev":1}`, `{"ns":"n","key":"o"}`, `{"ns":"n","key":"o","raw":1}`,
	} {
		frame := requests(protocol.KVGet, body)
		s.receive(frame)
		require.Zero(t, testing.AllocsPerRun(100, func() { s.receive(frame) }), body)
	}
}

func TestARequestSeesTheWritesBeforeIt(t *testing.T) {
	s, w, state := newStateWire(t)
	s.receive(requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`,
		protocol.KVPut, `{"ns":"n","key":"a","value":"2"}`,
		protocol.KVGet, `{"ns":"n","key":"a"}`,
		protocol.KVPut, `{"ns":"n","key":"a","value":"3"}`,
	))
	require.Len(t, state.held, 2, "writes do not wait for writes, reads do")
	require.Empty(t, frames(t, w))
	state.finish(1)
	s.loop.turn(wakeBudget, bulkTurn)
	require.Len(t, frames(t, w), 1)
	require.Len(t, state.held, 1)
	state.finish(1)
	s.loop.turn(wakeBudget, bulkTurn)
	got := frames(t, w)
	require.Len(t, got, 2)
	require.Contains(t, got[0], "KVPUT_RSP/2")
	require.Contains(t, got[1], `KVGET_RSP/3 {"code":0,"rev":2`)
	require.Contains(t, got[1], `"value":"2"`)
	require.Len(t, state.held, 1)
}

func TestRepliesThatComeTogetherLeaveInOneWrite(t *testing.T) {
	s, w, state := newStateWire(t)
	const writes = 16
	var burst []byte
	for i := range writes {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i), []byte(`{"ns":"n","key":"a","value":"1"}`))
	}
	s.receive(burst)
	state.finish(writes)
	before := w.writes
	s.loop.turn(wakeBudget, bulkTurn)
	require.Len(t, frames(t, w), writes)
	require.Equal(t, before+1, w.writes)
	require.EqualValues(t, writes+1, s.srv.Stats().Get("server_replies_total"), "and WHOAMI's")
}

func TestASessionWaitsForRoomInTheStateStore(t *testing.T) {
	s, w, state := newStateWire(t)
	state.room = 2
	s.receive(requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`,
		protocol.KVDel, `{"ns":"n","key":"a"}`,
		protocol.KVIncr, `{"ns":"n","key":"a"}`,
		protocol.KVPut, `{"ns":"n","key":"b","value":"1"}`,
	))
	require.Len(t, state.held, 2)
	require.Len(t, s.loop.hungry.list, 1)
	require.EqualValues(t, 1, s.srv.Stats().Get("server_limits_met_total", "queue"))
	state.finish(1)
	s.loop.turn(wakeBudget, bulkTurn)
	require.Len(t, s.loop.hungry.list, 1, "still no room")
	state.room = 5
	state.finish(1)
	s.loop.turn(wakeBudget, bulkTurn)
	require.Empty(t, s.loop.hungry.list)
	require.Len(t, state.held, 2)
	state.finish(2)
	s.loop.turn(wakeBudget, bulkTurn)
	require.Len(t, frames(t, w), 4)
}

func TestWritesOfOneSessionAreLimited(t *testing.T) {
	s, _, state := newStateWire(t)
	limit := s.limits().Writes
	var burst []byte
	for i := range limit + 10 {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i), []byte(`{"ns":"n","key":"a","value":"1"}`))
	}
	s.receive(burst)
	require.Len(t, state.held, limit)
}

func TestNobodyIsToldOfAWriteAfterTheConnectionIsGone(t *testing.T) {
	s, w, state := newStateWire(t)
	s.receive(requests(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`))
	s.hangUp()
	state.finish(1)
	s.loop.turn(wakeBudget, bulkTurn)
	require.Empty(t, w.got.Bytes())
	e, _ := state.Get([]byte("n"), []byte("a"))
	require.NotNil(t, e, "what was accepted is done")
}

func TestAGrantLeavesBehindTheReplyThatAnnouncesIt(t *testing.T) {
	s, w, state := newStateWire(t)
	s.receive(requests(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`))
	lock := &lockWait{s: s, slot: s.reserve(protocol.KVLock), h: protocol.Header{Command: protocol.KVLock, Seq: 2}}
	s.addWait(lock)
	lock.done(kvlock.Outcome{Revision: 1}, nil)
	lock.granted(kvlock.Grant{NS: "n", Key: "l", Lease: 7, Fence: 9})
	s.loop.turn(wakeBudget, bulkTurn)
	require.Empty(t, frames(t, w), "the put is not answered yet")
	require.Empty(t, s.waits)
	state.finish(1)
	s.loop.turn(wakeBudget, bulkTurn)
	got := frames(t, w)
	require.Len(t, got, 3)
	require.Contains(t, got[1], `KVLOCK_RSP/2 {"code":0`)
	require.Contains(t, got[2], `KVGRANT/`)
	require.Contains(t, got[2], `"fence":9`)
}

func TestWaitsForLocksAreLimited(t *testing.T) {
	s, w, _ := newStateWire(t)
	s.limits().LockWaits = 1
	s.addWait(&lockWait{})
	s.receive(requests(protocol.KVLock, `{"ns":"n","key":"a","lease":1,"wait":1}`))
	got := frames(t, w)
	require.Len(t, got, 1)
	require.Contains(t, got[0], `"code":1005`)
	require.Contains(t, got[0], "1 lock")
	require.EqualValues(t, 1, s.srv.Stats().Get("server_limits_met_total", "lock_waits"))
}

func TestWithoutAStateStoreItsCommandsAreNotImplemented(t *testing.T) {
	s, w := newStoreWire(t, nil)
	s.receive(requests(protocol.KVGet, `{"ns":"n","key":"a"}`))
	require.Contains(t, frames(t, w)[0], `"code":501`)
}

func BenchmarkKVGet(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s, _, state := newStateWire(b)
			s.t = &deaf{}
			s.receive(requests(protocol.KVPut, `{"ns":"bench","key":"key-000001","value":"`+string(make280())+`"}`))
			state.finish(1)
			s.loop.turn(wakeBudget, bulkTurn)
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
