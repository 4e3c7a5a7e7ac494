package server

import (
	"slices"
	"sync/atomic"
	"time"

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

// latencyBounds are the upper ends of the histograms' buckets.
var latencyBounds = [...]time.Duration{
	5 * time.Microsecond, 10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

type histogram struct {
	counts [len(latencyBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) add(d time.Duration, n uint64) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	h.counts[i].Add(n)
	h.sum.Add(int64(d) * int64(n))
}

// measures are what one loop counts by itself, so that loops do not wait for each
// other's memory. Only the loop writes them.
type measures struct {
	commands [routeCount]atomic.Uint64 // requests; 0 has those beyond the table
	latency  [paces]histogram
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
	l.measured.latency[p].add(d, n)
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

// SlowRequest is one that took longer than Config.SlowRequest.
type SlowRequest struct {
	When     time.Time // when it was answered
	Command  string
	Duration time.Duration
}

// slowKept is how many slow requests are remembered.
const slowKept = 50

// slowRequest logs one: who asked for what kind of thing, never for what.
func (s *Server) slowRequest(sess *session, cmd protocol.Command, d time.Duration) {
	s.slow.add(SlowRequest{When: s.cfg.Clock.Now(), Command: cmd.String(), Duration: d})
	s.peerLog.Warn().Stringer("command", cmd).Dur("duration", d).Stringer("peer", sess.peer).Str("client", sess.name()).Msg("slow request")
}

// Slow are the last requests that took longer than Config.SlowRequest, newest
// first.
func (s *Server) Slow() []SlowRequest { return s.slow.newest(slowKept) }

// CommandCount is how many requests of one command there were.
type CommandCount struct {
	Command  string
	Requests uint64
}

// otherCommands is what requests are counted under that no command of the table
// stands for, or one that clients have no business with.
const otherCommands = "OTHER"

// Commands counts the requests by command, those that nobody sent included.
func (s *Server) Commands() []CommandCount {
	var list []CommandCount
	counted := s.countRequests()
	for _, row := range protocol.Commands {
		if row.Role == protocol.Accepted || s.routes.find(row.ID) != nil {
			list = append(list, CommandCount{row.Name, counted[row.ID]})
			counted[row.ID] = 0
		}
	}
	return append(list, CommandCount{otherCommands, sum(counted[:])})
}

func (s *Server) countRequests() (counted [routeCount]uint64) {
	for _, l := range s.allLoops() {
		for i := range counted {
			counted[i] += l.measured.commands[i].Load()
		}
	}
	return counted
}

func sum(list []uint64) (total uint64) {
	for _, n := range list {
		total += n
	}
	return total
}

// Latency is how long requests took, from being taken up to their reply's way
// out. What a request waits in front of that, for the socket to be read or for
// earlier writes of its connection, is not in it.
type Latency struct {
	// Kind is "memory" for what was answered at once, of which only some are timed;
	// "worker" for what a worker answered; "write" for what a store made durable.
	Kind string
	Sum  time.Duration
	// Bounds are the upper ends of the buckets; Counts has one more for the rest.
	Bounds []time.Duration
	Counts []uint64
}

// Latency reads the histograms; any goroutine may.
func (s *Server) Latency() []Latency {
	list := make([]Latency, paces)
	for p := range list {
		list[p] = Latency{Kind: paceNames[p], Bounds: slices.Clone(latencyBounds[:]), Counts: make([]uint64, len(latencyBounds)+1)}
	}
	for _, l := range s.allLoops() {
		for p := range list {
			h := &l.measured.latency[p]
			list[p].Sum += time.Duration(h.sum.Load())
			for i := range h.counts {
				list[p].Counts[i] += h.counts[i].Load()
			}
		}
	}
	return list
}
