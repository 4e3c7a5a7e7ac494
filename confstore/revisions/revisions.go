// Package revisions is the contents of documents for those who follow them revision by revision.
package revisions

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/follow"
)

// The namespaces.
const (
	Own      = documents.Own
	Resolved = documents.Resolved
)

// Store is the contents of documents as a store that can be followed, see
// [follow.Selective]: the keys are their names, in two namespaces, and the revisions those of the
// log, of which it shows no more and no less than the log has. So it makes no difference whether
// a follower was there when something changed or reads it back later, after a restart too.
//
// A change is told if contents appear, disappear or become others. An entry's Updated is the
// version of the document, in milliseconds; its Version says nothing. Of a document that is deleted
// there is no entry, unless it inherits something.
type Store struct {
	// set at the beginning
	log       *log.Log
	now       *atomic.Pointer[Exact]
	most      int64
	wake      chan struct{} // capacity 1
	recent    *follow.Recent
	held      *memory.Pool // by recent
	followers follow.Subscribers[*kv.Batch]

	lapses atomic.Uint64 // how often a change was too much to be told; any goroutine

	left follow.Queue[Step] // steps that are not told yet; set at the beginning

	mu sync.Mutex
	// guarded by mu
	wanted follow.Topics[struct{}]
	news   int         // counts filters that no follower had before
	told   kv.Revision // everything up to it went into recent, or is not there
}

// Exact is a snapshot that is what the log has up to a revision, no more and no less.
type Exact struct {
	Snapshot *snapshot.Snapshot
	Revision kv.Revision
}

// Step is one from an exact snapshot to the next.
type Step struct {
	*Exact
	Changes []snapshot.Change
	Gap     bool // what lies between is not known here, only in the log
}

// Limits of what a Store keeps, in bytes. One change is kept however long.
const (
	MaxRecent = 4 << 20 // of the newest changes
	MaxUntold = 8 << 20 // retained by steps that are not told yet; if it is more, followers read them back
)

var _ follow.Selective = (*Store)(nil)

// New returns a Store of what now points at, of which each step is for Put. most is how many bytes of
// merged contents, before and after, may be made of one revision: a base can have any number of heirs. A
// follower that wants more of a revision is resynced.
func New(log *log.Log, now *atomic.Pointer[Exact], most int64) *Store {
	r := &Store{log: log, now: now, most: most, wake: make(chan struct{}, 1), held: memory.NewPool(MaxRecent)}
	r.recent = follow.NewRecent(MaxRecent, r.held)
	r.left.Limit = MaxUntold
	r.left.Join = func(last, next Step) Step {
		if !last.Gap {
			r.lapses.Add(1)
		}
		return Step{Exact: next.Exact, Gap: true}
	}
	r.told = r.Revision()
	r.recent.Pass(r.told)
	return r
}

// Put adds a step to what Run has to tell. It does not wait.
func (r *Store) Put(step Step) {
	r.left.Put(step, snapshot.Weight(step.Changes))
	clock.Nudge(r.wake)
}

// Numbers are what a Store keeps, in bytes, and what it could not keep.
type Numbers struct {
	Recent, Untold int64
	Lapses         uint64 // how often changes were not told because that was too much
}

// Numbers may be called from any goroutine.
func (r *Store) Numbers() Numbers {
	return Numbers{r.held.Held(), r.left.Weight(), r.lapses.Load()}
}

// Run tells followers what happens, until closing is closed. The contents are made here, because merging them may take
// long.
func (r *Store) Run(closing <-chan struct{}) {
	for {
		select {
		case <-closing:
			return
		case <-r.wake:
		}
		for step, ok := r.left.Take(); ok; step, ok = r.left.Take() {
			r.tell(&step)
		}
	}
}

// tell passes on one step. Contents that no follower wants are not made; so if a follower came
// meanwhile, the step is read back when it is needed.
func (r *Store) tell(step *Step) {
	r.mu.Lock()
	unwanted, before := r.wanted.Len() == 0, r.news
	r.mu.Unlock()
	change := kv.Change{Revision: step.Revision}
	if !unwanted && !r.compose(&change, step.Changes) {
		r.lapses.Add(1)
		step.Gap, change.Events = true, nil
	}
	batch := &kv.Batch{Changes: []kv.Change{change}, Reset: step.Gap}
	r.mu.Lock()
	r.told = step.Revision
	if unwanted || step.Gap || before != r.news {
		r.recent.Pass(step.Revision)
	} else {
		r.recent.Add(batch)
	}
	r.mu.Unlock()
	r.followers.Tell(batch)
}

