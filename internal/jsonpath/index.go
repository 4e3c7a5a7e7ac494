package jsonpath

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
	"unsafe"

	"confcenter/internal/jsontext"
)

// Index answers look-ups in one document from a hash table, so that their cost does not depend on the document's size. It is immutable and
// may be used by any number of goroutines. It keeps the document alive.
type Index struct {
	doc      []byte
	root     ref
	slots    []slot   // all members of all objects, open addressing
	nodes    []node   // the arrays and objects, in the order they open
	elements []uint32 // for each array: the number of its elements, then a ref for each
}

// ref names a value: the offset of a scalar, or with the container bit the number of a node.
type ref uint32

const container = ref(1) << 31

// maxIndexed is the longest document whose offsets leave the container bit free. A longer one is not indexed but scanned.
const maxIndexed = 1<<31 - 1

// node is an array or object.
type node struct {
	start, end uint32
	elements   uint32 // where the array's elements begin, or noElements
}

const noElements = math.MaxUint32

// slot is one member. Its key stays in the document; the hash makes it unlikely that a wrong one is compared.
type slot struct {
	hash   uint32
	parent uint32 // node of the object
	key    uint32 // offset of the key's opening quote; 0 for a free slot, as no document begins with a key
	value  ref
}

// seed differs from process to process, so that no one can prepare a document whose keys collide.
var seed = maphash.MakeSeed()

func hash(parent uint32, key []byte) uint32 {
	return uint32((maphash.Bytes(seed, key) ^ uint64(parent)*0x9E3779B97F4A7C15) >> 32)
}

// NewIndex reads doc once and indexes every path in it. It takes some milliseconds per megabyte, so it does not belong on an event
// loop. The nesting of doc costs heap only, never stack.
func NewIndex(doc []byte) *Index {
	return newIndex(doc, maxIndexed)
}

func newIndex(doc []byte, limit int) *Index {
	if len(doc) > limit {
		return &Index{doc: doc}
	}
	// Every member has a colon and the two quotes of its key: this counts them well enough to reserve room.
	members := min(bytes.Count(doc, []byte{':'}), bytes.Count(doc, []byte{'"'})/2)
	b := builder{doc: doc, members: make([]slot, 0, members)}
	b.walk()
	x := &Index{
		doc:      doc,
		root:     b.root,
		nodes:    slices.Clone(b.nodes),
		elements: slices.Clone(b.elements),
	}
	x.fill(b.members)
	return x
}

// fill hashes the members. A third of the slots stays free, which keeps the runs that a look-up has to follow short.
func (x *Index) fill(members []slot) {
	if len(members) == 0 {
		return
	}
	x.slots = make([]slot, len(members)+len(members)/2+1)
	for _, m := range members {
		key := jsontext.Unquote(x.doc[m.key:jsontext.Skip(x.doc, int(m.key))])
		m.hash = hash(m.parent, key)
		if at, found := x.probe(m.hash, m.parent, key); !found {
			x.slots[at] = m
		}
	}
}

// probe returns the slot of the member, or the free slot where it would have to be.
func (x *Index) probe(h, parent uint32, key []byte) (at int, found bool) {
	at = int(uint64(h) * uint64(len(x.slots)) >> 32)
	for {
		s := &x.slots[at]
		if s.key == 0 {
			return at, false
		}
		if s.hash == h && s.parent == parent && x.keyIs(int(s.key), key) {
			return at, true
		}
		if at++; at == len(x.slots) {
			at = 0
		}
	}
}

// keyIs compares the key token at offset with the decoded key.
func (x *Index) keyIs(offset int, key []byte) bool {
	begin, end := offset+1, offset+1+len(key)
	if end < len(x.doc) && x.doc[end] == '"' && bytes.Equal(x.doc[begin:end], key) && bytes.IndexByte(key, '\\') < 0 {
		return true
	}
	return jsontext.UnquotedEqual(x.doc[offset:jsontext.Skip(x.doc, offset)], key)
}

// Lookup finds what the function Lookup finds in the indexed document, by the same rules, and allocates nothing. The value
// aliases the document.
func (x *Index) Lookup(pattern []byte) (value []byte, ok bool) {
	if x.root == 0 {
		return Lookup(x.doc, pattern)
	}
	token, rest := nextToken(pattern)
	if token == nil {
		return x.doc, true
	}
	at := x.root
	for ; token != nil; token, rest = nextToken(rest) {
		if at, ok = x.child(at, token); !ok {
			return nil, false
		}
	}
	return x.text(at), true
}

func (x *Index) child(at ref, token []byte) (ref, bool) {
	if at&container == 0 {
		return 0, false
	}
	number := uint32(at &^ container)
	first := x.nodes[number].elements
	if first != noElements {
		n, ok := element(token)
		if !ok || n >= int(x.elements[first]) {
			return 0, false
		}
		return ref(x.elements[int(first)+1+n]), true
	}
	if len(x.slots) == 0 {
		return 0, false
	}
	slot, found := x.probe(hash(number, token), number, token)
	return x.slots[slot].value, found
}

func (x *Index) text(at ref) []byte {
	start, end := int(at), 0
	if at&container != 0 {
		n := x.nodes[at&^container]
		start, end = int(n.start), int(n.end)
	} else {
		end = jsontext.Skip(x.doc, start)
	}
	return x.doc[start:end:end]
}

// Size returns how many bytes of memory the index takes, without the document: 24 a member, 12 an array or object and 4 an element, so at
// most some ten times the document and usually less than it.
func (x *Index) Size() int {
	return int(unsafe.Sizeof(*x)) +
		cap(x.slots)*int(unsafe.Sizeof(slot{})) +
		cap(x.nodes)*int(unsafe.Sizeof(node{})) +
		cap(x.elements)*int(unsafe.Sizeof(uint32(0)))
}
