package snapshot

import (
	"slices"
	"sync/atomic"

	"confcenter/confstore/log"
	"confcenter/internal/jsonpath"
	"confcenter/kv"
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
	limits    *Limits
	answers   answers
}

// Name is the path relative to the directory, ".json" included.
func (n *Node) Name() string { return n.name }

// Known reports whether the name is, or was, a document. It is false for a ghost: a
// name without a file that inherits from others by _meta.json. It is false for nil.
func (n *Node) Known() bool { return n != nil && n.own != nil }

// Live reports whether there is a document. It is false for nil.
func (n *Node) Live() bool { return n.Known() && !n.own.deleted }

// Text is the own compact text of a document; nil, also for nil, if there is none. It is shared.
func (n *Node) Text() []byte {
	if !n.Live() {
		return nil
	}
	return n.own.text
}

// Hash is the digest of the file that the document is served from; zero, also for nil, if there is
// none.
func (n *Node) Hash() log.Digest {
	if !n.Known() {
		return log.Digest{}
	}
	return n.own.hash
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

// Whole returns the text, own or with the bases merged in, however long that takes; nil: there is nothing.
// mtime and rev are the greatest of the documents that it is made of.
func (n *Node) Whole(inherit bool) (text []byte, mtime int32, rev kv.Revision) {
	if n.own != nil {
		text, mtime, rev = n.Text(), n.own.served, n.own.revision()
	}
	if !inherit {
		return text, mtime, rev
	}
	for _, part := range n.parts {
		mtime, rev = max(mtime, part.served), max(rev, part.revision())
	}
	if len(n.parts) == 0 && !n.Live() {
		return text, mtime, rev // it inherits nothing that there is
	}
	for ready := false; !ready; {
		if text, ready = n.Contents(true); !ready {
			n.merge()
		}
	}
	return text, mtime, rev
}

// MergedSize is at most what the text takes with the bases merged in; 0, also for nil, if it has none.
func (n *Node) MergedSize() int {
	if n == nil || !n.inherits() {
		return 0
	}
	return n.mergeSize()
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

// inherit sets the node's bases from r.
func (n *Node) inherit(r *Rules) {
	n.bases, n.listed = r.Meta.Bases(n.name)
	n.list, n.deep = r.ListDigest(n.name), r.Meta.Deep(n.name)
}

// resolve sets the documents of the bases; doc returns nil for an unknown one. prev may be nil.
func (n *Node) resolve(prev *Node, doc func(base string) *document) {
	n.resolved = n.floor
	if n.own != nil {
		n.resolved = max(n.resolved, n.own.served)
	}
	for _, base := range n.bases {
		if d := doc(base); d != nil {
			n.parts, n.partNames = append(n.parts, d), append(n.partNames, base)
			n.resolved = max(n.resolved, d.served)
		}
	}
	if len(n.bases) > 0 || n.listed && n.own == nil {
		n.merged = new(form)
		if prev != nil && prev.merged != nil && prev.own == n.own && prev.deep == n.deep && slices.Equal(prev.parts, n.parts) {
			n.merged = prev.merged
		}
	}
}

// Sealed reports whether the document, or one that it inherits from, has values that are sealed.
// It is cheap.
func (n *Node) Sealed(inherit bool) bool {
	if n.own != nil && n.own.sealed {
		return true
	}
	if inherit {
		for _, part := range n.parts {
			if part.sealed {
				return true
			}
		}
	}
	return false
}

// WithBroken returns a snapshot in which a node, which there is, has another Broken text. It is what is
// served from then on.
func (s *Snapshot) WithBroken(n *Node, fault string) *Snapshot {
	b := newBuilder(s)
	b.put(&Node{
		name: n.name, own: n.own, broken: fault, listed: n.listed, bases: n.bases, parts: n.parts, partNames: n.partNames, deep: n.deep,
		list: n.list, floor: n.floor, resolved: n.resolved, listSeq: n.listSeq, merged: n.merged, limits: n.limits,
	})
	n.retireAnswers()
	return b.finish()
}

// Remembered is the state of the document, which is Known, for the log; file is the file's bytes.
func (n *Node) Remembered(file []byte) log.Version {
	v := log.Version{Name: n.name, Served: n.own.served, Given: n.own.given, Deleted: n.own.deleted}
	if !n.own.deleted {
		v.File = file
	}
	return v
}

// List is the node's list of bases for the log; false: it never had one.
func (n *Node) List() (list log.List, listed bool) {
	return log.List{Name: n.name, Floor: n.floor, Digest: n.list}, n.floor != 0 || n.list != log.Digest{}
}

// Recorded notes the revision under which the document, which is Known, has come into the log.
func (n *Node) Recorded(rev kv.Revision) { n.own.setRevision(rev) }
