package jsonpath

import (
	"bytes"

	"confcenter/internal/jsontext"
)

// Merge lays documents over each other, the weakest first, and returns one new compact object that shares no memory with them.
// A member of a stronger document replaces the weaker one's as a whole, null included; with deep, two objects under the same
// key are merged in turn. Documents that are no objects are left out; of none, `{}` remains.
//
// A key keeps the place where the weakest document had it. Of duplicates within a document the first counts, and wherever
// objects were merged it is the only one left.
func Merge(docs [][]byte, deep bool) []byte {
	m := merger{deep: deep}
	var layers []layer
	size := len("{}")
	for _, doc := range docs {
		it := jsontext.Iterate(doc)
		if it.Container() != jsontext.Object {
			continue
		}
		l := layer{source: len(m.sources), it: it}
		m.sources = append(m.sources, source{})
		if deep {
			m.sources[l.source].spans = outline(doc)
		}
		layers = append(layers, l)
		size += len(doc)
	}
	merged := m.object(make([]byte, 0, size), layers, 1)
	if cap(merged)-len(merged) > len(merged)/4 {
		return bytes.Clone(merged)
	}
	return merged
}

// merger is what one Merge works with.
type merger struct {
	deep    bool
	sources []source
}

// source is what is known of one document.
type source struct {
	spans []span // of all containers in the order they open; only for deep merges
}

// span is one container. Deep merges visit the same text on each level that two documents share; because of the spans they need
// not look for the end of a container again on each.
type span struct {
	end  int // offset behind the container
	next int // number of the first container that opens behind it
}

// layer is an object that takes part in a merge.
type layer struct {
	source int
	number int // of its span
	it     jsontext.Iter
}

// entry is one key of the result.
type entry struct {
	key    []byte  // token of the weakest layer that has the key
	raw    []byte  // value of the strongest one
	top    int     // the strongest one
	layers []layer // the objects that make up the value, if it is an object and merged deep
}

// object appends the merger of the layers. Its recursion ends where nesting must.
func (m *merger) object(dst []byte, layers []layer, depth int) []byte {
	dst = append(dst, '{')
	for i, e := range m.collect(layers) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, e.key...), ':')
		if len(e.layers) > 1 && depth < jsontext.MaxDepth {
			dst = m.object(dst, e.layers, depth+1)
		} else {
			dst = jsontext.AppendCompact(dst, e.raw)
		}
	}
	return append(dst, '}')
}

// collect finds for each key which values count.
func (m *merger) collect(layers []layer) []entry {
	var entries []entry
	places := make(map[string]int)
	for position, l := range layers {
		number := l.number + 1
		for l.it.Next() {
			var child layer
			child, number = m.child(&l, number)
			key := l.it.Key()
			place, seen := places[string(key)]
			if !seen {
				place = len(entries)
				places[string(key)] = place
				entries = append(entries, entry{key: l.it.KeyToken(), top: position})
			} else if entries[place].top == position {
				continue
			}
			e := &entries[place]
			e.raw, e.top = l.it.Raw(), position
			if child.it.Container() == jsontext.Object {
				e.layers = append(e.layers, child)
			} else {
				e.layers = nil
			}
		}
	}
	return entries
}

// child returns the current value of l as a layer, which has no Container unless it can be merged, and the number of
// the next container. number is that of the value, if it is a container.
func (m *merger) child(l *layer, number int) (layer, int) {
	kind, spans := l.it.Kind(), m.sources[l.source].spans
	if !m.deep || kind < jsontext.Array || number >= len(spans) {
		return layer{}, number
	}
	here := spans[number]
	l.it.SetEnd(here.end)
	if kind == jsontext.Array {
		return layer{}, here.next
	}
	return layer{source: l.source, number: number, it: l.it.Enter()}, here.next
}

// outline notes where the containers of doc end.
func outline(doc []byte) []span {
	var spans []span
	var open []int
	for i := 0; i < len(doc); {
		switch doc[i] {
		case '"':
			i = jsontext.Skip(doc, i)
			continue
		case '{', '[':
			open = append(open, len(spans))
			spans = append(spans, span{end: len(doc)})
		case '}', ']':
			if len(open) == 0 {
				return spans
			}
			spans[open[len(open)-1]] = span{end: i + 1, next: len(spans)}
			open = open[:len(open)-1]
		}
		i++
	}
	return spans
}
