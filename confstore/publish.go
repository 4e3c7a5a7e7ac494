package confstore

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"confcenter/confstore/commits"
	"confcenter/confstore/revisions"
	"confcenter/confstore/snapshot"
	"confcenter/kv/follow"
	"confcenter/meta"
)

// publisher holds the newest snapshot and notifies subscribers of each. Any goroutine may
// read and subscribe; only the store's goroutine publishes.
type publisher struct {
	limits    *snapshot.Limits // set at open
	revisions *revisions.Store // set at open
	commits   *commits.Finder  // set at open; nil: the files are not on the machine's own file system
	snapshot  atomic.Pointer[snapshot.Snapshot]
	seen      follow.Subscribers[sight]
	exact     atomic.Pointer[revisions.Exact]

	mu     sync.Mutex
	faults map[string]string // guarded by mu: why files that were never good are not; nil: there are none
}

// logged takes a step to what the log has.
func (p *publisher) logged(step revisions.Step) {
	p.exact.Store(step.Exact)
	if p.revisions != nil { // while the store is opened, no one follows
		p.revisions.Put(step)
	}
}

// sight is what is published: the names of what people are shown otherwise, and what that means to
// programs.
type sight struct {
	now   *snapshot.Snapshot
	names []string
	batch *snapshot.Batch // nil: nothing
}

// publish starts serving a plan: the snapshot is readable before subscribers are told.
func (p *publisher) publish(out *snapshot.Plan) {
	out.Retire()
	p.snapshot.Store(out.Next)
	if rev := out.Revision; rev > 0 {
		p.logged(revisions.Step{Exact: &revisions.Exact{Snapshot: out.Next, Revision: rev}, Changes: out.Changes})
	}
	p.seen.Tell(sight{out.Next, out.Names, out.Batch()})
}

// setBroken records why name's file cannot be served now, "" if it can. The contents do not
// change, so there is no batch.
func (p *publisher) setBroken(name, fault string) {
	prev := p.snapshot.Load()
	old := prev.Node(name)
	p.setFault(name, fault, old.Known())
	if old == nil || old.Broken() == fault {
		return
	}
	p.snapshot.Store(prev.WithBroken(old, fault))
	p.shown(name)
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
	p.seen.Tell(sight{now: p.snapshot.Load(), names: []string{name}})
}
