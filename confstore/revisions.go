package confstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/follow"
)

// The namespaces of Revisions.
const (
	Own      = documents.Own
	Resolved = documents.Resolved
)

// Revisions are the contents of documents as a store that can be followed, see
// [follow.Selective]: the keys are their names, in two namespaces, and the revisions those of the
// log, of which it shows no more and no less than the log has. So it makes no difference whether
// a follower was there when something changed or reads it back later, after a restart too.
//
// A change is told if contents appear, disappear or become others. An entry's Updated is the
// version of the document, in milliseconds; its Version says nothing. Of a document that is deleted
// there is no entry, unless it inherits something.
type Revisions struct {
	// set at open
	publisher *publisher
	log       *log.Log
	unhook    func()
	wake      chan struct{} // capacity 1
	closing   chan struct{}
	recent    *follow.Recent
	held      *memory.Pool // by recent
	followers subscribers[*kv.Batch]

	lapses atomic.Uint64 // how often a change was too much to be told; any goroutine

	left follow.Queue[record] // steps that are not told yet; set at open

	mu sync.Mutex
	// guarded by mu
	wanted follow.Topics[struct{}]
	news   int         // counts filters that no follower had before
	told   kv.Revision // everything up to it went into recent, or is not there
}

// Limits of what Revisions keep, in bytes. One change is kept however long.
const (
	recentRevisions = 4 << 20 // of the newest changes
	maxUntold       = 8 << 20 // retained by steps that are not told yet; if it is more, followers read them back
)

var _ follow.Selective = (*Revisions)(nil)

// newRevisions follows a publisher. run and close are the owner's.
func newRevisions(p *publisher, log *log.Log) *Revisions {
	r := &Revisions{
		publisher: p, log: log, wake: make(chan struct{}, 1), closing: make(chan struct{}),
		held: memory.NewPool(recentRevisions),
	}
	r.recent = follow.NewRecent(recentRevisions, r.held)
	r.left.Limit = maxUntold
	r.left.Join = func(last, next record) record {
		if !last.gap {
			r.lapses.Add(1)
		}
		return record{exact: next.exact, gap: true}
	}
	r.unhook = p.records.add(func(step record) {
		r.left.Put(step, weight(step.changes))
		clock.Nudge(r.wake)
	})
	r.told = r.Revision()
	r.recent.Pass(r.told)
	return r
}

func (r *Revisions) close() {
	r.unhook()
	close(r.closing)
}

