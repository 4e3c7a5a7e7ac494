package kvtest

import (
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
)

// MemoryConfig sets up a Memory. The zero value works.
type MemoryConfig struct {
	Clock clock.Clock // nil: the machine's
	// Disk is what survives Close and Kill; nil: a new, empty one. Only one open
	// Memory may use it at a time.
	Disk *MemoryDisk
	// MaxQueue is how many transactions may wait, beyond it Commit answers
	// codes.Busy; 0: 16384.
	MaxQueue int
	// LogBytes is how much of the change log is kept, in bytes of entries, rounded
	// up to whole changes; 0: all.
	LogBytes int64
	// HistoryVersions is how many versions of each key are kept; 0: all.
	HistoryVersions int
	TokenAge        time.Duration // how long request tokens are remembered; 0: an hour

	next func(kv.Revision) kv.Revision // the revision behind one; tests of the suite break it
}

func (c MemoryConfig) withDefaults() MemoryConfig {
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Disk == nil {
		c.Disk = &MemoryDisk{}
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = 16384
	}
	if c.TokenAge == 0 {
		c.TokenAge = time.Hour
	}
	if c.next == nil {
		c.next = func(r kv.Revision) kv.Revision { return r + 1 }
	}
	return c
}

// Memory is an engine for tests: complete, simple and slow. Everything is under
// one mutex; one goroutine applies what Commit has queued, tells the followers and
// completes the callers. Make it with NewMemory.
type Memory struct {
	// set at open
	cfg     MemoryConfig
	wake    chan struct{} // capacity 1: there is something in queue, or closing changed
	stopped chan struct{} // closed when the goroutine has ended

	mu sync.Mutex

	// guarded by mu
	state     *state
	queue     []waiting
	followers []*follower
	closed    bool // by Close: finish the queue, then end
	killed    bool // by Kill: end at once
	full      bool
	stats     kvstore.Stats // the counters only
}

type waiting struct {
	txn  *kv.Txn
	done func(*kv.Result, error)
}

// follower is one function given to Follow. Its mutex is held while fn runs, so
// that stop waits for it.
type follower struct {
	fn func(*kv.Batch)

	mu      sync.Mutex
	stopped bool // guarded by mu
}

// NewMemory opens an engine on cfg.Disk. Close or Kill ends it.
func NewMemory(cfg MemoryConfig) *Memory {
	cfg = cfg.withDefaults()
	m := &Memory{
		cfg:     cfg,
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
		state:   loadState(cfg),
	}
	go m.run()
	return m
}

// Capabilities implements kvstore.Engine: all of them.
func (m *Memory) Capabilities() kvstore.Capabilities {
	return kvstore.Everything()
}

// Close implements kvstore.Engine.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.poke()
	<-m.stopped
	return nil
}

// Kill ends the engine as a crash would: what is queued and not applied is lost,
// and its done is never called. A new Memory may then be opened on the same Disk.
func (m *Memory) Kill() {
	m.mu.Lock()
	m.closed, m.killed = true, true
	m.mu.Unlock()
	m.poke()
	<-m.stopped
}

// SetFull makes writes that need space fail with codes.Storage, as when the disk
// is full, or ends that.
func (m *Memory) SetFull(full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = full
}

// Stats implements kvstore.Engine.
func (m *Memory) Stats() kvstore.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.stats
	stats.Revision, stats.Queue = m.state.revision, int64(len(m.queue))
	stats.Leases, stats.Tokens, stats.LogFloor = int64(len(m.state.leases)), int64(len(m.state.tokens)), m.state.logFloor
	for _, s := range m.state.spaces {
		if s.live > 0 {
			stats.Namespaces++
		}
		stats.Keys += s.live
		stats.Bytes += s.bytes
	}
	return stats
}

// Commit implements kv.Store.
func (m *Memory) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	if err := txn.Check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return errClosed()
	case len(m.queue) >= m.cfg.MaxQueue:
		m.stats.Busy++
		return codes.Errorf(codes.Busy, "%d transactions are waiting, the limit is %d", len(m.queue), m.cfg.MaxQueue)
	}
	m.queue = append(m.queue, waiting{txn, done})
	m.poke()
	return nil
}

func errClosed() error { return codes.Errorf(codes.Closed, "the store is closed") }

// KeepAlive implements kv.Store.
func (m *Memory) KeepAlive(id kv.LeaseID) (kv.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.leaseLocked(id)
	if err != nil {
		return kv.Lease{}, err
	}
	now := m.cfg.Clock.Now()
	l.deadline = now.Add(l.ttl)
	return l.describe(now), nil
}

