package protocol

import (
	"bytes"
	"strconv"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVWatchRequest is KVWATCH's request.
type KVWatchRequest struct {
	// Filter is one key, a prefix, a namespace or everything.
	Filter kv.Filter
	// From asks for the changes after that revision. 0 without Past means from now on.
	From kv.Revision
	// Past makes From apply even if it is 0: a watch of an empty store has no other
	// revision to continue from.
	Past bool
	// State asks for the current state first, then a marker, then the changes.
	State bool
	// Prev asks for the previous entries.
	Prev bool
	// Coalesce lets a watch that falls behind skip all but the newest value of each key.
	Coalesce bool
	// Raw lets values of type bytes follow the JSON.
	Raw bool
	// Reveal asks for sealed values as far as the client may know them, not their marks.
	Reveal bool
}

// KVWatch reads KVWATCH's request. The filter is checked.
func (r *Request) KVWatch() (KVWatchRequest, error) {
	var m reader
	m.begin(r)
	o := &m.Top
	q := KVWatchRequest{
		From: kv.Revision(m.Count(o, kvjson.From)), Past: o.Has(kvjson.From), State: m.Flag(o, kvjson.State), Prev: m.Flag(o, kvjson.Prev),
		Coalesce: m.Flag(o, kvjson.Coalesce), Raw: m.Flag(o, kvjson.Raw), Reveal: m.Flag(o, kvjson.Reveal),
	}
	q.Filter = kv.Filter{NS: string(m.Text(o, kvjson.NS)), Exact: o.Has(kvjson.Key)}
	switch {
	case q.Filter.Exact && o.Has(kvjson.Prefix):
		m.Fail(codes.Errorf(codes.BadRequest, "key and prefix exclude each other"))
	case q.Past && q.State:
		m.Fail(codes.Errorf(codes.BadRequest, "from and state exclude each other"))
	case q.Filter.Exact:
		q.Filter.Text = string(m.Text(o, kvjson.Key))
	default:
		q.Filter.Text = string(m.Text(o, kvjson.Prefix))
	}
	if err := m.End(); err != nil {
		return q, err
	}
	return q, q.Filter.Check()
}

// AppendKVWatch appends KVWATCH's request.
func AppendKVWatch(dst []byte, q KVWatchRequest) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.TextGiven(kvjson.NS, q.Filter.NS)
	switch {
	case q.Filter.Exact:
		w.Text(kvjson.Key, q.Filter.Text)
	case q.Filter.Text != "":
		w.Text(kvjson.Prefix, q.Filter.Text)
	}
	if q.Past || q.From > 0 {
		w.Number(kvjson.From, int64(q.From))
	}
	w.Flag(kvjson.State, q.State)
	w.Flag(kvjson.Prev, q.Prev)
	w.Flag(kvjson.Coalesce, q.Coalesce)
	w.Flag(kvjson.Raw, q.Raw)
	w.Flag(kvjson.Reveal, q.Reveal)
	return w.End()
}

// AppendKVWatching appends KVWATCH's reply: the watch's number, and the revision after
// which its events begin.
func AppendKVWatching(dst []byte, rev kv.Revision, watch uint32) []byte {
	return append(appendNumber(kvStart(dst, rev), "watch", int64(watch)), '}')
}

// ParseKVWatching reads KVWATCH's reply. A refusal is a *RefusedError.
func ParseKVWatching(body []byte) (rev kv.Revision, watch uint32, err error) {
	rev, err = parseReply(body, func(m *reader) kv.Revision {
		rev := m.revision()
		watch = m.watch()
		return rev
	})
	return rev, watch, err
}

// watch reads a watch's number.
func (m *reader) watch() uint32 {
	n := m.Number(&m.Top, kvjson.Watch)
	if n < 1 || n > maxWatch {
		m.Bad(kvjson.Watch, "the number of a watch")
		return 0
	}
	return uint32(n)
}

// KVUnwatch reads KVUNWATCH's request.
func (r *Request) KVUnwatch() (watch uint32, err error) {
	var m reader
	m.begin(r)
	watch = m.watch()
	return watch, m.End()
}

