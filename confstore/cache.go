package confstore

import (
	"sync"
	"sync/atomic"

	"confcenter/internal/jsonpath"
)

// form is text that is made on demand, or the index of a text. It can be dropped at any
// time; readers that have loaded a pointer keep what it points at.
type form struct {
	text  atomic.Pointer[[]byte]         // merged text; nil = not made; not used by a document's own form
	index atomic.Pointer[jsonpath.Index] // nil = not made
	used  atomic.Bool                    // since the cache last looked
	build sync.Mutex                     // one builder at a time

	size    int64 // guarded by the cache's mu: what it adds to the total
	retired bool  // guarded by the cache's mu: its node is no longer in the snapshot
}

// touch notes a read. The load keeps the line shared between cores.
func (f *form) touch() {
	if !f.used.Load() {
		f.used.Store(true)
	}
}

// cache bounds the total size of all forms of a store.
type cache struct {
	limit int64 // set at open

	mu    sync.Mutex // guards the rest
	total int64
	forms map[*form]struct{}
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, forms: make(map[*form]struct{})}
}

// add counts bytes that f has just acquired and makes room for them. A retired form is not
// counted: it is freed with the last reader of its snapshot.
func (c *cache) add(f *form, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.retired {
		return
	}
	c.forms[f] = struct{}{}
	f.size += int64(bytes)
	c.total += int64(bytes)
	// Two rounds: the first spares what was read since the last time, the second
	// finds it unused. f itself is spared, or a large one could never be read.
	for round := 0; round < 2 && c.total > c.limit; round++ {
		for old := range c.forms {
			if c.total <= c.limit {
				return
			}
			if old != f && !old.used.Swap(false) {
				c.dropLocked(old)
			}
		}
	}
}

// retire stops counting f when its node leaves the snapshot.
func (c *cache) retire(f *form) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.retired = true
	c.total -= f.size
	f.size = 0
	delete(c.forms, f)
}

func (c *cache) dropLocked(f *form) {
	c.total -= f.size
	f.size = 0
	delete(c.forms, f)
	f.text.Store(nil)
	f.index.Store(nil)
}
