package server

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
	"confcenter/internal/metric"
	"confcenter/protocol"
)

// slowly is a socket that takes its time.
type slowly struct {
	*wire
	clock *clock.Fake
	takes time.Duration
}

func (w slowly) TrySend(p []byte) int {
	w.clock.Advance(w.takes)
	return w.wire.TrySend(p)
}

// timed is how many requests of a kind took how long.
func timed(s *Server, kind string) (n uint64, total time.Duration) {
	for _, r := range s.Stats() {
		if r.Times != nil && r.Labels[0].Value == kind {
			n, total = r.Times.Count, r.Times.Sum
		}
	}
	return n, total
}

func countOf(s *Server, command string) int64 { return s.Stats().Get("server_requests_total", command) }

// A counter without a name would be told to nobody.
func TestEveryCounterHasAName(t *testing.T) {
	require.Len(t, metric.Of(&counters{}), reflect.TypeFor[counters]().NumField())
}

func TestRequestsAreCountedByCommand(t *testing.T) {
	s, _, _ := newStateWire(t)
	s.receive(requests(
		protocol.KVGet, `{"ns":"n","key":"a"}`, protocol.KVGet, `{"ns":"n","key":"a"}`,
		protocol.GetConfig, `{"file_pattern":"a.json"}`,
		protocol.KVGet, `{"ns":"n","key":"a"}`,
		protocol.SvrStat, `[]`,
		protocol.WebCtrl, `{}`, protocol.Iamserv, `{}`, protocol.Command(0x0077), `{}`, protocol.Command(0x0fff), `{}`,
	))
	require.EqualValues(t, 3, countOf(s.srv, "KVGET"))
	require.EqualValues(t, 1, countOf(s.srv, "GETCONFIG"))
	require.EqualValues(t, 1, countOf(s.srv, "WHOAMI"))
	require.EqualValues(t, 0, countOf(s.srv, "KVPUT"), "it is there before anybody has sent one")
	require.EqualValues(t, 1, countOf(s.srv, "SVRSTAT"))
	require.EqualValues(t, 4, countOf(s.srv, otherCommands), "what peers make up is one number")
	require.EqualValues(t, 10, s.srv.Stats().Get("server_requests_total"))
}

func TestAWriteIsTimedFromItsRequestToItsReply(t *testing.T) {
	s, w, state := newStateWire(t)
	now := s.srv.cfg.Clock.(*clock.Fake)
	put := func(seq uint16) {
		s.receive(protocol.AppendFrame(nil, protocol.KVPut, seq, []byte(`{"ns":"n","key":"a","value":"1"}`)))
	}
	put(1)
	now.Advance(3 * time.Millisecond)
	put(2)
	now.Advance(4 * time.Millisecond)
	state.finish(2)
	s.loop.turn(wakeBudget, bulkTurn)
	require.Len(t, frames(t, w), 2)
	n, total := timed(s.srv, "write")
	require.EqualValues(t, 2, n)
	require.Equal(t, 11*time.Millisecond, total)
	require.Empty(t, s.srv.Slow())
}

func TestSomeOfWhatIsAnsweredAtOnceIsTimed(t *testing.T) {
	s, w := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	now := s.srv.cfg.Clock.(*clock.Fake)
	s.t = slowly{w, now, time.Millisecond}
	get := requests(protocol.GetConfig, `{"file_pattern":"a.json"}`, protocol.GetConfig, `{"file_pattern":"a.json"}`)
	before, _ := timed(s.srv, "memory")
	bursts := func(n int) (timedNow uint64) {
		for range n {
			s.receive(get)
		}
		after, _ := timed(s.srv, "memory")
		timedNow, before = after-before, after
		return timedNow
	}
	require.EqualValues(t, 2*4, bursts(4*timedBursts), "both requests of one burst in so many")
	s.loop.tick(now.Now().UnixNano())
	require.GreaterOrEqual(t, bursts(1), uint64(2), "a server with little to do times what it does")
	n, total := timed(s.srv, "memory")
	require.EqualValues(t, n-1, total/time.Millisecond, "all but WHOAMI on the slow socket")
}

