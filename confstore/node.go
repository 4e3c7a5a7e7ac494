package confstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"confcenter/confstore/log"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/meta"
)

// document is a name's own contents at one version. It is immutable, and shared by the nodes of all
// snapshots and heirs.
type document struct {
	text    []byte // compact; `{}` if deleted
	served  int32  // the version clients see
	given   int32  // what the writer or the file said
	seq     uint64 // of the change that made it
	deleted bool
	sealed  bool // it has marks of sealed values
	index   form // of text

	hash     log.Digest   // of the file; zero if deleted
	recorded atomic.Int64 // see revision
}

// object reports whether others can inherit members of it.
func (d *document) object() bool { return d.text[0] == '{' }

// revision is that of the transaction of the log that made the document; 0: the log does not
// have it.
func (d *document) revision() kv.Revision { return kv.Revision(d.recorded.Load()) }

func (d *document) setRevision(rev kv.Revision) { d.recorded.Store(int64(rev)) }

// Node is one document of a Snapshot. Apart from cached results it never changes, and any number of
// goroutines may use it. Snapshots share a node until the document, one of its bases or the list of
// bases changes.
type Node struct {
	name      string
	own       *document // nil: unknown, the name has only bases (a ghost)
	broken    string
	listed    bool // has an entry in conf_inherit
	bases     []string
	parts     []*document // of the bases that are known, weakest first
	partNames []string    // theirs
	deep      bool
	list      log.Digest // of listed, bases and deep; of one that was just recalled, as it was served
	floor     int32      // the resolved version is not below it
	resolved  int32
	listSeq   uint64 // of the change of _meta.json that gave it its list, if that was seen happen
	merged    *form  // nil without bases
	limits    *limits
	answers   answers
}

// limits are the parts of a store that its nodes need.
type limits struct {
	inline, index int
	cache         *cache
}

// Name is the path relative to the directory, ".json" included.
func (n *Node) Name() string { return n.name }

// Known reports whether the name is, or was, a document. It is false for a ghost: a
// name without a file that inherits from others by _meta.json.
func (n *Node) Known() bool { return n.own != nil }

// known and live also work on a nil node.
func (n *Node) known() bool { return n != nil && n.own != nil }
func (n *Node) live() bool  { return n.known() && !n.own.deleted }

// liveText is the own text of a node that is live, and may be nil; else nil.
func (n *Node) liveText() []byte {
	if !n.live() {
		return nil
	}
	return n.own.text
}

// Deleted reports whether the document was removed and only its tombstone is left.
func (n *Node) Deleted() bool { return n.own != nil && n.own.deleted }

// Mtime returns the version of the document alone or, with inherit, of the document with its bases.
// It never decreases for a name. It is 0 for a ghost.
func (n *Node) Mtime(inherit bool) int32 {
	switch {
	case n.own == nil:
		return 0
	case inherit:
		return n.resolved
	}
	return n.own.served
}

// Revision returns the revision of the log that made the version of the document that is served or,
// with inherit, the newest of that and its bases' versions. It is 0 as long as the log does not have
// the version, and for a ghost without bases.
func (n *Node) Revision(inherit bool) kv.Revision {
	var rev kv.Revision
	if n.own != nil {
		rev = n.own.revision()
	}
	if inherit {
		for _, part := range n.parts {
			rev = max(rev, part.revision())
		}
	}
	return rev
}

// GivenMtime returns the mtime that its writer gave or its file had. Writes with an older one are
// refused; it can be below Mtime(false). It is 0 for a ghost.
func (n *Node) GivenMtime() int32 {
	if n.own == nil {
		return 0
	}
	return n.own.given
}

// Seq returns the sequence of the newest change to the document, own or resolved: to its contents,
// to a base, or to its list of bases. A subscriber that knows all changes up to some sequence has
// missed exactly the documents whose Seq is above it.
func (n *Node) Seq() uint64 {
	seq := n.listSeq
	if n.own != nil {
		seq = max(seq, n.own.seq)
	}
	for _, part := range n.parts {
		seq = max(seq, part.seq)
	}
	return seq
}

// Broken returns why the file cannot be served as it is now, or "". If it is broken, Contents
// returns the last valid version.
func (n *Node) Broken() string { return n.broken }

// Bases are the names the document inherits from, weakest first, whether they
// exist or not; nil if it does not inherit. The slice is shared.
func (n *Node) Bases() []string { return n.bases }

// Size is the length of the own compact contents in bytes.
func (n *Node) Size() int {
	if n.own == nil {
		return 0
	}
	return len(n.own.text)
}

