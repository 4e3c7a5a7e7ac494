package kvstore

import (
	"maps"
	"sync"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// lease is one lease. Its times are durations since the store was opened, by the
// machine's monotonic clock.
type lease struct {
	id    kv.LeaseID
	ttl   time.Duration    // set when it is granted or loaded
	owner *access.Identity // likewise
	home  string           // likewise

	// committer only, with the group under way
	keys   shrinking[*slot, *space] // empty without a map; written with the leases' mu held
	ending bool                     // the group under way ends it
	noted  bool                     // it is in the list of the group under way

	// guarded by the leases' mu
	seen     bool // it is durable, so others than the committer may see it
	over     bool // it has ended, or its time is up and it is about to end
	count    int  // keys, visible
	deadline time.Duration
	planned  time.Duration // when it is looked at; the deadline may be later
	pos      int           // in the heap
}

// leases holds all leases. The committer grants and ends them; keep-alives come from
// any goroutine and do not involve it.
type leases struct {
	// set at open
	clock      clock.Clock
	opened     time.Time     // by the monotonic clock
	pauseAfter time.Duration // not above 0: pauses are not looked for
	here       string        // the store's name: it ends leases that have it as their home

	// committer only
	cost int64 // of them all in memory

	mu    sync.Mutex
	byID  shrinking[kv.LeaseID, *lease] // guarded by mu; written by the committer only, which reads it without
	owned map[string]int                // how many each owner has, by name; guarded by mu
	ends  minHeap[*lease]               // guarded by mu
	alive time.Duration                 // when the process was last seen running; guarded by mu
	shut  bool                          // the store is closed; guarded by mu
	still bool                          // nothing is written any more, so none ends; guarded by mu
}

func newLeases(c clock.Clock, pauseAfter time.Duration) *leases {
	return &leases{clock: c, opened: c.Steady(), pauseAfter: pauseAfter, byID: shrinking[kv.LeaseID, *lease]{of: map[kv.LeaseID]*lease{}}, owned: map[string]int{},
		ends: minHeap[*lease]{when: func(one *lease) int64 { return int64(one.planned) }, place: func(one *lease) *int { return &one.pos }}}
}

func (l *leases) now() time.Duration { return l.clock.Steady().Sub(l.opened) }

func errReservedLease(id kv.LeaseID) error {
	return codes.Errorf(codes.Reserved, "lease %d has keys in a namespace that the server guards, so only the server ends it", id)
}

// reserved reports whether the lease has keys that only transactions of the server's own
// may write.
func (l *lease) reserved() bool {
	for _, sp := range l.keys.of {
		if kv.Guarded(sp.name) != "" {
			return true
		}
	}
	return false
}

// grant makes a lease, which becomes visible when it is published.
func (l *leases) grant(c LeaseChange) *lease {
	made := &lease{id: c.ID, ttl: c.TTL, owner: c.Owner, home: c.Home, pos: -1}
	l.cost += memory.LeaseCost
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID.of[c.ID] = made
	l.countLocked(c.Owner, 1)
	return made
}

// countLocked counts leases of their owner, nil if it is not known.
func (l *leases) countLocked(owner *access.Identity, n int) {
	if owner == nil {
		return
	}
	if l.owned[owner.Name] += n; l.owned[owner.Name] == 0 {
		delete(l.owned, owner.Name)
	}
}

// of is how many leases an identity has, those included that the group under way grants and ends.
func (l *leases) of(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owned[name]
}

// learn is told what the log has of a lease that is there already.
func (l *leases) learn(known *lease, c LeaseChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(known.owner, -1)
	l.countLocked(c.Owner, 1)
	known.ttl, known.owner, known.home = c.TTL, c.Owner, c.Home
}

// drop forgets a lease.
func (l *leases) drop(gone *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked(gone)
}

func (l *leases) dropLocked(gone *lease) {
	gone.over = true
	if l.byID.of[gone.id] == gone {
		l.cost -= memory.LeaseCost
		l.countLocked(gone.owner, -1)
	}
	l.empty(gone)
	delete(l.byID.of, gone.id)
	l.ends.remove(gone)
}

// attach gives a lease a key, and detach takes it away.
func (l *leases) attach(to *lease, s *slot, sp *space) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to.keys.of == nil {
		to.keys.of = map[*slot]*space{}
		l.cost += memory.LeaseCost
	}
	to.keys.of[s] = sp
}

func (l *leases) detach(from *lease, s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(from.keys.of, s)
	if len(from.keys.of) == 0 {
		l.empty(from)
	}
}

func (l *leases) empty(one *lease) {
	if one.keys.of != nil {
		one.keys = shrinking[*slot, *space]{}
		l.cost -= memory.LeaseCost
	}
}

// find looks a lease up for the committer; nil if it is ending.
func (l *leases) find(id kv.LeaseID) *lease {
	if known := l.byID.of[id]; known != nil && !known.ending {
		return known
	}
	return nil
}