// run tells followers what happens. The contents are made here, because merging them may take
// long.
func (r *Revisions) run() {
	for {
		select {
		case <-r.closing:
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
func (r *Revisions) tell(step *record) {
	r.mu.Lock()
	nobody, before := r.wanted.Len() == 0, r.news
	r.mu.Unlock()
	change := kv.Change{Revision: step.revision}
	if !nobody && !r.compose(&change, step.changes) {
		r.lapses.Add(1)
		step.gap, change.Events = true, nil
	}
	batch := &kv.Batch{Changes: []kv.Change{change}, Reset: step.gap}
	r.mu.Lock()
	r.told = step.revision
	if nobody || step.gap || before != r.news {
		r.recent.Pass(step.revision)
	} else {
		r.recent.Add(batch)
	}
	r.mu.Unlock()
	r.followers.tell(batch)
}

// most is how many bytes of merged contents, before and after, may be made of one revision: a base
// can have any number of heirs. A follower that wants more of a revision begins anew.
func (r *Revisions) most() int64 { return r.publisher.limits.cache.pool.Limit() / 2 }

// compose adds what changes are for those who want them. It returns false if that is too much.
func (r *Revisions) compose(change *kv.Change, changes []Change) bool {
	size, most := int64(0), r.most()
	for i := range changes {
		c := &changes[i]
		if c.Own && r.wants(Own, c.Name) {
			change.Events = appendEvent(change.Events, change.Revision, Own, c.Name, contentsOf(Own, c.Prev), contentsOf(Own, c.Node))
		}
		if !r.wants(Resolved, c.Name) {
			continue
		}
		if size += c.Prev.mergedSize() + c.Node.mergedSize(); size > most {
			return false
		}
		change.Events = appendEvent(change.Events, change.Revision, Resolved, c.Name, contentsOf(Resolved, c.Prev), contentsOf(Resolved, c.Node))
	}
	sortEvents(change.Events)
	return true
}

// mergedSize is at most what the node's merged contents take.
func (n *Node) mergedSize() int64 {
	if n == nil || !n.inherits() {
		return 0
	}
	return int64(n.mergeSize())
}

func (r *Revisions) wants(ns, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted.Wants(ns, name)
}

// Revision implements [follow.Store].
func (r *Revisions) Revision() kv.Revision { return r.publisher.exact.Load().revision }

// Get implements [follow.Store].
func (r *Revisions) Get(ns, key []byte) (*kv.Entry, kv.Revision) {
	now := r.publisher.exact.Load()
	return contentsOf(string(ns), now.snapshot.Node(string(key))).entry(string(ns), string(key)), now.revision
}

// View implements [follow.Store]. It may be kept for as long as it is needed.
func (r *Revisions) View() kv.View { return revisionsView{r.publisher.exact.Load()} }

// Namespaces implements [follow.Store].
func (r *Revisions) Namespaces(after string, _ int) (list []kv.Namespace, more bool) {
	for _, name := range [...]string{Own, Resolved} {
		if name > after {
			list = append(list, kv.Namespace{Name: name})
		}
	}
	return list, false
}

// Follow implements [follow.Store]. The functions are called on a goroutine of their own, somewhat
// after the change is answered. They get changes that are wanted only.
func (r *Revisions) Follow(fn func(*kv.Batch)) (stop func()) { return r.followers.add(fn) }

// Want implements [follow.Selective].
func (r *Revisions) Want(f kv.Filter) (stop func()) {
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
func (r *Revisions) Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	return r.ChangesOf(ctx, []kv.Filter{{NS: Own}, {NS: Resolved}}, after, maxBytes)
}

// ChangesOf implements [follow.Selective]. The filters must be wanted.
func (r *Revisions) ChangesOf(ctx context.Context, filters []kv.Filter, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	now := r.publisher.exact.Load()
	if after >= now.revision {
		if after > now.revision {
			return nil, codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest of the documents is %d", after, now.revision)
		}
		return nil, nil
	}
	chunk := r.recent.Since(after, maxBytes)
	if after >= chunk.After && (len(chunk.Changes) > 0 || chunk.Last >= now.revision) {
		return chunk.Changes, nil
	}
	return changesSince(ctx, r.log, now, filters, after, maxBytes, r.most())
}

// revisionsView is a snapshot as a view.
type revisionsView struct{ at *exact }

func (v revisionsView) Revision() kv.Revision { return v.at.revision }
func (v revisionsView) Close()                {}

func (v revisionsView) Get(ns, key string) (*kv.Entry, error) {
	return contentsOf(ns, v.at.snapshot.Node(key)).entry(ns, key), nil
}

func (v revisionsView) List(l kv.List) (page kv.Page, err error) {
	limit, bytes := l.Limit, l.MaxBytes
	if limit <= 0 || limit > kv.MaxList {
		limit = kv.MaxList
	}
	if bytes <= 0 {
		bytes = kv.MaxPage
	}
	page.Revision = v.at.revision
	for name := range v.at.snapshot.following(l.NS, max(l.Prefix, l.After)) {
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
		if e := contentsOf(l.NS, v.at.snapshot.Node(name)).entry(l.NS, name); e != nil {
			page.Entries = append(page.Entries, e)
			bytes -= e.Size()
		}
	}
	page.Count = int64(len(page.Entries))
	return page, nil
}

// following yields the names of a namespace in order, from one on. Resolved also has those
// that only inherit.
func (s *Snapshot) following(ns, from string) func(yield func(string) bool) {
	known, listed := s.names, []string(nil)
	if ns == Resolved {
		listed = s.rules.meta.Names()
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