// inherits reports whether the merged form differs in kind from the own one.
func (n *Node) inherits() bool { return n.merged != nil }

// Contents returns the compact text, own or with the bases merged in. A deleted document's own text
// is {}, a ghost's is nil. ready is false if the merge is too large to be done here: call Prepare on
// another goroutine, then try again. The text is shared and must not be changed.
func (n *Node) Contents(inherit bool) (text []byte, ready bool) {
	if !inherit || !n.inherits() {
		if n.own == nil {
			return nil, true
		}
		return n.own.text, true
	}
	if merged := n.merged.text.Load(); merged != nil {
		n.merged.touch()
		return *merged, true
	}
	if n.mergeSize() > n.limits.inline {
		return nil, false
	}
	return n.merge(), true
}

func (n *Node) mergeSize() int {
	size := 0
	for _, part := range n.parts {
		size += len(part.text)
	}
	return size + n.Size()
}

// merge makes the merged text, once for all callers.
func (n *Node) merge() []byte {
	n.merged.build.Lock()
	defer n.merged.build.Unlock()
	if text := n.merged.text.Load(); text != nil {
		return *text
	}
	text := jsonpath.Merge(n.layers(), n.deep)
	n.merged.text.Store(&text)
	n.merged.touch()
	n.limits.cache.add(n.merged, len(text))
	return text
}

// layers are the texts that are merged, weakest first.
func (n *Node) layers() [][]byte {
	docs := make([][]byte, 0, len(n.parts)+1)
	for _, part := range n.parts {
		docs = append(docs, part.text)
	}
	if n.own != nil {
		docs = append(docs, n.own.text)
	}
	return docs
}

// Lookup returns the value at a key path such as /key/sub/0; "" and "/" are the whole document.
// found is false if there is none. ready is false if it needs a merge or an index that is too large
// to be made here: call Prepare(inherit, true) on another goroutine, then try again. The value is
// shared and must not be changed.
func (n *Node) Lookup(inherit bool, pattern []byte) (value []byte, found, ready bool) {
	text, ready := n.Contents(inherit)
	if !ready || text == nil {
		return nil, false, ready
	}
	if len(pattern) == 0 || len(pattern) == 1 && pattern[0] == '/' {
		return text, true, true
	}
	if len(text) <= n.limits.index {
		value, found = jsonpath.Lookup(text, pattern)
		return value, found, true
	}
	f := n.form(inherit)
	index := f.index.Load()
	if index == nil {
		return nil, false, false
	}
	f.touch()
	value, found = index.Lookup(pattern)
	return value, found, true
}

// form returns the form that keeps the index of the own or merged text.
func (n *Node) form(inherit bool) *form {
	if inherit && n.inherits() {
		return n.merged
	}
	return &n.own.index
}

// Prepare makes what Contents and, with index, Lookup need. It may take milliseconds for large
// documents, can be called from any goroutine, and does nothing if there is nothing to do. Its
// results may be dropped when memory is short, so the caller has to try again and, rarely, prepare
// again.
func (n *Node) Prepare(inherit, index bool) {
	text, ready := n.Contents(inherit)
	if !ready {
		text = n.merge()
	}
	if !index || text == nil || len(text) <= n.limits.index {
		return
	}
	f := n.form(inherit)
	f.build.Lock()
	defer f.build.Unlock()
	if f.index.Load() != nil {
		return
	}
	made := jsonpath.NewIndex(text)
	f.index.Store(made)
	f.touch()
	n.limits.cache.add(f, made.Size())
}

// Origin says which document a part of a resolved document comes from.
type Origin struct {
	Path string // JSON pointer (RFC 6901)
	Name string // of the document
}

// Origins returns the document of origin of each top-level member of the resolved document, and of
// each member below that is not an object itself, as [jsonpath.Trace] does.
func (n *Node) Origins() (origins []Origin, complete bool) {
	names := append(n.partNames[:len(n.partNames):len(n.partNames)], n.name)
	list, complete := jsonpath.Trace(n.layers(), n.deep)
	for _, o := range list {
		origins = append(origins, Origin{o.Path, names[o.Doc]})
	}
	return origins, complete
}

// shardCount is a compromise: a change copies one shard of the nodes and this many pointers.
const shardCount = 256

// Snapshot is all documents at one moment. It never changes, and any number of goroutines may use
// it for as long as they like.
type Snapshot struct {
	seq    uint64
	rules  *rules
	shards [shardCount]map[string]*Node
	names  []string // known ones, sorted

	nameListOnce sync.Once
	nameList     []byte
	countOnce    sync.Once
	counted      Stats
}

