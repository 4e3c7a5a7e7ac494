package kvstore

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// maxChanges is how many keys one transaction may change. Of the operations only
// deletions by prefix and ends of leases can get that far.
const maxChanges = 1 << 17

// change is what the group under way does to one key.
type change struct {
	space *space
	slot  *slot
	entry *kv.Entry // after the transactions so far; nil or Deleted: absent
	fresh bool      // the slot was made by this group

	txn    uint64    // the last transaction that touched it
	before *kv.Entry // entry when that transaction began
}

// group is the transactions that become durable and visible in one go: the
// committer's desk, reused from group to group. While it is under way nothing in
// it is seen by readers.
type group struct {
	// set at open
	cfg      *Config
	counters *counters
	tokens   *tokens
	terms

	// of the group under way
	proposal
	rev kv.Revision // newest revision given out
	times
	changes []*change
	answers []answer
	leases  []*lease // granted, ended, or with other keys than before
	expired int      // keys

	scratch // the transaction under way
	lookAhead
	spare
}

// times are the group's, in ms.
type times struct {
	millis int64 // since 1970
	steady int64 // the same by the monotonic clock
	oldest int64 // by this clock; tokens from before are too old
}

// terms are on what others have transactions committed.
type terms struct {
	// set at open
	writable func(uses Room) error

	quotas atomic.Pointer[kv.Quotas] // any goroutine; nil: there are none
}

// proposal is what the log is to take.
type proposal struct {
	commits []Commit
}

// scratch is what one transaction has done so far.
type scratch struct {
	txn     uint64       // its number; since open
	kind    kv.EventKind // of deletions: kv.Delete or kv.Expire
	touched []*change
	granted *lease
	ending  []*lease
	archive []kv.Event // replaced, since the log keeps it
	began   usage      // the counters' total before it
	noting  bool       // it is there for its lines in the audit only
}

// spare is room for what the next transactions need.
type spare struct {
	free   []*change
	events []kv.Event
	lineWriter
}

// answer is the outcome of a transaction. Its caller gets it when the group is
// done.
type answer struct {
	to     *queued
	result *kv.Result
	err    error
	needs  int  // how many of the group's commits must have been taken for it to stand
	wrote  bool // the last of them is its own
}

// begin starts a group of at most about n transactions.
func (g *group) begin(now time.Time, n int) {
	g.millis, g.steady = now.UnixMilli(), g.cfg.Clock.Steady().UnixMilli()
	g.oldest = g.steady - g.cfg.TokenAge.Milliseconds()
	g.commits = make([]Commit, 0, n) // not reused: the log keeps it
	g.expired = 0
	if g.cfg.Trail != nil {
		g.cfg.Trail.Begin()
	}
}

// reset forgets a group that is published.
func (g *group) reset() {
	g.keep(g.changes)
	for _, l := range g.leases {
		l.noted = false
	}
	g.changes, g.answers, g.leases = emptied(g.changes), emptied(g.answers), emptied(g.leases)
	g.touched, g.ending = emptied(g.touched), emptied(g.ending)
	g.commits, g.granted, g.archive = nil, nil, nil
	g.lookAhead = lookAhead{}
}

// emptied is a list's room without what it referred to, or nothing if it is large.
func emptied[T any](list []T) []T {
	const most = 1 << 14
	if cap(list) > most {
		return nil
	}
	clear(list)
	return list[:0]
}

// start begins a transaction.
func (g *group) start(kind kv.EventKind) {
	g.txn++
	g.kind = kind
	g.touched, g.ending, g.granted, g.archive, g.noting = g.touched[:0], g.ending[:0], nil, nil, false
	g.began = g.counters.total()
}

// undo takes back what the transaction did.
func (g *group) undo() {
	for _, ch := range g.touched {
		g.set(ch, ch.before)
	}
	for _, l := range g.ending {
		l.ending = false
	}
	if g.granted != nil {
		g.counters.leases.drop(g.granted)
	}
}

// now is the slot's entry as the group has it so far, nil if it is absent. The
// slot may be nil.
func (s *slot) now() *kv.Entry {
	switch {
	case s == nil:
		return nil
	case s.next != nil:
		return live(s.next.entry)
	}
	return live(s.entry)
}

// get is the key as the transaction under way sees it, nil if it is absent.
func (g *group) get(ns, key string) *kv.Entry {
	_, s := g.counters.index.find(ns, key)
	return s.now()
}

// before is what the key was before the transaction.
func (g *group) before(ns, key string) *kv.Entry {
	_, s := g.counters.index.find(ns, key)
	if s != nil && s.next != nil && s.next.txn == g.txn {
		return live(s.next.before)
	}
	return s.now()
}

// touch is the change of a slot; what the key was before the transaction is noted.
func (g *group) touch(sp *space, s *slot) *change {
	ch := s.next
	if ch == nil {
		ch = g.newChange(sp, s)
		ch.entry = s.entry
	}
	if ch.txn != g.txn {
		ch.txn, ch.before = g.txn, ch.entry
		g.touched = append(g.touched, ch)
	}
	return ch
}

func (g *group) newChange(sp *space, s *slot) *change {
	ch := g.change()
	ch.space, ch.slot, s.next = sp, s, ch
	g.changes = append(g.changes, ch)
	return ch
}

