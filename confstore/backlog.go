package confstore

import (
	"slices"
	"strings"
	"sync"

	"confcenter/internal/memory"
)

// Backlog queues batches for a subscriber that processes them on another goroutine. Batches stay
// separate while they are few; beyond a limit the newest are joined, so that the queue is bounded
// by the number of documents, however often they change. Make one with NewBacklog; all methods
// may be called from any goroutine.
type Backlog struct {
	limit int64 // set at open: bytes

	mu sync.Mutex
	// guarded by mu
	waiting []queued
	weight  int64
}

// queued is a batch, or several in its place.
type queued struct {
	first, last *Batch
	weight      int64
	joined      map[string]*Change // nil: there is only one
}

// NewBacklog makes a Backlog that keeps batches separate up to about limit bytes.
func NewBacklog(limit int64) *Backlog { return &Backlog{limit: limit} }

// Put adds a batch. It reports whether Take has one more to return; otherwise the batch was
// joined to the last one, which has not been taken yet.
func (l *Backlog) Put(b *Batch) (more bool) {
	size := weight(b.Changes)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 && l.weight+size > l.limit {
		l.waiting[len(l.waiting)-1].join(b)
		return false
	}
	l.waiting = append(l.waiting, queued{first: b, last: b, weight: size})
	l.weight += size
	return true
}

// Take returns the oldest batch, nil if there is none.
func (l *Backlog) Take() *Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil
	}
	q := l.waiting[0]
	l.waiting[0] = queued{}
	l.waiting = l.waiting[1:]
	l.weight -= q.weight
	return q.batch()
}

// unshared is about how many documents' worth of memory a batch retains besides its changes: the parts of
// the snapshot that it does not share with the next.
const unshared = 10

// weight is roughly how many bytes a batch retains if all of it has changed again meanwhile.
func weight(changes []Change) int64 {
	n := int64(unshared * memory.DocumentCost)
	for i := range changes {
		n += memory.DocumentCost
		if c := &changes[i]; c.Own {
			n += int64(c.Node.Size())
		}
	}
	return n
}

// join merges the changes of b into the queued batch.
func (q *queued) join(b *Batch) {
	if q.joined == nil {
		q.joined = make(map[string]*Change)
		q.add(q.last)
	}
	q.add(b)
	q.last = b
}

func (q *queued) add(b *Batch) {
	for _, c := range b.Changes {
		before := q.joined[c.Name]
		if before == nil {
			q.joined[c.Name] = &c
			continue
		}
		before.Node = c.Node
		if c.Own {
			before.Own, before.Actor = true, c.Actor
		}
		for _, base := range c.Bases {
			if !slices.Contains(before.Bases, base) {
				before.Bases = append(slices.Clip(before.Bases), base)
			}
		}
		before.BasesListChanged = before.BasesListChanged || c.BasesListChanged
	}
}

// batch returns the joined changes as if they had been found together.
func (q *queued) batch() *Batch {
	if q.joined == nil {
		return q.first
	}
	changes := make([]Change, 0, len(q.joined))
	for _, c := range q.joined {
		// Weakest first, and only those that it has by now.
		told := c.Bases
		c.Bases = nil
		for _, base := range c.Node.Bases() {
			if slices.Contains(told, base) {
				c.Bases = append(c.Bases, base)
			}
		}
		changes = append(changes, *c)
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return &Batch{Seq: q.last.Seq, Snapshot: q.last.Snapshot, Prev: q.first.Prev, Changes: basesFirst(changes)}
}
