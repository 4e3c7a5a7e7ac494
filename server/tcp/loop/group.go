package loop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
)

// Group is what the loops of one server share.
type Group struct {
	// set at open
	Log     zerolog.Logger
	PeerLog zerolog.Logger // for lines that peers can cause at any rate
	Limits  Limits
	Memory  *memory.Pool // what is held for peers, over all loops
	clock   clock.Clock
	slow    slowRequests
	began   time.Time
	crews

	// any goroutine
	Count    Counters
	seq      atomic.Uint32 // of pushes and keep-alives
	draining atomic.Bool   // input is no longer handled
	blocked  atomic.Int32  // connections that wait for room in a store's queue

	mu sync.Mutex
	// guarded by mu
	loops []*Loop
}

// Config are a group's settings, without defaults.
type Config struct {
	Limits      Limits
	Memory      *memory.Pool  // for what is held for peers; nil: one of Limits.Memory
	SlowRequest time.Duration // from which a request is logged
	Clock       clock.Clock
	Log         zerolog.Logger
}

// peerLogBurst is how many lines per second all peers together can cause.
const peerLogBurst = 50

// backlogShare: of each kind of change no more than that part of the memory may wait in a
// loop.
const backlogShare = 8

// NewGroup makes a group without loops. Start starts its workers.
func NewGroup(cfg Config) *Group {
	g := &Group{Log: cfg.Log, Limits: cfg.Limits, Memory: cfg.Memory.Or(cfg.Limits.Memory), clock: cfg.Clock, began: cfg.Clock.Now()}
	g.PeerLog = cfg.Log.Sample(&zerolog.BurstSampler{Burst: peerLogBurst, Period: time.Second})
	g.Limits.Backlog = min(g.Limits.Backlog, g.Memory.Limit()/backlogShare)
	g.slow.from, g.slow.last.Size = cfg.SlowRequest, slowKept
	return g
}

// Start starts the workers; Close ends them.
func (g *Group) Start() { g.crews.start() }

// Close ends the loops' wakers and the workers, and waits for them.
func (g *Group) Close() {
	for _, l := range g.allLoops() {
		l.close()
	}
	g.crews.close()
}

// Drain stops the handling of input.
func (g *Group) Drain() { g.draining.Store(true) }

// IsDraining is true after Drain.
func (g *Group) IsDraining() bool { return g.draining.Load() }

// elapsed is a clock that never goes back.
func (g *Group) elapsed() time.Duration { return g.clock.Now().Sub(g.began) }

// NextSeq numbers pushes and keep-alives: one counter for all peers, as on CppCloud's wire.
func (g *Group) NextSeq() uint16 { return uint16(g.seq.Add(1)) }

// allLoops returns the loops that exist. A loop made later begins with a snapshot at least
// as new as what the caller is about to post.
func (g *Group) allLoops() []*Loop {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loops
}

// addLoop adds a loop.
func (g *Group) addLoop(l *Loop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loops = append(g.loops[:len(g.loops):len(g.loops)], l)
}

// Work runs fn on a worker.
func (g *Group) Work(fn func()) { g.workers.submit(fn) }

// WorkFirst is Work for jobs that a whole loop waits for.
func (g *Group) WorkFirst(fn func()) { g.workers.submitFirst(fn) }

// Owing asks each loop how many of its connections have replies or output pending. It
// gives up when stopped is closed, after which none has.
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

// Tick sends the time to all loops.
func (g *Group) Tick(now time.Time) {
	for _, l := range g.allLoops() {
		l.Post(MailFunc(func(l *Loop) { l.tick(now.UnixNano()) }))
	}
}

// standstill is the time without a tick after which a loop counts as stuck. There is one
// tick per second.
const standstill = 5 * time.Second

// Live names a loop that is stuck; nil if there is none.
func (g *Group) Live() error {
	now := g.clock.Now().UnixNano()
	for i, l := range g.allLoops() {
		if still := time.Duration(now - l.ticked.Load()); still > standstill {
			return codes.Errorf(codes.Timeout, "event loop %d has not moved for %s", i, still.Round(time.Second))
		}
	}
	return nil
}
