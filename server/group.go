package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/clock"
)

// group is what the loops of one server share.
type group struct {
	// set at open
	log     zerolog.Logger
	peerLog zerolog.Logger // for what peers can cause as often as they like
	limits  Limits
	clock   clock.Clock
	slow    slowRequests
	began   time.Time
	workers workers

	// any goroutine
	memory   budget
	count    counters
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

// newGroup makes a group without loops. Its workers begin with start.
func newGroup(cfg groupConfig) *group {
	g := &group{log: cfg.Log, limits: cfg.Limits, clock: cfg.Clock, began: cfg.Clock.Now()}
	g.peerLog = cfg.Log.Sample(&zerolog.BurstSampler{Burst: peerLogBurst, Period: time.Second})
	g.memory.limit = cfg.Limits.Memory
	g.slow.from, g.slow.last.size = cfg.SlowRequest, slowKept
	return g
}

// start begins the workers; close ends them.
func (g *group) start() { g.workers.start() }

// close ends what the loops and the workers do, and waits for it.
func (g *group) close() {
	for _, l := range g.allLoops() {
		l.close()
	}
	g.workers.close()
}

// drain has nothing looked at any more that arrives from now on.
func (g *group) drain() { g.draining.Store(true) }

// isDraining is true after drain.
func (g *group) isDraining() bool { return g.draining.Load() }

// elapsed is a clock that only runs forward.
func (g *group) elapsed() time.Duration { return g.clock.Now().Sub(g.began) }

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

// workFirst is work for what a whole loop waits for.
func (g *group) workFirst(fn func()) { g.workers.submitFirst(fn) }

// owing asks each loop how many of its connections owe a reply or output. It gives
// up when stopped is closed, after which none does.
func (g *group) owing(ctx context.Context, stopped <-chan struct{}) (owing int, err error) {
	for _, l := range g.allLoops() {
		answer := make(chan int, 1)
		l.post(mailFunc(func(l *loop) {
			n := 0
			for _, c := range l.conns {
				if !c.quiet() {
					n++
				}
			}
			answer <- n
		}))
		select {
		case n := <-answer:
			owing += n
		case <-stopped:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return owing, nil
}

// tick tells all loops the time.
func (g *group) tick(now time.Time) {
	for _, l := range g.allLoops() {
		l.post(mailFunc(func(l *loop) { l.tick(now.UnixNano()) }))
	}
}

// standstill is how long a loop may not have looked at its clock, which is ticked
// each second.
const standstill = 5 * time.Second

// live says which loop stands still; nil if none does.
func (g *group) live() error {
	now := g.clock.Now().UnixNano()
	for i, l := range g.allLoops() {
		if still := time.Duration(now - l.ticked.Load()); still > standstill {
			return codes.Errorf(codes.Timeout, "event loop %d has not moved for %s", i, still.Round(time.Second))
		}
	}
	return nil
}
