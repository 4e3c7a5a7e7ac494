package tcp

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/metric"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop/looptest"
)

// slowly is a socket that takes its time.
type slowly struct {
	*looptest.Wire
	clock *clocktest.Fake
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
	s.Receive(gatetest.Requests(
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
		s.Receive(protocol.AppendFrame(nil, protocol.KVPut, seq, []byte(`{"ns":"n","key":"a","value":"1"}`)))
	}
	put(1)
	now.Advance(3 * time.Millisecond)
	put(2)
	now.Advance(4 * time.Millisecond)
	state.Finish(2)
	s.Loop.Wake()
	require.Len(t, gatetest.Frames(t, w), 2)
	n, total := timed(s.srv, "write")
	require.EqualValues(t, 2, n)
	require.Equal(t, 11*time.Millisecond, total)
	require.Empty(t, s.srv.Slow())
}

func TestSomeOfWhatIsAnsweredAtOnceIsTimed(t *testing.T) {
	first, _ := newWire(t, Config{}, Stores{Config: gatetest.Documents(t, map[string]string{"a.json": `{"n":1}`})})
	now, w := first.clock, &looptest.Wire{Room: gatetest.Unlimited}
	s := &wired{gatetest.ConnectBy(t, first.Local, slowly{w, now, time.Millisecond}, w), first.srv, now}
	s.Receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"x"}`)))
	get := gatetest.Requests(protocol.GetConfig, `{"file_pattern":"a.json"}`, protocol.GetConfig, `{"file_pattern":"a.json"}`)
	before, _ := timed(s.srv, "memory")
	bursts := func(n int) (timedNow uint64) {
		for range n {
			s.Receive(get)
		}
		after, _ := timed(s.srv, "memory")
		timedNow, before = after-before, after
		return timedNow
	}
	require.EqualValues(t, 2*4, bursts(4*16), "both requests of one burst in so many")
	s.Group().Tick(now.Now())
	s.Loop.Wake()
	require.GreaterOrEqual(t, bursts(1), uint64(2), "a server with little to do times what it does")
	n, total := timed(s.srv, "memory")
	require.EqualValues(t, n, total/time.Millisecond, "all on the slow socket")
}

func TestWhatAWorkerAnswersIsTimed(t *testing.T) {
	s, _ := identifiedWire(t, Stores{Config: gatetest.Documents(t, map[string]string{"a.json": `{"n":1}`})})
	s.Group().Start()
	s.Receive(gatetest.Requests(protocol.GetCfgName, `{}`))
	s.clock.Advance(2 * time.Second)
	for !s.Loop.Busy() {
		runtime.Gosched()
	}
	s.Loop.Wake()
	n, _ := timed(s.srv, "worker")
	require.EqualValues(t, 1, n)
}

func TestSlowRequestsAreRememberedAndLoggedWithoutValues(t *testing.T) {
	var log bytes.Buffer
	s, _, state := newHeldWire(t, Config{Log: zerolog.New(&log)})
	now := s.clock
	write := func(cmd protocol.Command, body string, takes time.Duration) {
		s.Receive(protocol.AppendFrame(nil, cmd, 1, []byte(body)))
		now.Advance(takes)
		state.Finish(1)
		s.Loop.Wake()
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
	s.Group().Tick(now.Now())
	s.Loop.Wake()
	require.NoError(t, s.srv.Live())
}