// AppendKVUnwatch appends KVUNWATCH's request.
func AppendKVUnwatch(dst []byte, watch uint32) []byte {
	return append(appendNumber(append(dst, '{'), "watch", int64(watch)), '}')
}

// KVEvents is the KVEVENT that a server pushes: the next events of a watch.
type KVEvents struct {
	Watch uint32 // from 1
	// Revision is the newest revision in this message; with State or Synced, that of the
	// state.
	Revision kv.Revision
	// Events are whole revisions, in order; with More, the last one continues in the next
	// message. With State they are puts of the current entries.
	Events []kv.Event
	State  bool // a part of the state
	Synced bool // the state is complete
	Resync bool // discard everything: the state follows
	More   bool
}

// maxWatch is the greatest number that fits the field of fixed width.
const maxWatch = 1<<32 - 1

// A KVEVENT begins with the watch's number in a field of fixed width, so that one
// body, once made, can be numbered for each of many watchers.
const (
	watchStart = `{"watch":`
	watchWidth = 10
)

// SetKVWatch overwrites the watch's number in the frame of a KVEVENT that starts at
// frame[0].
func SetKVWatch(frame []byte, watch uint32) { setWatch(frame[HeaderSize:], watch) }

func setWatch(body []byte, watch uint32) {
	at := body[len(watchStart):][:watchWidth]
	for i := watchWidth - 1; i >= 0; i-- {
		at[i] = ' '
		if watch > 0 || i == watchWidth-1 {
			at[i] = byte('0' + watch%10)
		}
		watch /= 10
	}
}

// KVEventStart is how many bytes of a KVEVENT's body are enough for KVEventWatch.
const KVEventStart = len(watchStart) + watchWidth

// KVEventWatch returns the watch's number from the start of a KVEVENT's body, so that
// no one has to read the events of a watch that has ended.
func KVEventWatch(start []byte) (watch uint32, err error) {
	digits, ok := bytes.CutPrefix(start, []byte(watchStart))
	if ok && len(digits) >= watchWidth {
		n, err := strconv.ParseUint(string(bytes.TrimLeft(digits[:watchWidth], " ")), 10, 32)
		if err == nil && n > 0 {
			return uint32(n), nil
		}
	}
	return 0, codes.Errorf(codes.BadRequest, "%.30q does not begin with the number of a watch", start)
}

// AppendKVEvents appends KVEVENT's body. Every event names its namespace. prev adds the
// previous entries, if any.
func AppendKVEvents(dst []byte, ev KVEvents, prev, raw bool) []byte {
	start := len(dst)
	w := kvjson.Writer{Buf: append(dst, watchStart+"          "...), Octets: raw}
	setWatch(w.Buf[start:], ev.Watch)
	w.Number(kvjson.Rev, int64(ev.Revision))
	w.Flag(kvjson.State, ev.State)
	w.Flag(kvjson.Synced, ev.Synced)
	w.Flag(kvjson.Resync, ev.Resync)
	w.Flag(kvjson.More, ev.More)
	if len(ev.Events) > 0 {
		w.Open(kvjson.Events, '[')
		for i := range ev.Events {
			w.Event(&ev.Events[i], prev)
		}
		w.Close(']')
	}
	return w.End()
}

// ParseKVEvents reads KVEVENT's body. The events share nothing with it.
func ParseKVEvents(body []byte) (KVEvents, error) {
	var r Request
	if err := r.ParseTailed(body); err != nil {
		return KVEvents{}, err
	}
	var m reader
	m.begin(&r)
	return m.events(m.Event)
}

// events reads the body of KVEVENT or CFEVENT; one reads an event.
func (m *reader) events(one func(*kvjson.Object) kv.Event) (KVEvents, error) {
	o := &m.Top
	ev := KVEvents{
		Watch: m.watch(), Revision: m.revision(),
		State: m.Flag(o, kvjson.State), Synced: m.Flag(o, kvjson.Synced), Resync: m.Flag(o, kvjson.Resync), More: m.Flag(o, kvjson.More),
	}
	var event kvjson.Object
	for list := m.Elements(o, kvjson.Events, 0); m.Next(&list, &event); {
		ev.Events = append(ev.Events, one(&event))
	}
	return ev, m.End()
}