// put makes e the newest version of its key; sp and s are what find found.
func (g *group) put(sp *space, s *slot, e *kv.Entry) {
	if s != nil {
		// One text of the key for all its versions: the map refers to it too.
		e.NS, e.Key = sp.name, s.entry.Key
		g.set(g.touch(sp, s), e)
		return
	}
	if sp != nil {
		e.NS = sp.name
	}
	sp, s = g.counters.index.insert(sp, e)
	ch := g.newChange(sp, s)
	ch.fresh, ch.txn = true, g.txn
	g.touched = append(g.touched, ch)
	g.set(ch, e)
}

// set is the one place where a key changes. Setting what it was undoes it.
func (g *group) set(ch *change, e *kv.Entry) {
	old := live(ch.entry)
	ch.entry = e
	if sp := ch.space; sp.txn != g.txn {
		sp.txn, sp.began = g.txn, sp.next
	}
	for _, l := range g.counters.move(ch.space, ch.slot, old, live(e)) {
		if l != nil {
			g.note(l)
		}
	}
}

// note has a lease brought up to date when the group is published.
func (g *group) note(l *lease) {
	if !l.noted {
		l.noted = true
		g.leases = append(g.leases, l)
	}
}

// finish makes the transaction's commit. It reports whether it changed something:
// then it has the revision g.rev. Of what it did nothing can be undone any more.
func (g *group) finish(token *Token) bool {
	if len(g.touched) > 1 {
		slices.SortFunc(g.touched, func(a, b *change) int {
			if a.space != b.space {
				return cmp.Compare(a.space.name, b.space.name)
			}
			return cmp.Compare(a.slot.entry.Key, b.slot.entry.Key)
		})
	}
	next := g.rev + 1
	events := g.room(len(g.touched))
	for _, ch := range g.touched {
		before, after := live(ch.before), live(ch.entry)
		switch {
		case after != nil:
			events = append(events, kv.Event{Kind: kv.Put, Entry: after, Prev: before})
		case before != nil:
			ch.entry = &kv.Entry{NS: before.NS, Key: before.Key, Mod: next, Updated: g.millis}
			events = append(events, kv.Event{Kind: g.kind, Entry: ch.entry, Prev: before})
		default:
			ch.entry = ch.before
		}
	}
	g.events = g.events[:len(g.events)+len(events)]
	leases := g.leaseChanges()
	changed := len(events) > 0 || len(leases) > 0 || len(g.archive) > 0 || g.noting
	if !changed && token == nil {
		return false
	}
	g.rev = next
	g.commits = append(g.commits, Commit{
		Change:  kv.Change{Revision: next, Time: g.millis, Events: events[:len(events):len(events)]},
		Token:   token,
		Leases:  leases,
		Archive: sortedArchive(g.archive),
	})
	return changed
}

// sortedArchive is what a transaction did to archived keys; of one key only the last.
func sortedArchive(events []kv.Event) []kv.Event {
	if len(events) < 2 {
		return events
	}
	byName := func(a, b kv.Event) int {
		return cmp.Or(cmp.Compare(a.Entry.NS, b.Entry.NS), cmp.Compare(a.Entry.Key, b.Entry.Key))
	}
	slices.Reverse(events)
	slices.SortStableFunc(events, byName)
	return slices.CompactFunc(events, func(a, b kv.Event) bool { return byName(a, b) == 0 })
}

// change is an empty one.
func (s *spare) change() *change {
	n := len(s.free)
	if n == 0 {
		return &change{}
	}
	ch := s.free[n-1]
	s.free = s.free[:n-1]
	return ch
}

// keep empties changes to give them out again.
func (s *spare) keep(changes []*change) {
	const most = 1 << 14
	for _, ch := range changes {
		*ch = change{}
		if len(s.free) < most {
			s.free = append(s.free, ch)
		}
	}
}

// room is where the events of a transaction go: many transactions share an array.
func (s *spare) room(n int) []kv.Event {
	const atOnce = 64
	if cap(s.events)-len(s.events) < n {
		s.events = make([]kv.Event, 0, max(n, atOnce))
	}
	return s.events[len(s.events):]
}

func (g *group) leaseChanges() []LeaseChange {
	var list []LeaseChange
	if g.granted != nil {
		list = append(list, LeaseChange{ID: g.granted.id, TTL: g.granted.ttl, Owner: g.granted.owner, Home: g.granted.home})
		g.note(g.granted)
	}
	for _, l := range g.ending {
		list = append(list, LeaseChange{ID: l.id, TTL: l.ttl, Ended: true})
		g.note(l)
	}
	return list
}

// allowed reports whether there is room for what the transaction did. One that lets others leave, or
// takes rights away, has more room.
func (g *group) allowed(uses Room, more bool) error {
	if err := g.writable(uses); err != nil {
		return err
	}
	cost, keys := g.counters.held.most, g.cfg.MaxKeys
	if more {
		cost, keys = cost+cost/extraRoom, keys+max(1, keys/extraRoom)
	}
	total := g.counters.total()
	if total.cost > g.began.cost && total.cost > cost {
		g.counters.held.pool.Refuse()
		return codes.Errorf(codes.Quota, "the store's keys, values and leases take %d bytes of memory, its limit is %d: delete something", g.began.cost, g.counters.held.most)
	}
	if total.keys > g.began.keys && total.keys > keys {
		return codes.Errorf(codes.Quota, "the store has %d keys, its limit is %d: delete something", g.began.keys, g.cfg.MaxKeys)
	}
	return nil
}

// extraRoom is the part of the limits of memory and keys that transactions which relieve the
// store, or take rights away, may use beyond them.
const extraRoom = 8
