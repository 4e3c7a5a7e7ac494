package loop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/clock"
)

// Group is what the loops of one server share.
type Group struct {
	// set at open
	Log     zerolog.Logger
	PeerLog zerolog.Logger // for what peers can cause as often as they like
	Limits  Limits
	clock   clock.Clock
	slow    slowRequests
	began   time.Time
	workers workers

	// any goroutine
	Memory   Budget
	Count    Counters
	seq      atomic.Uint32 // of pushes and keep-alives
	draining atomic.Bool   // nothing that arrives is looked at any more
	hungry   atomic.Int32  // connections that wait for room in a store's queue

	mu sync.Mutex
	// guarded by mu
	loops []*Loop
}

// Config is how a group behaves; there are no defaults.
type Config struct {
	Limits      Limits
	SlowRequest time.Duration // from which a request is logged
	Clock       clock.Clock
	Log         zerolog.Logger
}

// peerLogBurst is how many lines a second all peers together can cause.
const peerLogBurst = 50

// NewGroup makes a group without loops. Its workers begin with Start.
func NewGroup(cfg Config) *Group {
	g := &Group{Log: cfg.Log, Limits: cfg.Limits, clock: cfg.Clock, began: cfg.Clock.Now()}
	g.PeerLog = cfg.Log.Sample(&zerolog.BurstSampler{Burst: peerLogBurst, Period: time.Second})
	g.Memory.limit = cfg.Limits.Memory
	g.slow.from, g.slow.last.Size = cfg.SlowRequest, slowKept
	return g
}

// Start begins the workers; Close ends them.
func (g *Group) Start() { g.workers.start() }

// Close ends what the loops and the workers do, and waits for it.
func (g *Group) Close() {
	for _, l := range g.allLoops() {
		l.close()
	}
	g.workers.close()
}

// Drain has nothing looked at any more that arrives from now on.
func (g *Group) Drain() { g.draining.Store(true) }

// IsDraining is true after Drain.
func (g *Group) IsDraining() bool { return g.draining.Load() }

// elapsed is a clock that only runs forward.
func (g *Group) elapsed() time.Duration { return g.clock.Now().Sub(g.began) }

// NextSeq numbers what the server sends unasked: one counter for all peers, as
// on CppCloud's wire.
func (g *Group) NextSeq() uint16 { return uint16(g.seq.Add(1)) }

// allLoops is the loops there are; a loop made later begins with a snapshot that
// is at least as new as whatever the caller is about to post.
func (g *Group) allLoops() []*Loop {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loops
}

// addLoop makes a loop known.
func (g *Group) addLoop(l *Loop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loops = append(g.loops[:len(g.loops):len(g.loops)], l)
}

// Work runs fn on a worker.
func (g *Group) Work(fn func()) { g.workers.submit(fn) }

// WorkFirst is Work for what a whole loop waits for.
func (g *Group) WorkFirst(fn func()) { g.workers.submitFirst(fn) }

// Jobs is how many jobs wait for a worker.
func (g *Group) Jobs() int { return g.workers.waiting() }

// DoJob does the one at place i on the caller's goroutine, as a worker would that the
// caller has not started.
func (g *Group) DoJob(i int) { g.workers.take(i)() }

// Owing asks each loop how many of its connections owe a reply or output. It gives
// up when stopped is closed, after which none does.
func (g *Group) Owing(ctx context.Context, stopped <-chan struct{}) (owing int, err error) {
	for _, l := range g.allLoops() {
		answer := make(chan int, 1)
		l.Post(MailFunc(func(l *Loop) {
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

// Tick tells all loops the time.
func (g *Group) Tick(now time.Time) {
	for _, l := range g.allLoops() {
		l.Post(MailFunc(func(l *Loop) { l.tick(now.UnixNano()) }))
	}
}

// standstill is how long a loop may not have looked at its clock, which is ticked
// each second.
const standstill = 5 * time.Second

// Live says which loop stands still; nil if none does.
func (g *Group) Live() error {
	now := g.clock.Now().UnixNano()
	for i, l := range g.allLoops() {
		if still := time.Duration(now - l.ticked.Load()); still > standstill {
			return codes.Errorf(codes.Timeout, "event loop %d has not moved for %s", i, still.Round(time.Second))
		}
	}
	return nil
}
