package confstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"confcenter/internal/jsontext"
	"confcenter/meta"
)

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
