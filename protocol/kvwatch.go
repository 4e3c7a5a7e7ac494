package protocol

import (
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// KVWatchRequest is KVWATCH's request.
type KVWatchRequest struct {
	// Filter is one key, a prefix, a namespace or everything.
	Filter kv.Filter
	// From wants what happened after that revision. 0 needs Past: without, it is
	// what happens from now on.
	From kv.Revision
	// Past says that From is meant, also if it is 0: a watch of an empty store has
	// no other revision to go on from.
	Past bool
	// State wants the current state first, then a marker, then what happens.
	State bool
	// Prev wants the entries before.
	Prev bool
	// Coalesce allows a watcher that falls behind to be told only the newest value
	// of each key.
	Coalesce bool
	// Raw lets values of type bytes follow the JSON.
	Raw bool
}

// KVWatch reads KVWATCH's request. The filter is checked.
func (r *Request) KVWatch() (KVWatchRequest, error) {
	var m message
	m.begin(r)
	o := &m.top
	q := KVWatchRequest{
		From: kv.Revision(m.count(o, fieldFrom)), Past: o.has(fieldFrom), State: o.flag(fieldState), Prev: o.flag(fieldPrev),
		Coalesce: o.flag(fieldCoalesce), Raw: o.flag(fieldRaw),
	}
	q.Filter = kv.Filter{NS: string(m.text(o, fieldNS)), Exact: o.has(fieldKey)}
	switch {
	case q.Filter.Exact && o.has(fieldPrefix):
		m.fail(codes.Errorf(codes.BadRequest, "key and prefix exclude each other"))
	case q.Past && q.State:
		m.fail(codes.Errorf(codes.BadRequest, "from and state exclude each other"))
	case q.Filter.Exact:
		q.Filter.Text = string(m.text(o, fieldKey))
	default:
		q.Filter.Text = string(m.text(o, fieldPrefix))
	}
	if err := m.end(); err != nil {
		return q, err
	}
	return q, q.Filter.Check()
}

// AppendKVWatch appends KVWATCH's request.
func AppendKVWatch(dst []byte, q KVWatchRequest) []byte {
	b := builder{dst: append(dst, '{')}
	if q.Filter.NS != "" {
		b.text(fieldNS, q.Filter.NS)
	}
	switch {
	case q.Filter.Exact:
		b.text(fieldKey, q.Filter.Text)
	case q.Filter.Text != "":
		b.text(fieldPrefix, q.Filter.Text)
	}
	if q.Past || q.From > 0 {
		b.number(fieldFrom, int64(q.From))
	}
	b.flag(fieldState, q.State)
	b.flag(fieldPrev, q.Prev)
	b.flag(fieldCoalesce, q.Coalesce)
	b.flag(fieldRaw, q.Raw)
	return b.end()
}

// AppendKVWatching appends KVWATCH's reply: the watch's number, and the revision
// after which events follow.
func AppendKVWatching(dst []byte, rev kv.Revision, watch uint32) []byte {
	return append(appendNumber(kvStart(dst, rev), "watch", int64(watch)), '}')
}

// ParseKVWatching reads KVWATCH's reply. A refusal is a *RefusedError.
func ParseKVWatching(body []byte) (rev kv.Revision, watch uint32, err error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		return 0, 0, err
	}
	rev, watch = m.revision(), m.watch()
	return rev, watch, m.end()
}

// watch reads a watch's number.
func (m *message) watch() uint32 {
	n := m.number(&m.top, fieldWatch)
	if n < 1 || n > maxWatch {
		m.badMember(fieldWatch, "the number of a watch")
		return 0
	}
	return uint32(n)
}

// KVUnwatch reads KVUNWATCH's request.
func (r *Request) KVUnwatch() (watch uint32, err error) {
	var m message
	m.begin(r)
	watch = m.watch()
	return watch, m.end()
}

// AppendKVUnwatch appends KVUNWATCH's request.
func AppendKVUnwatch(dst []byte, watch uint32) []byte {
	return append(appendNumber(append(dst, '{'), "watch", int64(watch)), '}')
}

// KVEvents is the KVEVENT a server pushes: the next piece of what a watch tells.
type KVEvents struct {
	Watch uint32 // from 1
	// Revision is the newest that this piece tells of; with State or Synced the one
	// at which the state is told.
	Revision kv.Revision
	// Events are whole revisions, in order, unless More says that the last one goes
	// on in the next piece. With State they are puts of what there is.
	Events []kv.Event
	State  bool // a piece of the state
	Synced bool // the state is complete
	Resync bool // forget everything: the state follows
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

// AppendKVEvents appends KVEVENT's body. Every event names its namespace. prev adds
// the entries before, where there are any.
func AppendKVEvents(dst []byte, ev KVEvents, prev, raw bool) []byte {
	start := len(dst)
	b := builder{dst: append(dst, watchStart+"          "...), raw: raw}
	setWatch(b.dst[start:], ev.Watch)
	b.number(fieldRev, int64(ev.Revision))
	b.flag(fieldState, ev.State)
	b.flag(fieldSynced, ev.Synced)
	b.flag(fieldResync, ev.Resync)
	b.flag(fieldMore, ev.More)
	if len(ev.Events) > 0 {
		b.open(fieldEvents, '[')
		for i := range ev.Events {
			b.event(&ev.Events[i], prev)
		}
		b.close(']')
	}
	return b.end()
}

func (b *builder) event(e *kv.Event, prev bool) {
	b.element()
	b.text(fieldOp, e.Kind.String())
	b.text(fieldNS, e.Entry.NS)
	b.text(fieldKey, e.Entry.Key)
	b.members(e.Entry, true)
	if prev && e.Prev != nil {
		b.entry(fieldPrev, e.Prev)
	}
	b.close('}')
}

// ParseKVEvents reads KVEVENT's body. The events share nothing with it.
func ParseKVEvents(body []byte) (KVEvents, error) {
	var r Request
	if err := r.ParseTailed(body); err != nil {
		return KVEvents{}, err
	}
	var m message
	m.begin(&r)
	o := &m.top
	ev := KVEvents{
		Watch: m.watch(), Revision: m.revision(),
		State: o.flag(fieldState), Synced: o.flag(fieldSynced), Resync: o.flag(fieldResync), More: o.flag(fieldMore),
	}
	if n := elements(o, fieldEvents, maxKeptMembers); n > 0 {
		ev.Events = make([]kv.Event, 0, n)
	}
	m.array(o, fieldEvents, func(raw []byte, _ jsontext.Kind) {
		var o object
		m.enter(0, raw, &o)
		ev.Events = append(ev.Events, m.event(&o))
		m.within(fieldEvents, len(ev.Events)-1)
	})
	return ev, m.end()
}

var eventKinds = [...]kv.EventKind{kv.Put, kv.Delete, kv.Expire}

func (m *message) event(o *object) kv.Event {
	var e kv.Event
	name := m.text(o, fieldOp)
	for _, kind := range eventKinds {
		if string(name) == kind.String() {
			e.Kind = kind
		}
	}
	if e.Entry = m.entry(o, "", ""); e.Kind == 0 || e.Entry.Deleted() != (e.Kind != kv.Put) {
		m.badMember(fieldOp, "put, delete or expire as the entry is")
	}
	e.Prev = m.entryIn(o, fieldPrev, 1, e.Entry.NS, e.Entry.Key)
	return e
}