func TestWhatAWorkerAnswersIsTimed(t *testing.T) {
	s, _ := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	s.srv.workers.start()
	t.Cleanup(s.srv.workers.close)
	ready := make(chan struct{}, 1)
	s.loop.waker.wake = func() { ready <- struct{}{} }
	s.receive(requests(protocol.GetCfgName, `{}`))
	s.srv.cfg.Clock.(*clock.Fake).Advance(2 * time.Second)
	<-ready
	s.loop.turn(wakeBudget, bulkTurn)
	n, _ := timed(s.srv, "worker")
	require.EqualValues(t, 1, n)
}

func TestSlowRequestsAreRememberedAndLoggedWithoutValues(t *testing.T) {
	var log bytes.Buffer
	s, _, state := newStateWire(t)
	s.srv.peerLog = zerolog.New(&log)
	now := s.srv.cfg.Clock.(*clock.Fake)
	write := func(cmd protocol.Command, body string, takes time.Duration) {
		s.receive(protocol.AppendFrame(nil, cmd, 1, []byte(body)))
		now.Advance(takes)
		state.finish(1)
		s.loop.turn(wakeBudget, bulkTurn)
	}
	write(protocol.KVPut, `{"ns":"secret-ns","key":"secret-key","value":"secret-value"}`, time.Second)
	write(protocol.KVDel, `{"ns":"n","key":"a"}`, 499*time.Millisecond)
	write(protocol.KVIncr, `{"ns":"n","key":"i"}`, 2*time.Second)
	slow := s.srv.Slow()
	require.Len(t, slow, 2)
	require.Equal(t, metric.Slow{When: now.Now(), Name: "KVINCR", Duration: 2 * time.Second}, slow[0])
	require.Equal(t, "KVPUT", slow[1].Name)
	require.NotContains(t, log.String(), "secret")
	require.Contains(t, log.String(), `"command":"KVPUT"`)
	require.Contains(t, log.String(), `"client":"x#`)
	for i := range 2 * slowKept {
		write(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`, time.Second+time.Duration(i))
	}
	slow = s.srv.Slow()
	require.Len(t, slow, slowKept)
	require.Equal(t, time.Second+2*slowKept-1, slow[0].Duration)
}

func TestALoopThatStandsStillIsNoticed(t *testing.T) {
	s, _ := newWire(t, Config{})
	now := s.srv.cfg.Clock.(*clock.Fake)
	require.NoError(t, s.srv.Live())
	now.Advance(standstill)
	require.NoError(t, s.srv.Live())
	now.Advance(time.Second)
	require.ErrorContains(t, s.srv.Live(), "event loop 0 has not moved for 6s")
	s.loop.tick(now.Now().UnixNano())
	require.NoError(t, s.srv.Live())
}

func TestClientsAreBounded(t *testing.T) {
	s, _ := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	for i := range maxListed + 10 {
		s.receive(requests(protocol.BookCfgChange, fmt.Sprintf(`{"file_pattern":"a.json","key_pattern":"/%d"}`, i)))
	}
	answer := make(chan []counted, 1)
	ask := &census{next: -1, room: maxListed + 3, answer: answer}
	_, done := ask.deliver(s.loop, 100)
	require.True(t, done)
	found := <-answer
	require.Len(t, found, 1)
	require.Len(t, found[0].info.Subscriptions, maxListed)
	require.Equal(t, 10, found[0].info.More)

	other, _ := addWire(t, s.srv, s.loop)
	other.client = s.srv.registry.identify(other, 0, nil)
	ask = &census{next: -1, room: 5, answer: answer}
	turns := 1
	for {
		if _, done = ask.deliver(s.loop, 1); done {
			break
		}
		turns++
	}
	require.Equal(t, 2, turns, "a turn has a budget")
	list := s.srv.registry.describe(append(<-answer, found...))
	require.Len(t, list, 2, "who is met twice is told once")
	require.Less(t, list[0].ID, list[1].ID)
}
