package jsonpath

import (
	"strings"

	"confcenter/internal/jsontext"
)

// Limits of Trace: in text that is both long and deeply nested the paths grow without bounds.
const (
	maxOrigins      = 50_000
	maxOriginsBytes = 4 << 20
	maxOriginsRead  = 256 << 20 // a level's text is read again for each level below it
)

// Origin says which of the documents a part of what Merge makes of them comes from.
type Origin struct {
	Path string // JSON pointer (RFC 6901)
	Doc  int
}

// Trace returns the document of origin of each top-level member of what Merge would return, and of
// each member below that is not an object itself, in the order of the text. A top-level member to
// which several documents contribute counts as the strongest one's. complete is false if there are
// too many to list. It may take milliseconds for large documents.
func Trace(docs [][]byte, deep bool) (origins []Origin, complete bool) {
	t := tracer{deep: deep, complete: true}
	parts := make([]part, len(docs))
	for i, doc := range docs {
		parts[i] = part{i, doc}
	}
	t.object("", parts)
	return t.origins, t.complete
}

// part is what one document has at some path.
type part struct {
	doc  int
	text []byte
}

type tracer struct {
	deep     bool
	complete bool
	origins  []Origin
	bytes    int
	read     int
}

// object traces the members of the result of merging the parts, weakest first, in the same way as
// Merge: a key keeps the place it has in the weakest, the first of duplicate keys counts,
// and parts that are not objects are left out.
func (t *tracer) object(path string, parts []part) {
	values := map[string][]part{}
	var order []string
	for _, l := range parts {
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
			values[name] = append(below, part{l.doc, raw})
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
			t.add(at, strongest.doc)
		}
		if object {
			t.object(at, below)
		}
	}
}

func (t *tracer) add(path string, doc int) {
	t.bytes += len(path)
	if len(t.origins) == maxOrigins || t.bytes > maxOriginsBytes {
		t.complete = false
		return
	}
	t.origins = append(t.origins, Origin{path, doc})
}

// escapePointer writes a key as a part of a JSON pointer.
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1").Replace
