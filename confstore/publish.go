package confstore

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"confcenter/confstore/commits"
	"confcenter/kv"
	"confcenter/meta"
)

// publisher holds the newest snapshot and notifies subscribers of each. Any goroutine may
// read and subscribe; only the store's goroutine publishes.
type publisher struct {
	limits    limits          // set at open
	revisions *Revisions      // set at open
	commits   *commits.Finder // set at open; nil: the files are not on the machine's own file system
	snapshot  atomic.Pointer[Snapshot]
	seen      subscribers[sight]
	exact     atomic.Pointer[exact]
	records   subscribers[record]

	mu     sync.Mutex
	faults map[string]string // guarded by mu: why files that were never good are not; nil: there are none
}

// exact is a snapshot that is what the log has up to a revision, no more and no less.
type exact struct {
	snapshot *Snapshot
	revision kv.Revision
}

// record is a step from one exact snapshot to the next.
type record struct {
	*exact
	changes []Change
	// gap: what lies between is not known here, only in the log.
	gap bool
}

// logged notes that the snapshot is what the log has up to a revision, after changes that did
// not come through publish one by one.
func (p *publisher) logged(rev kv.Revision) {
	now := &exact{p.snapshot.Load(), rev}
	p.exact.Store(now)
	p.records.tell(record{exact: now, gap: true})
}

// sight is what is published: the names of what people are shown otherwise, and what that means to
// programs.
type sight struct {
	now   *Snapshot
	names []string
	batch *Batch // nil: nothing
}

// subscribers are callbacks. The mutex is held while they run, so that cancel waits for
// them.
type subscribers[T any] struct {
	mu   sync.Mutex
	list []*subscriber[T] // guarded by mu
}

type subscriber[T any] struct{ fn func(T) }

func (s *subscribers[T]) add(fn func(T)) (cancel func()) {
	one := &subscriber[T]{fn}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, one)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = slices.DeleteFunc(s.list, func(other *subscriber[T]) bool { return other == one })
	}
}

func (s *subscribers[T]) tell(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.list {
		one.fn(v)
	}
}

// publish starts serving a plan: the snapshot is readable before subscribers are told.
func (p *publisher) publish(out *plan) {
	prev := out.prev
	for _, name := range out.names {
		next := out.next.Node(name)
		if next != nil && !next.Known() && next.broken == "" {
			next.broken = p.fault(name) // it is in no snapshot yet
		}
		p.retire(prev.Node(name), next)
	}
	p.snapshot.Store(out.next)
	if rev := out.revision; rev > 0 {
		now := &exact{out.next, rev}
		p.exact.Store(now)
		p.records.tell(record{exact: now, changes: out.changes})
	}
	p.seen.tell(sight{out.next, out.names, out.batch()})
}

// batch is what a plan means to programs; nil: nothing.
func (pl *plan) batch() *Batch {
	if len(pl.changes) == 0 {
		return nil
	}
	return &Batch{Seq: pl.seq, Snapshot: pl.next, Prev: pl.prev, Changes: pl.changes}
}

// retire releases the resources of a node that is no longer in the snapshot. next may be
// nil.
func (p *publisher) retire(prev, next *Node) {
	if prev == nil {
		return
	}
	prev.retireAnswers()
	if prev.merged != nil && (next == nil || prev.merged != next.merged) {
		p.limits.cache.retire(prev.merged)
	}
	if prev.own != nil && (next == nil || prev.own != next.own) {
		p.limits.cache.retire(&prev.own.index)
	}
}

// setBroken records why name's file cannot be served now, "" if it can. The contents do not
// change, so there is no batch.
func (p *publisher) setBroken(name, fault string) {
	prev := p.snapshot.Load()
	old := prev.Node(name)
	p.setFault(name, fault, old.known())
	if old == nil || old.broken == fault {
		return
	}
	b := newBuilder(prev)
	b.put(old.withBroken(fault))
	p.snapshot.Store(b.finish())
	old.retireAnswers()
	p.shown(name)
}

// withBroken returns a copy of the node with another Broken text.
func (n *Node) withBroken(fault string) *Node {
	return &Node{
		name: n.name, own: n.own, broken: fault, listed: n.listed, bases: n.bases, parts: n.parts, partNames: n.partNames, deep: n.deep,
		list: n.list, floor: n.floor, resolved: n.resolved, listSeq: n.listSeq, merged: n.merged, limits: n.limits,
	}
}

// Fault is a file that never was valid, so that no snapshot has it.
type Fault struct {
	Name string
	Text string // why it cannot be served
}

// allFaults is sorted by name.
func (p *publisher) allFaults() []Fault {
	p.mu.Lock()
	faults := make([]Fault, 0, len(p.faults))
	for name, text := range p.faults {
		faults = append(faults, Fault{name, text})
	}
	p.mu.Unlock()
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Name, b.Name) })
	return faults
}

func (p *publisher) fault(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[name]
}

func (p *publisher) neverGood(name []byte) *Broken {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) == 0 {
		return nil // as almost always
	}
	complete := meta.Complete(string(name))
	if fault, there := p.faults[complete]; there {
		return &Broken{Name: complete, Reason: fault, Never: true}
	}
	return nil
}

// setFault updates the list of faults. Only files that were never valid (not known) are in
// it.
func (p *publisher) setFault(name, fault string, known bool) {
	fresh := fault != "" && !known
	p.mu.Lock()
	switch {
	case !fresh:
		delete(p.faults, name)
	case p.faults == nil:
		p.faults = map[string]string{name: fault}
	default:
		p.faults[name] = fault
	}
	p.mu.Unlock()
	if fresh { // one that heals is told of with its document, one that goes by removed
		p.shown(name)
	}
}

// shown tells that people are shown something else of a file whose contents have not changed.
func (p *publisher) shown(name string) {
	p.seen.tell(sight{now: p.snapshot.Load(), names: []string{name}})
}