// compose adds what changes are for those who want them. It returns false if that is too much.
func (r *Store) compose(change *kv.Change, changes []snapshot.Change) bool {
	size := int64(0)
	for i := range changes {
		c := &changes[i]
		if c.Own && r.wants(Own, c.Name) {
			change.Events = appendEvent(change.Events, change.Revision, Own, c.Name, contentsOf(Own, c.Prev), contentsOf(Own, c.Node))
		}
		if !r.wants(Resolved, c.Name) {
			continue
		}
		if size += int64(c.Prev.MergedSize() + c.Node.MergedSize()); size > r.most {
			return false
		}
		change.Events = appendEvent(change.Events, change.Revision, Resolved, c.Name, contentsOf(Resolved, c.Prev), contentsOf(Resolved, c.Node))
	}
	sortEvents(change.Events)
	return true
}

func (r *Store) wants(ns, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted.Wants(ns, name)
}

// Revision implements [follow.Store].
func (r *Store) Revision() kv.Revision { return r.now.Load().Revision }

// Get implements [follow.Store].
func (r *Store) Get(ns, key []byte) (*kv.Entry, kv.Revision) {
	now := r.now.Load()
	return contentsOf(string(ns), now.Snapshot.Node(string(key))).entry(string(ns), string(key)), now.Revision
}

// View implements [follow.Store]. It may be kept for as long as it is needed.
func (r *Store) View() kv.View { return revisionsView{r.now.Load()} }

// Namespaces implements [follow.Store].
func (r *Store) Namespaces(after string, _ int) (list []kv.Namespace, more bool) {
	for _, name := range [...]string{Own, Resolved} {
		if name > after {
			list = append(list, kv.Namespace{Name: name})
		}
	}
	return list, false
}

// Follow implements [follow.Store]. The functions are called on a goroutine of their own, somewhat
// after the change is answered. They get changes that are wanted only.
func (r *Store) Follow(fn func(*kv.Batch)) (stop func()) { return r.followers.Add(fn) }

// Want implements [follow.Selective].
func (r *Store) Want(f kv.Filter) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.wanted.Len()
	t := r.wanted.Join(f)
	if r.wanted.Len() > before {
		r.news++
		r.recent.Pass(r.told) // it has nothing for the newcomer
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wanted.Leave(t)
	}
}

// Changes implements [follow.Store].
func (r *Store) Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	return r.ChangesOf(ctx, []kv.Filter{{NS: Own}, {NS: Resolved}}, after, maxBytes)
}

// ChangesOf implements [follow.Selective]. The filters must be wanted.
func (r *Store) ChangesOf(ctx context.Context, filters []kv.Filter, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	now := r.now.Load()
	if after >= now.Revision {
		if after > now.Revision {
			return nil, codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest of the documents is %d", after, now.Revision)
		}
		return nil, nil
	}
	chunk := r.recent.Since(after, maxBytes)
	if after >= chunk.After && (len(chunk.Changes) > 0 || chunk.Last >= now.Revision) {
		return chunk.Changes, nil
	}
	return changesSince(ctx, r.log, now, filters, after, maxBytes, r.most)
}

// revisionsView is a snapshot as a view.
type revisionsView struct{ at *Exact }

func (v revisionsView) Revision() kv.Revision { return v.at.Revision }
func (v revisionsView) Close()                {}

func (v revisionsView) Get(ns, key string) (*kv.Entry, error) {
	return contentsOf(ns, v.at.Snapshot.Node(key)).entry(ns, key), nil
}

func (v revisionsView) List(l kv.List) (page kv.Page, err error) {
	limit, bytes := l.Limit, l.MaxBytes
	if limit <= 0 || limit > kv.MaxList {
		limit = kv.MaxList
	}
	if bytes <= 0 {
		bytes = kv.MaxPage
	}
	page.Revision = v.at.Revision
	for name := range following(v.at.Snapshot, l.NS, max(l.Prefix, l.After)) {
		switch {
		case name <= l.After && l.After != "":
			continue
		case !strings.HasPrefix(name, l.Prefix):
			page.Count = int64(len(page.Entries))
			return page, nil
		case len(page.Entries) == limit || bytes <= 0:
			page.Count, page.More = int64(len(page.Entries)), true
			return page, nil
		}
		if e := contentsOf(l.NS, v.at.Snapshot.Node(name)).entry(l.NS, name); e != nil {
			page.Entries = append(page.Entries, e)
			bytes -= e.Size()
		}
	}
	page.Count = int64(len(page.Entries))
	return page, nil
}

// following yields the names of a namespace in order, from one on. Resolved also has those
// that only inherit.
func following(s *snapshot.Snapshot, ns, from string) func(yield func(string) bool) {
	known, listed := s.Names(), []string(nil)
	if ns == Resolved {
		listed = s.Meta().Names()
	}
	cut := func(list []string) []string {
		i, _ := slices.BinarySearch(list, from)
		return list[i:]
	}
	return func(yield func(string) bool) {
		a, b := cut(known), cut(listed)
		for len(a) > 0 || len(b) > 0 {
			var name string
			if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
				name = a[0]
			} else {
				name = b[0]
			}
			if len(a) > 0 && a[0] == name {
				a = a[1:]
			}
			if len(b) > 0 && b[0] == name {
				b = b[1:]
			}
			if !yield(name) {
				return
			}
		}
	}
}
