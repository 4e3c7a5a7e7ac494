package server

import (
	"bytes"
	"runtime"
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
	*Wire
	clock *clock.Fake
	takes time.Duration
}

func (w slowly) TrySend(p []byte) int {
	w.clock.Advance(w.takes)
	return w.Wire.TrySend(p)
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

func TestRequestsAreCountedByCommand(t *testing.T) {
	s, _, _ := newHeldWire(t, Config{})
	s.receive(Requests(
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
	require.EqualValues(t, 4, countOf(s.srv, "OTHER"), "what peers make up is one number")
	require.EqualValues(t, 10, s.srv.Stats().Get("server_requests_total"))
}

func TestAWriteIsTimedFromItsRequestToItsReply(t *testing.T) {
	s, w, state := newHeldWire(t, Config{})
	now := s.clock
	put := func(seq uint16) {
		s.receive(protocol.AppendFrame(nil, protocol.KVPut, seq, []byte(`{"ns":"n","key":"a","value":"1"}`)))
	}
	put(1)
	now.Advance(3 * time.Millisecond)
	put(2)
	now.Advance(4 * time.Millisecond)
	state.Finish(2)
	s.loop.wake()
	require.Len(t, Frames(t, w), 2)
	n, total := timed(s.srv, "write")
	require.EqualValues(t, 2, n)
	require.Equal(t, 11*time.Millisecond, total)
	require.Empty(t, s.srv.Slow())
}

func TestSomeOfWhatIsAnsweredAtOnceIsTimed(t *testing.T) {
	first, _ := newWire(t, Config{}, Stores{Config: newStore(t, map[string]string{"a.json": `{"n":1}`})})
	now, w := first.clock, &Wire{Room: Unlimited}
	s := &wired{ConnectBy(t, first.desk, slowly{w, now, time.Millisecond}, w), first.srv, now}
	s.receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"x"}`)))
	get := Requests(protocol.GetConfig, `{"file_pattern":"a.json"}`, protocol.GetConfig, `{"file_pattern":"a.json"}`)
	before, _ := timed(s.srv, "memory")
	bursts := func(n int) (timedNow uint64) {
		for range n {
			s.receive(get)
		}
		after, _ := timed(s.srv, "memory")
		timedNow, before = after-before, after
		return timedNow
	}
	require.EqualValues(t, 2*4, bursts(4*16), "both requests of one burst in so many")
	s.group().tick(now.Now())
	s.loop.wake()
	require.GreaterOrEqual(t, bursts(1), uint64(2), "a server with little to do times what it does")
	n, total := timed(s.srv, "memory")
	require.EqualValues(t, n, total/time.Millisecond, "all on the slow socket")
}

func TestWhatAWorkerAnswersIsTimed(t *testing.T) {
	s, _ := identifiedWire(t, Stores{Config: newStore(t, map[string]string{"a.json": `{"n":1}`})})
	s.group().start()
	s.receive(Requests(protocol.GetCfgName, `{}`))
	s.clock.Advance(2 * time.Second)
	for !s.loop.busy() {
		runtime.Gosched()
	}
	s.loop.wake()
	n, _ := timed(s.srv, "worker")
	require.EqualValues(t, 1, n)
}

func TestSlowRequestsAreRememberedAndLoggedWithoutValues(t *testing.T) {
	var log bytes.Buffer
	s, _, state := newHeldWire(t, Config{Log: zerolog.New(&log)})
	now := s.clock
	write := func(cmd protocol.Command, body string, takes time.Duration) {
		s.receive(protocol.AppendFrame(nil, cmd, 1, []byte(body)))
		now.Advance(takes)
		state.Finish(1)
		s.loop.wake()
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
	for i := range 2 * 50 {
		write(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`, time.Second+time.Duration(i))
	}
	slow = s.srv.Slow()
	require.Len(t, slow, 50)
	require.Equal(t, time.Second+2*50-1, slow[0].Duration)
}

func TestALoopThatStandsStillIsNoticed(t *testing.T) {
	s, _ := newWire(t, Config{}, Stores{})
	now := s.clock
	require.NoError(t, s.srv.Live())
	now.Advance(5 * time.Second)
	require.NoError(t, s.srv.Live())
	now.Advance(time.Second)
	require.ErrorContains(t, s.srv.Live(), "event loop 0 has not moved for 6s")
	s.group().tick(now.Now())
	s.loop.wake()
	require.NoError(t, s.srv.Live())
}
