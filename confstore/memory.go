package confstore

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/jsonpath"
	"confcenter/internal/memory"
	"confcenter/meta"
)

// metaFactor is how much larger than its text a _meta.json is as rules and as nodes of the names that
// only occur in it.
const metaFactor = 23

// errNoRoom says that a file was not read because there is no memory for it.
var errNoRoom = errors.New("no room")

// fileCost is what the intake knows of a file whose name is known, in the pool Documents.
func fileCost(name string) int64 { return memory.VersionCost + int64(len(name)) }

// costOf is what a document takes in the pool Documents whose text has size bytes: that, and what is kept
// for it in nodes, snapshots, lists of names and problems. TestDocumentsCostWhatTheyTake compares both with
// the heap.
func costOf(name string, size int64) int64 {
	if name == meta.FileName {
		size *= metaFactor
	}
	return memory.DocumentCost + int64(2*len(name)) + size
}

// cost is what the node's own document takes.
func (n *Node) cost() int64 {
	if !n.known() {
		return 0
	}
	return costOf(n.name, int64(len(n.own.text)))
}

// noteRoom reports whether the last run had more memory: what it served is served.
func (in *intake) noteRoom() {
	text := ""
	if pool := in.cfg.Documents; pool.Over() {
		text = fmt.Sprintf("the configurations take more than the %d bytes of memory that they may; all are served, and nothing can be added: remove some or raise the server's --memory", pool.Limit())
	}
	in.dir.problems.Set(OfRoot, "memory", text)
}

// room is the memory for documents, as readers of files see it. Any goroutine may use it.
type room struct {
	pool *memory.Pool              // set at open
	now  *atomic.Pointer[Snapshot] // set at open

	recalled map[string]log.Document // what the log knows, while the store is opened; nil after that
}

// served is the digest of the file that name is served from; zero if it is not served.
func (m room) served(name string) log.Digest {
	if n := m.now.Load().Node(name); n.known() {
		return n.own.hash
	}
	return m.recalled[name].Hash
}

// forFile reserves memory for a file that is going to be read, as far as the document that it
// replaces does not have it. One that is not much larger than that is read in any case.
func (m room) forFile(r *reading, size int64) error {
	if n := m.now.Load().Node(r.name); n.live() && size <= int64(2*len(n.own.text)+64<<10) {
		return nil
	}
	if d := m.recalled[r.name]; d.N > 0 && !d.Deleted && size <= int64(2*d.Size+64<<10) {
		return nil // it is counted with the snapshot
	}
	return m.take(r, size, size)
}

// forText reserves what is missing for a file that was read. If there is not so much, the text is
// dropped.
func (m room) forText(r *reading, size int64) {
	if d := m.recalled[r.name]; d.N > 0 && d.Hash == r.raw {
		return
	}
	if r.fault == "" && m.take(r, int64(len(r.text)), size) != nil {
		r.text, r.data = nil, nil
	}
}

// take reserves memory for a text; size is that of the file. A file that does not fit is tried again
// with every scan, but counted once as refused, by takeFault.
func (m room) take(r *reading, text, size int64) error {
	more := costOf(r.name, text) - m.now.Load().Node(r.name).cost() - r.room
	var who memory.Taker = (*access.Actor)(nil)
	if isRole(r.name) { // someone has to be able to take rights away when all is full
		who = memory.Reserve
	}
	share := m.pool.For(who)
	if more <= 0 || share.Fits(more) && share.Take(more) {
		r.room += max(0, more)
		return nil
	}
	r.noRoom, r.sig = true, signature{} // which every scan finds changed
	r.fault = fmt.Sprintf("does not fit into the memory for configurations: it has %d bytes, and all together may take %d; remove some or raise the server's --memory", size, m.pool.Limit())
	return errNoRoom
}

// done gives back what was reserved for readings: what is published is counted by itself.
func (m room) done(readings []reading) {
	for i := range readings {
		m.pool.Give(readings[i].room)
	}
}

// reserve reserves memory for what a request makes of prev, until it is published. There is more
// for administrators, who have to act when others have filled it.
func (w *writer) reserve(f *fileSetting, prev *Node, next *document) error {
	name := f.req.Name
	more := costOf(name, int64(len(next.text))) - prev.cost()
	if w.in.files[name] == nil {
		more += fileCost(name)
	}
	if more <= 0 {
		return nil
	}
	pool := w.cfg.Documents
	if !pool.For(f.req.Actor).Take(more) {
		return codes.Errorf(codes.Quota, "%s needs %d bytes of memory more, and of the %d for configurations %d are taken; delete some, or raise the server's --memory", name, more, pool.Limit(), pool.Held())
	}
	f.room = more
	return nil
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