// Lease implements kv.Store.
func (m *Memory) Lease(id kv.LeaseID) (kv.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.leaseLocked(id)
	if err != nil {
		return kv.Lease{}, err
	}
	return l.describe(m.cfg.Clock.Now()), nil
}

// leaseLocked takes a lease whose time is over for ended even if the goroutine
// has not got to it: nobody is promised what is going to be taken away.
func (m *Memory) leaseLocked(id kv.LeaseID) (*lease, error) {
	if m.closed {
		return nil, errClosed()
	}
	l := m.state.leases[id]
	if l == nil || !l.deadline.After(m.cfg.Clock.Now()) {
		return nil, errLeaseGone(id)
	}
	return l, nil
}

func errLeaseGone(id kv.LeaseID) error {
	return codes.Errorf(codes.LeaseGone, "there is no lease %d, or it has ended", id)
}

// Follow implements kv.Store.
func (m *Memory) Follow(fn func(*kv.Batch)) (stop func()) {
	f := &follower{fn: fn}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.followers = append(m.followers[:len(m.followers):len(m.followers)], f)
	return func() {
		f.mu.Lock()
		f.stopped = true
		f.mu.Unlock()
		m.mu.Lock()
		defer m.mu.Unlock()
		var rest []*follower
		for _, other := range m.followers {
			if other != f {
				rest = append(rest, other)
			}
		}
		m.followers = rest
	}
}

func (m *Memory) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// group is what one turn of the goroutine did and has to tell.
type group struct {
	batch     kv.Batch
	followers []*follower
	completed []completion
}

type completion struct {
	done   func(*kv.Result, error)
	result *kv.Result
	err    error
}

func (m *Memory) run() {
	defer close(m.stopped)
	for {
		g, next, ended := m.turn()
		for _, f := range g.followers {
			f.tell(&g.batch)
		}
		for _, c := range g.completed {
			c.done(c.result, c.err)
		}
		if ended {
			return
		}
		m.wait(next)
	}
}

func (f *follower) tell(b *kv.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.fn(b)
	}
}

// wait returns when there may be something to do: at the moment next, if that is
// not zero, or when poked.
func (m *Memory) wait(next time.Time) {
	if next.IsZero() {
		<-m.wake
		return
	}
	timer := m.cfg.Clock.NewTimer(next.Sub(m.cfg.Clock.Now()))
	defer timer.Stop()
	select {
	case <-m.wake:
	case <-timer.C():
	}
}

// turn ends what is due, then applies what is queued. Both become durable and
// visible in one step, with the mutex held.
func (m *Memory) turn() (g group, next time.Time, ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.killed {
		return group{}, time.Time{}, true
	}
	now := m.cfg.Clock.Now()
	m.state.forgetTokens(now.Add(-m.cfg.TokenAge).UnixMilli())
	for e := range m.state.due(now, func() kv.Revision { return m.cfg.next(m.state.revision) }) {
		for range e.change.Events {
			m.stats.Expired++
		}
		m.commitLocked(&g, e)
	}
	for _, w := range m.queue {
		result, err := m.applyLocked(&g, w.txn, now)
		g.completed = append(g.completed, completion{w.done, result, err})
	}
	m.queue = nil
	if len(g.batch.Changes) > 0 {
		m.stats.Groups++
		g.followers = m.followers
	}
	return g, m.state.nextDue(), m.closed
}

func (m *Memory) applyLocked(g *group, txn *kv.Txn, now time.Time) (*kv.Result, error) {
	if first, err := m.state.replay(txn); first != nil || err != nil {
		if err == nil {
			m.stats.Replayed++
		}
		return first, err
	}
	e := newEvaluation(m.state, m.cfg.next(m.state.revision), now)
	result, err := e.evaluate(txn)
	if err == nil && m.full && e.needsSpace(txn) {
		err = codes.Errorf(codes.Storage, "the disk is full: delete something or free space")
		m.stats.Refused++
	}
	if err != nil {
		m.stats.Failed++
		return nil, err
	}
	if e.record(txn, result) {
		m.commitLocked(g, e)
	}
	return result, nil
}

func (m *Memory) commitLocked(g *group, e *evaluation) {
	m.cfg.Disk.append(e.effect)
	m.state.apply(e.effect, m.cfg)
	g.batch.Changes = append(g.batch.Changes, e.change)
	m.stats.Commits++
}
