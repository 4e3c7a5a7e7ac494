package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"confcenter/protocol"
)

const (
	// stallName is the large document that nobody reads.
	stallName = "stall.json"
	// stallMembers make it 1 MB: so many has the document of the verb.
	stallMembers = 10_000
	// healthyRate is how often the healthy client asks, in requests a second.
	healthyRate = 2000
	// stallAskRate is how fast the clients together ask after a change, in requests a
	// second: no slower than a server can tell them of it.
	stallAskRate = 20_000
)

// stallSetup is one experiment with clients that do not read.
type stallSetup struct {
	clients int
	changes int
	pause   time.Duration // between two changes
}

// stallOutcome is the result of the experiment.
type stallOutcome struct {
	before, during *hdrhistogram.Histogram // latency of the healthy client
	left           int                     // clients the server has not closed
	failed         int64                   // requests of the healthy client
	kernel         int64                   // most the kernel held in TCP buffers, in bytes
}

// slowdown is the ratio of the healthy client's p99 to its p99 under the same changes
// without stalled clients.
func (o *stallOutcome) slowdown() float64 {
	before := o.before.ValueAtQuantile(99)
	if before == 0 {
		return 0
	}
	return float64(o.during.ValueAtQuantile(99)) / float64(before)
}

// stall has the clients that subscribe, ask and do not read.
type stall struct {
	loop    *loop
	addr    string
	healthy *load
	writer  *conn
	clients []*conn
	members int // of the document
	version int
	asks    *load // what clients ask; nil while there are none
	kernel  int64
}

// newStall opens the healthy client and the writer, and writes the document.
func newStall(l *loop, addr string, files, members int) *stall {
	conns := must(l.identify(addr, 3, true))
	s := &stall{loop: l, addr: addr, members: members, writer: conns[0], healthy: newLoad(l, conns[1:], readTape(newRandom(0), fileNames(files), ""))}
	s.change()
	return s
}

func (s *stall) change() {
	s.version++
	check(s.loop.set(s.writer, stallName, largeDocument(s.members, s.version)))
}

// run measures the healthy client while the document changes, first alone and then
// among clients that do not read.
func (s *stall) run(how stallSetup, bar *progress) *stallOutcome {
	alone := s.changes(how, bar)
	s.clients = must(s.loop.identify(s.addr, how.clients, false))
	check(s.loop.subscribe(s.clients, stallName))
	s.asks = newLoad(s.loop, s.clients, newTape(protocol.GetConfig, 1, func(int) []byte {
		return protocol.AppendConfigQuery(nil, stallName, "", 0, false)
	}))
	for _, c := range s.clients {
		c.mayEnd = true
		check(c.mute())
	}
	among := s.changes(how, bar)
	out := &stallOutcome{before: alone.latency, during: among.latency, failed: alone.failed + among.failed, kernel: s.kernel}
	for _, c := range s.clients {
		if !c.closed {
			out.left++
		}
	}
	return out
}

// changes changes the document and lets all clients ask for it, how.changes times.
func (s *stall) changes(how stallSetup, bar *progress) *tally {
	s.healthy.begin(healthyRate)
	for i := range how.changes {
		s.change()
		if s.asks != nil {
			s.loop.stop(s.asks)
			s.asks.begin(stallAskRate)
			s.asks.quota, s.asks.turn = int64(len(s.clients)), 0
		}
		check(s.loop.wait(how.pause))
		s.kernel = max(s.kernel, kernelTCP())
		bar.to(float64(i+1) / float64(how.changes))
	}
	s.loop.stop(s.asks)
	return must(s.healthy.end())
}
