package confstore

import (
	"sync"
	"sync/atomic"

	"confcenter/internal/jsonpath"
	"confcenter/internal/memory"
)

// form is text that is made on demand, or the index of a text. It can be dropped at any
// time; readers that have loaded a pointer keep what it points at.
type form struct {
	text  atomic.Pointer[[]byte]         // merged text; nil = not made; not used by a document's own form
	index atomic.Pointer[jsonpath.Index] // nil = not made
	used  atomic.Bool                    // since the cache last looked
	build sync.Mutex                     // one builder at a time

	size    int64 // guarded by the cache's mu: what it holds of the pool
	retired bool  // guarded by the cache's mu: its node is no longer in the snapshot
}

// touch notes a read. The load keeps the line shared between cores.
func (f *form) touch() {
	if !f.used.Load() {
		f.used.Store(true)
	}
}

// cache keeps all forms of a store within a pool, which also has the prepared answers.
type cache struct {
	pool *memory.Pool // set at open

	mu    sync.Mutex // guards the rest
	forms map[*form]struct{}
}

func newCache(pool *memory.Pool) *cache {
	return &cache{pool: pool, forms: make(map[*form]struct{})}
}

// add counts bytes that f has just acquired and makes room for them. A retired form is not
// counted: it is freed with the last reader of its snapshot.
func (c *cache) add(f *form, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.retired {
		return
	}
	size := int64(bytes)
	if _, known := c.forms[f]; !known {
		c.forms[f] = struct{}{}
		size += memory.VersionCost
	}
	f.size += size
	c.pool.Add(size)
	// Two rounds: the first spares what was read since the last time, the second
	// finds it unused. f itself is spared, or a large one could never be read.
	for round := 0; round < 2 && c.pool.Over(); round++ {
		for old := range c.forms {
			if !c.pool.Over() {
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
	c.forgetLocked(f)
}

func (c *cache) forgetLocked(f *form) {
	c.pool.Give(f.size)
	f.size = 0
	delete(c.forms, f)
}

func (c *cache) dropLocked(f *form) {
	c.forgetLocked(f)
	f.text.Store(nil)
	f.index.Store(nil)
}
