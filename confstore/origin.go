package confstore

import (
	"strings"

	"confcenter/internal/jsontext"
)

// Limits of Node.Origins: in text that is both long and deeply nested the paths grow without
// bounds.
const (
	maxOrigins      = 50_000
	maxOriginsBytes = 4 << 20
	maxOriginsRead  = 256 << 20 // a level's text is read again for each level below it
)

// Origin says which document a part of a resolved document comes from.
type Origin struct {
	Path string // JSON pointer (RFC 6901)
	Name string // of the document
}

// Origins returns the document of origin of each top-level member of the resolved document, and of
// each member below that is not an object itself, in the order of the text. A top-level member to
// which several documents contribute counts as the strongest one's. complete is false if there are
// too many to list. It may take milliseconds for large documents.
func (n *Node) Origins() (origins []Origin, complete bool) {
	var layers []layer
	for i, part := range n.parts {
		layers = append(layers, layer{n.partNames[i], part.text})
	}
	if n.own != nil {
		layers = append(layers, layer{n.name, n.own.text})
	}
	t := tracer{deep: n.deep, complete: true}
	t.object("", layers)
	return t.origins, t.complete
}

// layer is the part of one document that lies at some path.
type layer struct {
	name string
	text []byte
}

type tracer struct {
	deep     bool
	complete bool
	origins  []Origin
	bytes    int
	read     int
}

// object traces the members of the result of merging the layers, weakest first, in the same way as
// jsonpath.Merge: a key keeps the place it has in the weakest, the first of duplicate keys counts,
// and layers that are not objects are left out.
func (t *tracer) object(path string, layers []layer) {
	values := map[string][]layer{}
	var order []string
	for _, l := range layers {
		if t.read += len(l.text); t.read > maxOriginsRead {
			t.complete = false
			return
		}
		seen := map[string]bool{}
		jsontext.EachMember(l.text, func(key, raw []byte, kind jsontext.Kind) bool {
			name := string(key)
			if seen[name] {
				return true
			}
			seen[name] = true
			below, known := values[name]
			if !known {
				order = append(order, name)
			}
			if !t.deep || kind != jsontext.Object || len(below) > 0 && jsontext.KindOf(below[0].text) != jsontext.Object {
				below = nil // replaced as a whole
			}
			values[name] = append(below, layer{l.name, raw})
			return true
		})
	}
	for _, name := range order {
		if !t.complete {
			return
		}
		below := values[name]
		strongest := below[len(below)-1]
		at := path + "/" + escapePointer(name)
		object := jsontext.KindOf(strongest.text) == jsontext.Object
		if path == "" || !object {
			t.add(at, strongest.name)
		}
		if object {
			t.object(at, below)
		}
	}
}

func (t *tracer) add(path, name string) {
	t.bytes += len(path) + len(name)
	if len(t.origins) == maxOrigins || t.bytes > maxOriginsBytes {
		t.complete = false
		return
	}
	t.origins = append(t.origins, Origin{path, name})
}

// escapePointer writes a key as a part of a JSON pointer.
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1").Replace
