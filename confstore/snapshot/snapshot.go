// Package snapshot is the documents of a directory at one moment, and what edits make of them.
//
// A [Snapshot] never changes, and a [Node] is one document of it: node.go, with what it keeps within
// the memory for that in memory.go. A [Planner] works out the next snapshot and the versions in it
// (plan.go, version.go), and what that means to subscribers is a [Batch]. Nothing here reads a file or
// waits.
package snapshot

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"confcenter/access/secret"
	"confcenter/confstore/log"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// shardCount is a compromise: a change copies one shard of the nodes and this many pointers.
const shardCount = 256

// Snapshot is all documents at one moment. It never changes, and any number of goroutines may use
// it for as long as they like.
type Snapshot struct {
	seq    uint64
	rules  *Rules
	shards [shardCount]map[string]*Node
	names  []string // known ones, sorted

	nameListOnce sync.Once
	nameList     []byte
	countOnce    sync.Once
	counted      Counts
}

// What the names of documents are: they end in Suffix, and have at most MaxName bytes.
const (
	Suffix  = ".json"
	MaxName = 1024
)

// Empty is a snapshot without documents.
func Empty() *Snapshot {
	none, _ := ParseRules(nil)
	return &Snapshot{rules: none}
}

// Seq rises with each published change and goes on rising across restarts.
func (s *Snapshot) Seq() uint64 { return s.seq }

// Rules are those of the _meta.json in force.
func (s *Snapshot) Rules() *Rules { return s.rules }

// Meta returns the _meta.json in force: the last valid one, nil if there is none.
func (s *Snapshot) Meta() *meta.Meta { return s.rules.Meta }

// Find returns the node of name or, if name does not end in ".json", of name with ".json"; nil if
// there is none. It finds ghosts too, see Node.Known.
func (s *Snapshot) Find(name []byte) *Node {
	if n := s.shards[shardOf(name)][string(name)]; n != nil {
		return n
	}
	if len(name) > MaxName || len(name) >= len(Suffix) && string(name[len(name)-len(Suffix):]) == Suffix {
		return nil
	}
	var buf [MaxName + len(Suffix)]byte
	full := append(append(buf[:0], name...), Suffix...)
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

// Counts are how many documents a snapshot has.
type Counts struct {
	Files, Deleted int
	Bytes          int64 // contents of the files
}

// Count counts the documents, once.
func (s *Snapshot) Count() Counts {
	s.countOnce.Do(func() {
		for _, name := range s.names {
			if n := s.Node(name); n.Deleted() {
				s.counted.Deleted++
			} else {
				s.counted.Files++
				s.counted.Bytes += int64(n.Size())
			}
		}
	})
	return s.counted
}

// Recalled is what the log knows of a document, with its compact text; nil if it is
// deleted.
type Recalled struct {
	log.Document
	Text []byte
}

// Recall returns a snapshot of what the log knows, with which later edits are compared. Its
// nodes have the lists of bases they were served with.
func Recall(list []Recalled, seq uint64, l *Limits) *Snapshot {
	b := newBuilder(Empty())
	b.next.seq = seq
	docs := make(map[string]*document, len(list))
	for _, d := range list {
		doc := &document{served: d.Served, given: d.Given, seq: d.Seq, deleted: d.Deleted, text: d.Text, hash: d.Hash, sealed: secret.Has(d.Text)}
		doc.setRevision(d.Revision)
		if doc.deleted {
			doc.text = []byte("{}")
		}
		docs[d.Name] = doc
	}
	rulesSeq := uint64(0)
	if doc := docs[meta.FileName]; doc != nil {
		rulesSeq = doc.seq
		if rules, err := ParseRules(doc.text); err == nil && !doc.deleted {
			b.next.rules = rules
		}
	}
	of := func(name string) *document { return docs[name] }
	for _, d := range list {
		n := &Node{name: d.Name, limits: l, own: docs[d.Name], floor: d.Floor}
		if d.Floor != 0 || d.Bases != (log.Digest{}) {
			// The log does not know when, but it was not after the last change of _meta.json.
			n.listSeq = rulesSeq
		}
		n.inherit(b.next.rules)
		n.list = d.Bases
		n.resolve(nil, of)
		b.put(n)
	}
	for _, name := range b.next.rules.Meta.Names() {
		if docs[name] == nil {
			n := &Node{name: name, limits: l}
			n.inherit(b.next.rules)
			n.resolve(nil, of)
			b.put(n)
		}
	}
	return b.finish()
}
