package follow

import (
	"cmp"
	"slices"
	"sync"

	"confcenter/internal/memory"
	"confcenter/kv"
)

// Weight is about how many bytes a change keeps in memory once everything it wrote
// has been overwritten.
func Weight(c *kv.Change) int {
	weight := memory.VersionCost
	for i := range c.Events {
		e := &c.Events[i]
		weight += memory.VersionCost + e.Entry.Size()
		if e.Prev != nil {
			weight += e.Prev.Size()
		}
	}
	return weight
}

// Recent keeps the newest changes of a store for all its followers. Its methods may
// be called from any goroutine and never wait.
type Recent struct {
	// set at open
	max  int
	pool *memory.Pool

	mu sync.Mutex
	// guarded by mu
	changes []kv.Change // oldest first
	bytes   int
	begun   bool
	after   kv.Revision // everything after it, up to last, is in changes
	last    kv.Revision
}

// NewRecent makes a Recent that keeps about maxBytes at most and half of that at
// least, once so much has come. It always keeps the newest change, however long. What it
// keeps is counted in the pool, which may be nil, but never as more than maxBytes: else
// one long change would make others give up what they need to pass it on.
func NewRecent(maxBytes int, pool *memory.Pool) *Recent {
	return &Recent{max: maxBytes, pool: pool.Or(int64(maxBytes))}
}

// Begin announces that everything after revision will be added, unless something
// has been added already.
func (r *Recent) Begin(revision kv.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		r.begun, r.after, r.last = true, revision, revision
	}
}

// Add adds a batch of the store's feed.
func (r *Recent) Add(b *kv.Batch) {
	weight := 0
	for i := range b.Changes {
		weight += Weight(&b.Changes[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Reset {
		r.passLocked(b.Last())
		return
	}
	if !r.begun {
		r.begun, r.after = true, b.Changes[0].Revision-1
	}
	before := r.countedLocked()
	defer func() { r.pool.Add(r.countedLocked() - before) }()
	r.bytes += weight
	r.changes = append(r.changes, b.Changes...)
	r.last = b.Last()
	if r.bytes <= r.max {
		return
	}
	n := 0
	for ; n < len(r.changes)-1 && r.bytes > r.max/2; n++ {
		r.bytes -= Weight(&r.changes[n])
		r.after = r.changes[n].Revision
	}
	r.changes = slices.Clone(r.changes[n:]) // readers of the old slice are not disturbed
}

// Pass announces that the changes up to revision will not be added, and drops all
// before.
func (r *Recent) Pass(revision kv.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passLocked(revision)
}

func (r *Recent) passLocked(revision kv.Revision) {
	r.begun, r.after, r.last = true, revision, revision
	r.pool.Give(r.countedLocked())
	r.changes, r.bytes = nil, 0
}

func (r *Recent) countedLocked() int64 { return int64(min(r.bytes, r.max)) }

// Since returns the changes after revision, as far back as they are kept: as many
// as fit into maxBytes, but at least one if there is one.
func (r *Recent) Since(revision kv.Revision, maxBytes int) Chunk {
	r.mu.Lock()
	chunk := Chunk{After: r.after, Last: r.last, Changes: r.changes}
	r.mu.Unlock() // the store waits for it in Add: look through the changes only now
	i, _ := slices.BinarySearchFunc(chunk.Changes, revision+1, func(c kv.Change, rev kv.Revision) int { return cmp.Compare(c.Revision, rev) })
	chunk.Changes = chunk.Changes[i:len(chunk.Changes):len(chunk.Changes)]
	for n := range chunk.Changes {
		if maxBytes -= Weight(&chunk.Changes[n]); maxBytes < 0 && n > 0 {
			chunk.Changes = chunk.Changes[:n:n]
			chunk.Last, chunk.Part = chunk.Changes[n-1].Revision, true
			break
		}
	}
	return chunk
}
