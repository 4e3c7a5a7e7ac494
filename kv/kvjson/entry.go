package kvjson

import (
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Members appends an entry's members without namespace and key. withValue false
// omits the value, and on the wire its type, as replies to writes do: the writer
// knows them.
func (w *Writer) Members(e *kv.Entry, withValue bool) {
	http, updated, expires := w.Dialect.http(), Updated, Expires
	if http {
		updated, expires = UpdatedMs, ExpiresMs
	}
	deleted := e.Deleted()
	switch {
	case deleted:
		w.Flag(Deleted, true)
	case withValue && e.Value.Type != 0:
		w.Value(e.Value)
	case http:
		w.typ(e.Value.Type)
	}
	if http && !deleted {
		w.Number(Size, int64(len(e.Value.Data)))
	}
	if !deleted || !http {
		w.count(Create, int64(e.Create))
	}
	w.Number(Mod, int64(e.Mod))
	w.count(Version, e.Version)
	w.Number(updated, e.Updated)
	w.Given(expires, e.Expires)
	w.Given(Lease, int64(e.Lease))
}

// count is Given, but shows a 0 to people.
func (w *Writer) count(f Field, n int64) {
	if n != 0 || w.Dialect == File {
		w.Number(f, n)
	}
}

// Named appends an entry's members with namespace and key.
func (w *Writer) Named(e *kv.Entry, withValue bool) {
	w.Text(NS, e.NS)
	w.Text(Key, e.Key)
	w.Members(e, withValue)
}

// Entry appends a member that is an entry or null. On the wire it has no namespace
// and key: they are those of the enclosing object.
func (w *Writer) Entry(f Field, e *kv.Entry) {
	if e == nil {
		w.Null(f)
		return
	}
	w.Open(f, '{')
	if w.Dialect == Wire {
		w.Members(e, true)
	} else {
		w.Named(e, true)
	}
	w.Close('}')
}

// Listed appends an element that is an entry or null. On the wire it has no
// namespace: the list has it.
func (w *Writer) Listed(e *kv.Entry, withValue bool) {
	if e == nil {
		w.NullElement()
		return
	}
	w.Element()
	if w.Dialect == Wire {
		w.Text(Key, e.Key)
		w.Members(e, withValue)
	} else {
		w.Named(e, withValue)
	}
	w.Close('}')
}

// Entries appends a member that is an array of entries.
func (w *Writer) Entries(f Field, entries []*kv.Entry, withValues bool) {
	w.Open(f, '[')
	for _, e := range entries {
		w.Listed(e, withValues)
	}
	w.Close(']')
}

// Entry reads an entry's members; ns and key are the defaults of namespace and key.
// The entry shares no memory with the message.
func (r *Reader) Entry(o *Object, ns, key string) *kv.Entry {
	e := &kv.Entry{NS: ns, Key: key}
	if o.Has(NS) {
		e.NS = string(r.Text(o, NS))
	}
	if o.Has(Key) {
		e.Key = string(r.Text(o, Key))
	}
	if r.Flag(o, Deleted) {
		e.Create = kv.Revision(r.Number(o, Create))
	} else {
		e.Value = r.Value(o, kv.String)
		e.Create = kv.Revision(r.Number(o, Create))
		if e.Version = r.Number(o, Version); e.Version < 1 {
			r.Missing(Version)
		}
	}
	e.Mod = kv.Revision(r.Number(o, Mod))
	if e.Mod < 1 {
		r.Missing(Mod)
	}
	e.Updated = r.Number(o, Updated)
	e.Expires = r.Number(o, Expires)
	e.Lease = kv.LeaseID(r.Number(o, Lease))
	return e
}

// EntryIn reads a member that is an entry; nil if it is absent or null. It
// overwrites the members of o if o is on the same level.
func (r *Reader) EntryIn(o *Object, f Field, level int, ns, key string) *kv.Entry {
	var inner Object
	if !EnterMember(r, level, o, f, &inner) {
		return nil
	}
	return r.Entry(&inner, ns, key)
}

// Entries reads an array of entries and nulls.
func (r *Reader) Entries(f Field, ns, key string) []*kv.Entry {
	var entries []*kv.Entry
	var o Object
	for list := r.Elements(&r.Top, f, 0); r.Next(&list, &o); {
		var e *kv.Entry
		if list.Kind() == jsontext.Object {
			e = r.Entry(&o, ns, key)
		}
		entries = append(entries, e)
	}
	return entries
}

// Event appends an element that is an event. prev adds the previous entry, if there
// is one.
func (w *Writer) Event(e *kv.Event, prev bool) {
	w.Element()
	w.Text(Op, e.Kind.String())
	w.Named(e.Entry, true)
	if prev && e.Prev != nil {
		w.Entry(Prev, e.Prev)
	}
	w.Close('}')
}

// Event reads an event, which shares no memory with the message.
func (r *Reader) Event(o *Object) kv.Event {
	var e kv.Event
	name := r.Text(o, Op)
	for kind := kv.Put; kind <= kv.Expire; kind++ {
		if string(name) == kind.String() {
			e.Kind = kind
		}
	}
	if e.Entry = r.Entry(o, "", ""); e.Kind == 0 || e.Entry.Deleted() != (e.Kind != kv.Put) {
		r.Bad(Op, "put, delete or expire as the entry is")
	}
	e.Prev = r.EntryIn(o, Prev, 1, e.Entry.NS, e.Entry.Key)
	return e
}
