package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/internal/clock"
	"confcenter/internal/metric"
)

// group is what the loops of one server share.
type group struct {
	// set at open
	cfg     groupConfig
	peerLog zerolog.Logger // for what peers can cause as often as they like
	began   time.Time
	workers workers
	memory  budget

	// any goroutine
	count    counters
	slow     ring[metric.Slow]
	seq      atomic.Uint32 // of pushes and keep-alives
	draining atomic.Bool   // nothing that arrives is looked at any more
	hungry   atomic.Int32  // connections that wait for room in a store's queue

	mu sync.Mutex
	// guarded by mu
	loops []*loop
}

// groupConfig is how a group behaves; there are no defaults.
type groupConfig struct {
	Limits      Limits
	SlowRequest time.Duration // from which a request is logged
	Clock       clock.Clock
	Log         zerolog.Logger
}

// peerLogBurst is how many lines a second all peers together can cause.
const peerLogBurst = 50

func (g *group) init(cfg groupConfig) {
	g.cfg = cfg
	g.peerLog = cfg.Log.Sample(&zerolog.BurstSampler{Burst: peerLogBurst, Period: time.Second})
	g.began = cfg.Clock.Now()
	g.memory.limit = cfg.Limits.Memory
	g.slow.size = slowKept
}

// elapsed is a clock that only runs forward.
func (g *group) elapsed() time.Duration { return g.cfg.Clock.Now().Sub(g.began) }

// nextSeq numbers what the server sends unasked: one counter for all peers, as
// on CppCloud's wire.
func (g *group) nextSeq() uint16 { return uint16(g.seq.Add(1)) }

// allLoops is the loops there are; a loop made later begins with a snapshot that
// is at least as new as whatever the caller is about to post.
func (g *group) allLoops() []*loop {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loops
}

// addLoop makes a loop known.
func (g *group) addLoop(l *loop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loops = append(g.loops[:len(g.loops):len(g.loops)], l)
}

// work runs fn on a worker.
func (g *group) work(fn func()) { g.workers.submit(fn) }
