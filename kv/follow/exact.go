package follow

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
)

const (
	glanceBytes = 1 << 20  // of changes that an Exact looks at in one go
	takeBytes   = 64 << 10 // of changes that a Follower takes in one go
)

// Config says what the followers of an Exact share.
type Config struct {
	Store   Store
	Pool    *memory.Pool // counts what is kept; nil: nothing does
	Keep    int          // bytes of the newest changes that are kept
	Piece   int          // see Source
	Holders int          // see Source
	Readers int          // followers that read the log at a time
	Cut     Cut          // of the notices
}

// Exact follows a store once for all followers that have a goroutine, and wakes those whose filter
// matches. They share what it keeps with each other and with the store, so that one which falls
// behind costs the others nothing: it reads back from the store's log.
type Exact struct {
	// set at open
	source Source
	cut    Cut
	recent *Recent
	unhook func()
	reads  chan struct{} // holds one per follower that reads the log
	worker worker

	told   atomic.Int64 // all have been woken for changes up to this revision
	behind atomic.Uint64
	open   atomic.Int64 // followers

	mu sync.Mutex
	// guarded by mu
	topics Topics[followers]
}

type followers map[*Follower]struct{}

// NewExact begins to follow a store, which must outlive it. Close it.
func NewExact(cfg Config) *Exact {
	e := &Exact{
		source: Source{Store: cfg.Store, Piece: cfg.Piece, Holders: cfg.Holders, Long: cfg.Pool},
		cut:    cfg.Cut,
		recent: NewRecent(cfg.Keep, cfg.Pool),
		reads:  make(chan struct{}, cfg.Readers),
	}
	e.worker.start(func() {
		for e.notify() {
		}
	})
	e.unhook = cfg.Store.Follow(e.follow)
	newest := cfg.Store.Revision()
	e.recent.Begin(newest)
	e.told.Store(int64(newest))
	return e
}

// Close ends all followers. They must still be stopped.
func (e *Exact) Close() {
	e.unhook()
	e.worker.stop()
	e.recent.Pass(e.source.Store.Revision()) // others may go on using the pool
}

// Open returns how many followers there are.
func (e *Exact) Open() int { return int(e.open.Load()) }

// Behind returns how often a follower had to read back what was no longer kept.
func (e *Exact) Behind() uint64 { return e.behind.Load() }

// Revision returns the newest revision of the store.
func (e *Exact) Revision() kv.Revision { return e.source.Store.Revision() }

// follow runs on the store's goroutine and only takes note. Without followers there is nothing to
// note: one that comes later reads the store's revision after the batch has become visible.
func (e *Exact) follow(b *kv.Batch) {
	if e.open.Load() == 0 {
		e.recent.Pass(b.Last())
		return
	}
	e.recent.Add(b)
	clock.Nudge(e.worker.wake)
}

// notify wakes the followers that match something in one piece of what is new, and reports whether
// anything was new.
func (e *Exact) notify() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	told := kv.Revision(e.told.Load())
	chunk := e.recent.Since(told, glanceBytes)
	if told < chunk.After { // so much has come that some of it is gone
		for _, t := range e.topics.byFilter {
			e.note(t, told+1, chunk.After)
		}
	}
	for i := range chunk.Changes {
		c := &chunk.Changes[i]
		for n := range c.Events {
			e.topics.Match(c.Revision, c.Events, n)
		}
	}
	for t := e.topics.Matched(); t != nil; t = e.topics.Matched() {
		e.note(t, t.Parts[0].Rev, chunk.After)
		e.topics.Taken()
	}
	e.told.Store(int64(max(told, chunk.Last)))
	return chunk.Last > told
}

// note makes those who follow a topic look from a revision on. What came up to kept is no longer
// kept.
func (e *Exact) note(t *Topic[followers], revision, kept kv.Revision) {
	for f := range t.Of {
		if !f.pending.CompareAndSwap(0, int64(revision)) && f.pending.Load() <= int64(kept) && !f.lagging.Swap(true) {
			e.behind.Add(1)
		}
		e.worker.notify(f.wake)
	}
}

// Follower is what one goroutine follows. Only one at a time may take notices; the other methods may
// be called from any.
type Follower struct {
	// set at open
	exact *Exact
	wake  chan struct{} // capacity 1
	// opened is the newest revision when it began, if the store makes changes only for those who want
	// them: up to there nothing may have been kept for it.
	opened kv.Revision

	mu sync.Mutex
	// guarded by mu
	cursor  *Cursor
	live    bool // what is at hand was kept, and later matches are noted
	part    bool // with live: more is kept that is already noted
	stopped bool

	topic *Topic[followers] // guarded by exact.mu; nil: it has left

	pending atomic.Int64 // the first matching revision since the follower last looked; 0: none
	lagging atomic.Bool  // what comes next is no longer kept
}

