package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/kvjson"
)

// The namespaces of documents in ConfigWatch.Filter and in events.
const (
	OwnConfig      = documents.Own
	ResolvedConfig = documents.Resolved
)

// ConfigWatch is CFWATCH's request.
type ConfigWatch = documents.Watch

// ConfigWatch reads CFWATCH's request. It is checked, and the name completed.
func (r *Request) ConfigWatch() (ConfigWatch, error) {
	var m reader
	m.begin(r)
	o := &m.Top
	q := ConfigWatch{
		Filter: kv.Filter{NS: OwnConfig, Text: string(m.Text(o, kvjson.Prefix)), Exact: o.Has(kvjson.Name)},
		Path:   string(m.Text(o, kvjson.Path)),
		From:   kv.Revision(m.Count(o, kvjson.From)), Past: o.Has(kvjson.From), State: m.Flag(o, kvjson.State),
		Prev: m.Flag(o, kvjson.Prev), Changes: m.Flag(o, kvjson.Changes), Reveal: m.Flag(o, kvjson.Reveal),
	}
	if m.Flag(o, kvjson.Resolved) {
		q.Filter.NS = ResolvedConfig
	}
	switch {
	case q.Filter.Exact && o.Has(kvjson.Prefix):
		m.Fail(documents.ErrNameAndPrefix)
	case q.Filter.Exact:
		q.Filter.Text = string(m.Text(o, kvjson.Name))
	}
	if err := m.End(); err != nil {
		return q, err
	}
	return q, q.Complete()
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
	w.Flag(kvjson.Reveal, q.Reveal)
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
			documents.AppendEvent(&w, &ev.Events[i], prev, changes)
			w.Close('}')
		}
		w.Close(']')
	}
	return w.End()
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
