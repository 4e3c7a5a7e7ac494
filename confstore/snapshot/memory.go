package snapshot

import (
	"bytes"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"confcenter/internal/jsonpath"
	"confcenter/internal/memory"
	"confcenter/meta"
)

// metaFactor is how much larger than its text a _meta.json is as rules and as nodes of the names that
// only occur in it.
const metaFactor = 23

// Cost is what a document takes in the pool Documents whose text has size bytes: that, and what is kept
// for it in nodes, snapshots, lists of names and problems. TestDocumentsCostWhatTheyTake compares both with
// the heap.
func Cost(name string, size int64) int64 {
	if name == meta.FileName {
		size *= metaFactor
	}
	return memory.DocumentCost + int64(2*len(name)) + size
}

// Cost is what the node's own document takes in the pool Documents; of nil, nothing.
func (n *Node) Cost() int64 {
	if !n.Known() {
		return 0
	}
	return Cost(n.name, int64(len(n.own.text)))
}

// Limits are what the nodes of a store share: what they make of a text at once, and the memory for what
// they keep of that.
type Limits struct {
	inline, index int
	cache         *cache
}

// NewLimits returns those of a store. Contents merges at once what has at most inline bytes, and Lookup
// reads what has at most index bytes without an index. caches is the memory for merged documents, indexes
// and answers.
func NewLimits(inline, index int, caches *memory.Pool) *Limits {
	return &Limits{inline, index, &cache{pool: caches, forms: make(map[*form]struct{})}}
}

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

// maxAnswerBytes is how long the finished answers are at most that nodes keep: longer ones are quicker to
// write than worth the memory.
const maxAnswerBytes = 4 << 10

// answers are finished replies for the whole document, one list for each form. They are kept
// in the node, and the name within the reply, because reading many documents is mostly
// waiting for memory.
type answers struct {
	own, merged atomic.Pointer[answer]
	bytes       atomic.Int64 // counted for this node; far below 0 once it is retired
}

// answer is one reply and, in a chain, those for other spellings.
type answer struct {
	body          []byte
	name, nameEnd int // where in body the name is
	next          *answer
}

func (a *answers) of(inherit bool) *atomic.Pointer[answer] {
	if inherit {
		return &a.merged
	}
	return &a.own
}

// Answer returns what KeepAnswer was given for this spelling of the name, nil if nothing. It
// must not be changed.
func (n *Node) Answer(inherit bool, name []byte) []byte {
	for a := n.answers.of(inherit).Load(); a != nil; a = a.next {
		if string(a.body[a.name:a.nameEnd]) == string(name) {
			return a.body
		}
	}
	return nil
}

// KeepAnswer keeps a finished answer for the whole document with the node, for the next
// request. name is the JSON string of the request; body contains it and is copied. Long
// answers are not kept, nor answers to names with escapes, of which there are endlessly many
// spellings, while there are only two without.
func (n *Node) KeepAnswer(inherit bool, name, body []byte) {
	at, size, pool := bytes.Index(body, name), int64(reflect.TypeFor[answer]().Size())+int64(len(body)), n.limits.cache.pool
	if at < 0 || len(body) > maxAnswerBytes || bytes.IndexByte(name, '\\') >= 0 ||
		n.answers.bytes.Load() < 0 || !pool.Fits(size) {
		return
	}
	list := n.answers.of(inherit)
	first := list.Load()
	for a := first; a != nil; a = a.next {
		if string(a.body[a.name:a.nameEnd]) == string(name) {
			return
		}
	}
	a := &answer{body: slices.Clone(body), name: at, nameEnd: at + len(name), next: first}
	// The loser of a race keeps nothing; the next request tries again.
	if list.CompareAndSwap(first, a) && n.answers.bytes.Add(size) > 0 {
		pool.Add(size)
	}
}

// retireAnswers stops counting those of a node that leaves the snapshot.
func (n *Node) retireAnswers() {
	const never = -1 << 60
	n.limits.cache.pool.Give(max(0, n.answers.bytes.Swap(never)))
}