var errEnded = codes.Errorf(codes.Closed, "the watch has ended")

// Follow begins to follow what is asked for, with the errors of Source.Open. Stop it.
func (e *Exact) Follow(want Request) (*Follower, error) {
	f := &Follower{exact: e, wake: make(chan struct{}, 1), live: want.From == 0 && !want.Past && !want.State}
	f.lagging.Store(!f.live)
	if e.worker.life.Err() != nil {
		return nil, errEnded
	}
	e.mu.Lock()
	f.topic = e.topics.Join(want.Filter)
	if f.topic.Of == nil {
		f.topic.Of = make(followers)
	}
	f.topic.Of[f] = struct{}{}
	if e.open.Add(1) == 1 {
		e.told.Store(int64(e.Revision())) // nothing was noted in the meantime
	}
	e.mu.Unlock()
	// Only now, so that no change falls between what is read and what is followed.
	cursor, newest, err := e.source.Open(want)
	if err != nil {
		f.leave()
		return nil, err
	}
	f.cursor = cursor
	if _, selective := e.source.Store.(Selective); selective {
		f.opened = newest
	}
	return f, nil
}

// Stop ends the follower. It waits while the log is read for it.
func (f *Follower) Stop() {
	f.leave()
	f.mu.Lock()
	f.stopped = true
	f.cursor.Close()
	f.mu.Unlock()
	clock.Nudge(f.wake)
}

func (f *Follower) leave() {
	e := f.exact
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.topic != nil {
		delete(f.topic.Of, f)
		e.topics.Leave(f.topic)
		e.open.Add(-1)
		f.topic = nil
	}
}

// Wake receives something once there may be more to take.
func (f *Follower) Wake() <-chan struct{} { return f.wake }

// At returns how far the follower has got.
func (f *Follower) At() kv.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cursor.At().Rev
}

// Live reports whether what was taken last had been kept, so that others are told the same now.
func (f *Follower) Live() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// Rest drops the changes that are at hand; they are read again.
func (f *Follower) Rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cursor.Drop() {
		f.live, f.part = false, false
	}
}

// Next waits for the next notice, whose events are valid until the next call. It fails once the
// follower is stopped, the Exact is closed or the context has ended; only the last of these leaves
// the follower as it is.
func (f *Follower) Next(ctx context.Context) (kv.Notice, error) {
	for {
		n, ok, far, err := f.Take()
		if far {
			err = f.ReadBack(ctx)
		}
		if ok || err != nil {
			return n, err
		}
		if far {
			continue
		}
		select {
		case <-f.wake:
		case <-f.exact.worker.life.Done():
		case <-ctx.Done():
			return kv.Notice{}, ctx.Err()
		}
	}
}

// Take returns the next notice without waiting for one; its events are valid until the next call.
// far reports that ReadBack has to be called first.
func (f *Follower) Take() (n kv.Notice, ok, far bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.exact.worker.life.Err() != nil {
		return kv.Notice{}, false, false, errEnded
	}
	for c := f.cursor; ; {
		at := c.at
		if n, ok = c.Next(f.exact.cut); ok {
			return n, true, false, nil
		}
		if c.Telling() {
			if err = c.fetchState(); err != nil {
				return n, false, false, err
			}
			continue
		}
		if !c.Offer(f.since(at.Rev)) {
			return n, false, true, nil
		}
		if n, ok = c.Next(f.exact.cut); ok || c.at == at {
			return n, ok, false, nil
		}
	}
}

// ReadBack reads from the log what comes next. It may wait for a disk, and few do it at a time.
func (f *Follower) ReadBack(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case f.exact.reads <- struct{}{}:
		defer func() { <-f.exact.reads }()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return errEnded
	}
	return cmp.Or(f.cursor.Fetch(ctx), ctx.Err()) // there may be much to read in which nothing is told
}

// since returns what is kept after a revision. When a live follower has taken all that was noted for
// it, nothing before the pending revision matches. mu is held.
func (f *Follower) since(revision kv.Revision) Chunk {
	if !f.part {
		told := kv.Revision(f.exact.told.Load()) // read before pending, which includes it
		if pending := kv.Revision(f.pending.Swap(0)); pending > 0 {
			told = pending - 1
		}
		if f.live {
			f.cursor.Skip(Mark{Rev: told})
			revision = f.cursor.At().Rev
		}
	}
	chunk := f.exact.recent.Since(revision, takeBytes)
	if revision < f.opened {
		chunk = Chunk{After: f.opened}
	}
	f.live, f.part = revision >= chunk.After, chunk.Part
	if was := f.lagging.Swap(!f.live); !was && !f.live {
		f.exact.behind.Add(1)
	}
	return chunk
}
