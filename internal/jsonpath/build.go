package jsonpath

import "confcenter/internal/jsontext"

// builder walks a document front to back and notes where everything is. It keeps the open containers in a slice instead of
// recursing.
type builder struct {
	doc      []byte
	root     ref
	nodes    []node
	elements []uint32
	members  []slot
	open     []frame
	waiting  []uint32 // elements of the open arrays; an array's move to elements together when it closes
}

// frame is an open container.
type frame struct {
	node    uint32
	waiting int // where this array's elements begin in waiting
	object  bool
}

// walk reads the one value that doc consists of. A scalar needs no index: root stays 0 then.
func (b *builder) walk() {
	for i := 0; i < len(b.doc); {
		switch c := b.doc[i]; c {
		case ' ', '\t', '\r', '\n', ',':
			i++
			continue
		case '}', ']':
			if i++; b.close(i) {
				return
			}
			continue
		}
		key := 0
		if len(b.open) > 0 && b.open[len(b.open)-1].object {
			key = i
			i = b.valueAt(jsontext.Skip(b.doc, i))
		}
		i = b.value(key, i)
		if len(b.open) == 0 {
			return
		}
	}
}

// valueAt returns where the value behind the key begins that ends at i.
func (b *builder) valueAt(i int) int {
	for i < len(b.doc) {
		switch b.doc[i] {
		case ' ', '\t', '\r', '\n', ':':
			i++
			continue
		}
		break
	}
	return i
}

// value notes the value at i: a scalar as a whole, a container as open. It returns where to go on.
func (b *builder) value(key, i int) int {
	if i >= len(b.doc) {
		return i
	}
	kind := jsontext.KindOf(b.doc[i:])
	if kind < jsontext.Array {
		if len(b.open) > 0 {
			b.put(key, ref(i))
		}
		return max(jsontext.Skip(b.doc, i), i+1)
	}
	number := uint32(len(b.nodes))
	b.nodes = append(b.nodes, node{start: uint32(i), end: uint32(len(b.doc)), elements: noElements})
	b.put(key, ref(number)|container)
	b.open = append(b.open, frame{node: number, waiting: len(b.waiting), object: kind == jsontext.Object})
	return i + 1
}

// put notes a value as a child of the innermost open container.
func (b *builder) put(key int, value ref) {
	if len(b.open) == 0 {
		b.root = value
		return
	}
	parent := b.open[len(b.open)-1]
	if parent.object {
		b.members = append(b.members, slot{parent: parent.node, key: uint32(key), value: value})
	} else {
		b.waiting = append(b.waiting, uint32(value))
	}
}

// close ends the innermost container at end and reports whether it was the document.
func (b *builder) close(end int) bool {
	if len(b.open) == 0 {
		return true
	}
	top := b.open[len(b.open)-1]
	b.open = b.open[:len(b.open)-1]
	n := &b.nodes[top.node]
	n.end = uint32(end)
	if !top.object {
		n.elements = uint32(len(b.elements))
		b.elements = append(b.elements, uint32(len(b.waiting)-top.waiting))
		b.elements = append(b.elements, b.waiting[top.waiting:]...)
		b.waiting = b.waiting[:top.waiting]
	}
	return len(b.open) == 0
}
