package protocol

import (
	"confcenter/codes"
	"confcenter/internal/jsonpath"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// The namespaces of documents in ConfigWatch.Filter and in events.
const (
	OwnConfig      = "own"      // documents as they are in their files
	ResolvedConfig = "resolved" // with what they inherit
)

// ConfigWatch is CFWATCH's request.
type ConfigWatch struct {
	// Filter is one document or all whose names begin with a prefix, own or resolved.
	Filter kv.Filter
	// Path is the key path of a part; empty: the whole document.
	Path string
	// From asks for the changes after that revision. 0 without Past means from now on.
	From kv.Revision
	Past bool // From applies even if it is 0
	// State asks for the current contents first.
	State bool
	// Prev asks for the contents before each change.
	Prev bool
	// Changes asks for the paths that changed instead of the contents.
	Changes bool
}

// MaxConfigPath is the longest path of a ConfigWatch, in bytes.
const MaxConfigPath = 4096

// ConfigWatch reads CFWATCH's request. The filter is checked.
func (r *Request) ConfigWatch() (ConfigWatch, error) {
	var m reader
	m.begin(r)
	o := &m.Top
	q := ConfigWatch{
		Filter: kv.Filter{NS: OwnConfig, Text: string(m.Text(o, kvjson.Prefix)), Exact: o.Has(kvjson.Name)},
		Path:   string(m.Text(o, kvjson.Path)),
		From:   kv.Revision(m.Count(o, kvjson.From)), Past: o.Has(kvjson.From), State: m.Flag(o, kvjson.State),
		Prev: m.Flag(o, kvjson.Prev), Changes: m.Flag(o, kvjson.Changes),
	}
	if m.Flag(o, kvjson.Resolved) {
		q.Filter.NS = ResolvedConfig
	}
	switch {
	case q.Filter.Exact && o.Has(kvjson.Prefix):
		m.Fail(codes.Errorf(codes.BadRequest, "name and prefix exclude each other"))
	case q.Past && q.State:
		m.Fail(codes.Errorf(codes.BadRequest, "from and state exclude each other"))
	case len(q.Path) > MaxConfigPath:
		m.Fail(codes.Errorf(codes.TooLarge, "a path has at most %d bytes", MaxConfigPath))
	case q.Filter.Exact:
		q.Filter.Text = string(m.Text(o, kvjson.Name))
	}
	if err := m.End(); err != nil {
		return q, err
	}
	return q, q.Filter.Check()
}

// AppendConfigWatch appends CFWATCH's request.
func AppendConfigWatch(dst []byte, q ConfigWatch) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	if q.Filter.Exact {
		w.Text(kvjson.Name, q.Filter.Text)
	} else {
		w.TextGiven(kvjson.Prefix, q.Filter.Text)
	}
	w.Flag(kvjson.Resolved, q.Filter.NS == ResolvedConfig)
	w.TextGiven(kvjson.Path, q.Path)
	if q.Past || q.From > 0 {
		w.Number(kvjson.From, int64(q.From))
	}
	w.Flag(kvjson.State, q.State)
	w.Flag(kvjson.Prev, q.Prev)
	w.Flag(kvjson.Changes, q.Changes)
	return w.End()
}

// AppendConfigEvents appends CFEVENT's body: the events of one revision or, with State, a part of
// the contents at one. prev adds the contents before, changes replaces both by the paths that
// changed. A frame without anything is a bookmark: it says how far the watch has come.
func AppendConfigEvents(dst []byte, ev KVEvents, prev, changes bool) []byte {
	start := len(dst)
	w := kvjson.Writer{Buf: append(dst, watchStart+"          "...)}
	setWatch(w.Buf[start:], ev.Watch)
	w.Number(kvjson.Rev, int64(ev.Revision))
	w.Flag(kvjson.State, ev.State)
	w.Flag(kvjson.Synced, ev.Synced)
	if ev.Resync {
		w.Flag(kvjson.Resync, true)
		w.Number(kvjson.Code, int64(codes.Compacted))
		w.Text(kvjson.Desc, "what has changed since is no longer kept: forget what this watch has told; the contents follow")
	}
	w.Flag(kvjson.More, ev.More)
	if len(ev.Events) > 0 {
		w.Open(kvjson.Events, '[')
		for i := range ev.Events {
			w.Element()
			AppendConfigEvent(&w, &ev.Events[i], prev, changes)
			w.Close('}')
		}
		w.Close(']')
	}
	return w.End()
}

// AppendConfigEvent appends the members of one event.
func AppendConfigEvent(w *kvjson.Writer, e *kv.Event, prev, changes bool) {
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

// ParseConfigEvents reads CFEVENT's body, unless it was asked for paths. The events share nothing
// with it; entries have no namespace.
func ParseConfigEvents(body []byte) (KVEvents, error) {
	var r Request
	if err := r.Parse(body); err != nil {
		return KVEvents{}, err
	}
	var m reader
	m.begin(&r)
	return m.events(m.configEvent)
}

func (m *reader) configEvent(o *kvjson.Object) kv.Event {
	mtime := m.Number(o, kvjson.Mtime)
	if mtime != int64(int32(mtime)) {
		m.Bad(kvjson.Mtime, "an integer of 32 bits")
	}
	e := kv.Event{Kind: kv.Put, Entry: &kv.Entry{Key: string(m.Text(o, kvjson.Name)), Mod: kv.Revision(m.Number(o, kvjson.Mod)), Updated: mtime * 1000}}
	e.Entry.Create = e.Entry.Mod
	if e.Entry.Key == "" || e.Entry.Mod < 1 {
		m.Missing(kvjson.Name)
	}
	text, given := o.Verbatim(kvjson.Contents)
	switch string(m.Text(o, kvjson.Op)) {
	case kv.Put.String():
		if !given {
			m.Missing(kvjson.Contents)
		}
		e.Entry.Value, e.Entry.Version = kv.JSONValue(text), 1
	case kv.Delete.String():
		e.Kind = kv.Delete
	default:
		m.Bad(kvjson.Op, "put or delete")
	}
	if text, given := o.Verbatim(kvjson.Prev); given {
		e.Prev = &kv.Entry{Key: e.Entry.Key, Version: 1, Value: kv.JSONValue(text)}
	}
	return e
}
