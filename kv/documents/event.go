package documents

import (
	"errors"

	"confcenter/internal/jsonpath"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// AppendEvent appends the members of one event. prev adds the contents before, changes replaces both by the paths that changed.
func AppendEvent(w *kvjson.Writer, e *kv.Event, prev, changes bool) {
	w.Text(kvjson.Op, e.Kind.String())
	w.Text(kvjson.Name, e.Entry.Key)
	w.Number(kvjson.Mod, int64(e.Entry.Mod))
	w.Number(kvjson.Mtime, e.Entry.Updated/1000)
	if changes && e.Prev != nil && e.Kind == kv.Put {
		appendPaths(w, e)
		return
	}
	if e.Kind == kv.Put {
		w.Verbatim(kvjson.Contents, e.Entry.Value.Data)
	}
	if prev && e.Prev != nil {
		w.Verbatim(kvjson.Prev, e.Prev.Value.Data)
	}
}

// Limits of saying which paths changed. What is beyond them has changed as a whole.
const (
	maxPaths   = 1 << 20  // bytes that the list takes beyond both contents
	maxMembers = 16 << 20 // bytes that the members take that are compared at a time
)

var errMembers = errors.New("too many members")

// appendPaths appends which paths changed. Documents that cannot be compared have changed as a
// whole, and so have those where the paths are much longer: each has all the keys above it.
func appendPaths(w *kvjson.Writer, e *kv.Event) {
	before, after := e.Prev.Value.Data, e.Entry.Value.Data
	begin := len(w.Buf)
	end := begin + len(before) + len(after) + maxPaths
	one := func(path string, _ jsonpath.Difference, old, new []byte) {
		if len(w.Buf) > end {
			return
		}
		w.Element()
		w.Text(kvjson.Path, path)
		if old != nil {
			w.Verbatim(kvjson.Old, old)
		}
		if new != nil {
			w.Verbatim(kvjson.New, new)
		}
		w.Close('}')
	}
	members := 0
	c := jsonpath.Comparer{Tell: one, Returns: func(bytes int) { members -= bytes }, Take: func(bytes int) error {
		if members += bytes; members > maxMembers {
			return errMembers
		}
		return nil
	}}
	w.Open(kvjson.Changes, '[')
	if err := c.Compare(before, after); err != nil || len(w.Buf) > end {
		w.Buf = w.Buf[:begin]
		w.Open(kvjson.Changes, '[')
		one("", jsonpath.Changed, before, after)
	}
	w.Close(']')
}
