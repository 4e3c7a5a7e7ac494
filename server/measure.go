package server

import (
	"sync/atomic"
	"time"

	"confcenter/internal/metric"
	"confcenter/protocol"
)

// pace is what the time a request takes depends on.
type pace uint8

const (
	atMemory pace = iota // answered on the loop
	atWorker             // a worker made the reply or what it needs
	atStore              // written
	paces
)

var paceNames = [paces]string{"memory", "worker", "write"}

// measures are what one loop counts by itself, so that loops do not wait for each
// other's memory. Only the loop writes them.
type measures struct {
	commands [routeCount]atomic.Uint64 // requests; 0 has those beyond the table
	latency  [paces]metric.Histogram
}

// timedBursts is how few of the bursts that are answered from memory are timed:
// one in so many, and one after each tick, so that a server with little to do times
// most of them.
const timedBursts = 16

// stopwatch times what a loop does. Its zero value is ready.
type stopwatch struct {
	bursts uint32
	tick   int64 // loop.now of the burst timed last
	timing bool  // the present one is timed
	// at is the present moment as far as it has been asked for since the loop
	// turned to the present session.
	at    time.Duration
	known bool
	given uint64 // loop.replies when the burst began
}

// elapsed is a clock that only runs forward.
func (s *Server) elapsed() time.Duration { return s.cfg.Clock.Now().Sub(s.began) }

// moment is about now, read at most once for each session that is served: one
// burst of requests, one lot of replies.
func (l *loop) moment() time.Duration {
	if !l.watch.known {
		l.watch.at, l.watch.known = l.srv.elapsed(), true
	}
	return l.watch.at
}

// beginBurst is called when the loop turns to what a peer has sent.
func (l *loop) beginBurst() {
	w := &l.watch
	w.known = false
	if w.bursts++; w.bursts%timedBursts == 0 || w.tick != l.now {
		l.timeBurst()
	}
}

func (l *loop) timeBurst() {
	l.watch.timing, l.watch.tick, l.watch.given = true, l.now, l.replies
	l.moment()
}

// endBurst is called when all that could be answered at once is on its way.
func (l *loop) endBurst(s *session) {
	if l.watch.timing {
		l.burstTimed(s)
	}
}

// burstTimed notes the burst's time for each of its requests: the first reply leaves
// with the last.
func (l *loop) burstTimed(s *session) {
	w := &l.watch
	w.timing = false
	if l.replies > w.given {
		l.observe(s, atMemory, l.counting, l.srv.elapsed()-w.at, l.replies-w.given)
	}
}

// observe notes that n requests took d.
func (l *loop) observe(s *session, p pace, cmd protocol.Command, d time.Duration, n uint64) {
	l.measured.latency[p].Add(d, n)
	if d >= l.srv.cfg.SlowRequest {
		l.srv.slowRequest(s, cmd, d)
	}
}

// count notes a request. Requests of one kind mostly come together.
func (l *loop) count(cmd protocol.Command) {
	if cmd != l.counting {
		l.addRequests()
		l.counting = cmd
	}
	l.requests++
}

func (l *loop) addRequests() {
	if l.requests > 0 {
		i := int(l.counting)
		if i >= len(l.measured.commands) {
			i = 0
		}
		l.measured.commands[i].Add(l.requests)
		l.requests = 0
	}
}

// slowKept is how many slow requests are remembered.
const slowKept = 50

// slowRequest logs one: who asked for what kind of thing, never for what.
func (s *Server) slowRequest(sess *session, cmd protocol.Command, d time.Duration) {
	s.slow.add(metric.Slow{When: s.cfg.Clock.Now(), Name: cmd.String(), Duration: d})
	s.peerLog.Warn().Stringer("command", cmd).Dur("duration", d).Stringer("peer", sess.peer).Str("client", sess.name()).Msg("slow request")
}

// Slow are the last requests that took longer than Config.SlowRequest, newest
// first.
func (s *Server) Slow() []metric.Slow { return s.slow.newest(slowKept) }