func emptySnapshot() *Snapshot {
	none, _ := parseRules(nil)
	return &Snapshot{rules: none}
}

// Seq rises with each published change and goes on rising across restarts.
func (s *Snapshot) Seq() uint64 { return s.seq }

// Meta returns the _meta.json in force: the last valid one, nil if there is none.
func (s *Snapshot) Meta() *meta.Meta { return s.rules.meta }

// Find returns the node of name or, if name does not end in ".json", of name with ".json"; nil if
// there is none. It finds ghosts too, see Node.Known.
func (s *Snapshot) Find(name []byte) *Node {
	if n := s.shards[shardOf(name)][string(name)]; n != nil {
		return n
	}
	if len(name) > maxNameBytes || len(name) >= len(suffix) && string(name[len(name)-len(suffix):]) == suffix {
		return nil
	}
	var buf [maxNameBytes + len(suffix)]byte
	full := append(append(buf[:0], name...), suffix...)
	return s.shards[shardOf(full)][string(full)]
}

// Node returns the node of exactly this name, nil if there is none.
func (s *Snapshot) Node(name string) *Node { return s.shards[shardOf(name)][name] }

// SeqOf returns the Seq of name's node, and whether it is known; 0 if there is none.
func (s *Snapshot) SeqOf(name string) (seq uint64, known bool) {
	if n := s.Node(name); n != nil {
		return n.Seq(), n.Known()
	}
	return 0, false
}

// Names are the known names in byte order, tombstones included, ghosts not. The
// slice is shared and must not be changed.
func (s *Snapshot) Names() []string { return s.names }

// NameList is the finished list of names that CppCloud's GETCFGNAME answers:
// {"name":[flag,mtime],...}, compact, in byte order, flag 0 for tombstones. It is
// made at the first call, which takes about a millisecond per 10,000 names, and
// shared.
func (s *Snapshot) NameList() []byte {
	s.nameListOnce.Do(func() {
		s.nameList = s.AppendNames(make([]byte, 0, 2+32*len(s.names)), func(string) bool { return true })
	})
	return s.nameList
}

// AppendNames appends a list like NameList of the names that wanted selects.
func (s *Snapshot) AppendNames(dst []byte, wanted func(name string) bool) []byte {
	dst = append(dst, '{')
	first := len(dst)
	for _, name := range s.names {
		if !wanted(name) {
			continue
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = s.Node(name).appendListItem(dst)
	}
	return append(dst, '}')
}

func (n *Node) appendListItem(dst []byte) []byte {
	dst = jsontext.AppendQuote(dst, n.name)
	if n.Deleted() {
		dst = append(dst, ":[0,"...)
	} else {
		dst = append(dst, ":[1,"...)
	}
	dst = strconv.AppendInt(dst, int64(n.Mtime(false)), 10)
	return append(dst, ']')
}

// shardOf is FNV-1a. Names come from people who may write files, so an even spread is all that it
// has to provide.
func shardOf[T string | []byte](name T) uint8 {
	h := uint32(2166136261)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return uint8(h ^ h>>8 ^ h>>16 ^ h>>24)
}

// builder makes the next snapshot from one that others may be reading.
type builder struct {
	next  *Snapshot
	fresh [shardCount]bool // shards that are ours already
	added []string         // names that became known
}

func newBuilder(from *Snapshot) *builder {
	return &builder{next: &Snapshot{seq: from.seq, rules: from.rules, shards: from.shards, names: from.names}}
}

func (b *builder) shard(name string) map[string]*Node {
	i := shardOf(name)
	if !b.fresh[i] {
		b.fresh[i] = true
		if b.next.shards[i] == nil {
			b.next.shards[i] = make(map[string]*Node)
		} else {
			b.next.shards[i] = maps.Clone(b.next.shards[i])
		}
	}
	return b.next.shards[i]
}

func (b *builder) put(n *Node) {
	shard := b.shard(n.name)
	if old := shard[n.name]; n.Known() && (old == nil || !old.Known()) {
		b.added = append(b.added, n.name)
	}
	shard[n.name] = n
}

func (b *builder) remove(name string) { delete(b.shard(name), name) }

func (b *builder) finish() *Snapshot {
	if len(b.added) > 0 {
		names := append(slices.Clone(b.next.names), b.added...)
		slices.SortFunc(names, strings.Compare)
		b.next.names = names
	}
	return b.next
}
