package documents

import (
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

// appendPaths appends which paths changed. Documents that cannot be compared have changed as a
// whole.
func appendPaths(w *kvjson.Writer, e *kv.Event) {
	begin := len(w.Buf)
	w.Open(kvjson.Changes, '[')
	one := func(path string, _ jsonpath.Difference, old, new []byte) {
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
	c := jsonpath.Comparer{Tell: one}
	if err := c.Compare(e.Prev.Value.Data, e.Entry.Value.Data); err != nil {
		w.Buf = w.Buf[:begin]
		w.Open(kvjson.Changes, '[')
		one("", jsonpath.Changed, e.Prev.Value.Data, e.Entry.Value.Data)
	}
	w.Close(']')
}