// usable is find for a transaction: nil also if it may not use the lease.
func (l *leases) usable(id kv.LeaseID, txn *kv.Txn) *lease {
	if known := l.find(id); known != nil && (txn.System || txn.Actor.Has(known.owner)) {
		return known
	}
	return nil
}

// publish makes visible what a group did to these leases, and starts the time of new
// ones.
func (l *leases) publish(changed []*lease) {
	if len(changed) == 0 {
		return
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range changed {
		switch {
		case one.ending:
			l.dropLocked(one)
		case l.byID.of[one.id] != one: // its grant was undone
		case !one.seen:
			one.seen = true
			l.beginLocked(one, now)
			fallthrough
		default:
			one.keys.shrink(nil)
			one.count = len(one.keys.of)
		}
	}
	l.byID.shrink(nil)
}

func (l *leases) beginLocked(one *lease, now time.Duration) {
	one.deadline = now + one.ttl
	if one.pos < 0 && one.home == l.here {
		one.planned = one.deadline
		l.ends.set(one)
	}
}

// due returns a lease whose time is up, which can no longer be kept alive; nil if there
// is none, or if the process stood still since running was last called: no lease ends
// before running has restarted its time.
func (l *leases) due() *lease {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stoodLocked(now) > 0 {
		return nil
	}
	for {
		first, ok := l.ends.first()
		switch {
		case !ok || first.planned > now:
			return nil
		case first.deadline <= now:
			first.over = true
			l.ends.remove(first)
			return first
		}
		first.planned = first.deadline
		l.ends.set(first)
	}
}

// putBack reschedules a lease returned by due whose end could not be written.
func (l *leases) putBack(one *lease, after time.Duration) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	one.deadline, one.planned = now+after, now+after
	l.ends.set(one)
}

// next returns how long it is until due may return a lease; false if there is none.
func (l *leases) next() (time.Duration, bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	first, ok := l.ends.first()
	if !ok {
		return 0, false
	}
	return max(first.planned-now, 0), true
}

// running notes that the process is running. If it stood still for long, no one could
// keep leases alive: it restarts the time of all of them and returns how long it stood.
func (l *leases) running() time.Duration {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	stood := l.stoodLocked(now)
	l.alive = max(l.alive, now)
	if stood > 0 {
		for _, one := range l.ends.heap {
			if !one.over {
				one.deadline = now + one.ttl
			}
		}
	}
	return stood
}

// stoodLocked returns for how long the process seems to have been paused; 0 if it was not.
func (l *leases) stoodLocked(now time.Duration) time.Duration {
	if gap := now - l.alive; l.pauseAfter > 0 && l.ends.Len() > 0 && gap > l.pauseAfter {
		return gap
	}
	return 0
}

// get describes a lease, whose time restarts if it is kept alive.
func (l *leases) get(id kv.LeaseID, keep bool) (kv.Lease, error) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	one, err := l.knownLocked(id, now)
	if err != nil {
		return kv.Lease{}, err
	}
	switch away := one.home != l.here; {
	case away && keep:
		return kv.Lease{}, codes.Errorf(codes.NotImplemented, "lease %d is kept alive at server %q only, which has granted it", id, one.home)
	case away, keep: // of one elsewhere it is not known how much is left
		one.deadline = now + one.ttl
	}
	return one.describe(now), nil
}

// knownLocked treats a lease whose time is up as ended even before the committer has
// got to it, unless the process was paused, or no end can be written any more.
func (l *leases) knownLocked(id kv.LeaseID, now time.Duration) (*lease, error) {
	if l.shut {
		return nil, errClosed()
	}
	one := l.byID.of[id]
	if one == nil || !one.seen || !l.still && (one.over || one.home == l.here && one.deadline <= now && l.stoodLocked(now) == 0) {
		return nil, kv.NoLease(id)
	}
	return one, nil
}

func (l *lease) describe(now time.Duration) kv.Lease {
	return kv.Lease{ID: l.id, TTL: l.ttl, Left: max(l.deadline-now, 0), Keys: l.count, Owner: l.owner}
}

// Owned implements kvstore.Engine.
func (s *Store) Owned() (ids []kv.LeaseID) {
	l := s.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, one := range l.byID.of {
		if one.owner != nil && one.seen && !one.over {
			ids = append(ids, id)
		}
	}
	return ids
}

// Holding implements kvstore.Engine.
func (s *Store) Holding(id kv.LeaseID) (h kv.Holding, err error) {
	if h.Lease, err = s.leases.get(id, false); err != nil {
		return h, err
	}
	held := s.leases.held(id)
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	for slot, space := range held {
		h.Held = append(h.Held, kv.Fence{NS: space.name, Key: slot.entry.Key})
	}
	return h, nil
}

// held is a copy of a lease's keys, with the group under way.
func (l *leases) held(id kv.LeaseID) map[*slot]*space {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byID.of[id]; one != nil {
		return maps.Clone(one.keys.of)
	}
	return nil
}

// freeze has no lease end any more.
func (l *leases) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.still = true
}

func (l *leases) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
}

func (l *leases) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byID.of)
}
