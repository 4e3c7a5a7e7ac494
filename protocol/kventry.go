package protocol

import (
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// members appends an entry's members but namespace and key. withValue false leaves
// type and value out, as replies to writes do: the writer knows them.
func (b *builder) members(e *kv.Entry, withValue bool) {
	if e.Deleted() {
		b.flag(fieldDeleted, true)
	} else if withValue && e.Value.Type != 0 {
		b.value(e.Value)
	}
	b.given(fieldCreate, int64(e.Create))
	b.number(fieldMod, int64(e.Mod))
	b.given(fieldVersion, e.Version)
	b.number(fieldUpdated, e.Updated)
	b.given(fieldExpires, e.Expires)
	b.given(fieldLease, int64(e.Lease))
}

// entry appends a member that is an entry without its name, or null.
func (b *builder) entry(f field, e *kv.Entry) {
	if e == nil {
		b.dst = append(appendField(b.dst, f), "null"...)
		return
	}
	b.open(f, '{')
	b.members(e, true)
	b.close('}')
}

// listed appends an element that is an entry with its key, or null.
func (b *builder) listed(e *kv.Entry) {
	if e == nil {
		b.dst = append(appendComma(b.dst), "null"...)
		return
	}
	b.element()
	b.text(fieldKey, e.Key)
	b.members(e, true)
	b.close('}')
}

// entry reads an entry's members; where they have no namespace or key, it has the
// ones given. The entry shares nothing with the body.
func (m *message) entry(o *object, ns, key string) *kv.Entry {
	e := &kv.Entry{NS: ns, Key: key}
	if o.has(fieldNS) {
		e.NS = string(m.text(o, fieldNS))
	}
	if o.has(fieldKey) {
		e.Key = string(m.text(o, fieldKey))
	}
	if o.flag(fieldDeleted) {
		e.Create = kv.Revision(m.number(o, fieldCreate))
	} else {
		e.Value = m.value(o, kv.String)
		e.Create = kv.Revision(m.number(o, fieldCreate))
		if e.Version = m.number(o, fieldVersion); e.Version < 1 {
			m.missing(fieldVersion)
		}
	}
	e.Mod = kv.Revision(m.number(o, fieldMod))
	if e.Mod < 1 {
		m.missing(fieldMod)
	}
	e.Updated = m.number(o, fieldUpdated)
	e.Expires = m.number(o, fieldExpires)
	e.Lease = kv.LeaseID(m.number(o, fieldLease))
	return e
}

// missing says that a reply lacks a member.
func (m *message) missing(f field) { m.fail(&ReplyError{Member: fieldNames[f]}) }

// entryIn reads a member that is an entry; nil if it is absent or null. What o
// points to is read over if o stands on the same level.
func (m *message) entryIn(o *object, f field, level int, ns, key string) *kv.Entry {
	member := o.member(f)
	if member == nil {
		return nil
	}
	if member.Kind != jsontext.Object {
		m.badMember(f, "an object")
		return nil
	}
	var inner object
	m.enter(level, member.Raw, &inner)
	return m.entry(&inner, ns, key)
}

// entriesIn reads an array of entries and nulls.
func (m *message) entriesIn(f field, ns, key string) []*kv.Entry {
	var entries []*kv.Entry
	m.array(&m.top, f, func(raw []byte, kind jsontext.Kind) {
		var e *kv.Entry
		if kind == jsontext.Object {
			var o object
			m.enter(0, raw, &o)
			e = m.entry(&o, ns, key)
		}
		entries = append(entries, e)
	})
	return entries
}

// reply reads the start of a reply: code and, of a success, the rest of it is worth
// reading. A refusal is a *RefusedError.
func (m *message) reply(r *Request, body []byte) error {
	if err := r.ParseTailed(body); err != nil {
		return err
	}
	m.begin(r)
	res, err := r.result()
	if err == nil && res.Code != 0 {
		err = &RefusedError{Result: res}
	}
	return err
}

// revision reads the revision that every reply of the store's has.
func (m *message) revision() kv.Revision {
	if !m.top.has(fieldRev) {
		m.missing(fieldRev)
	}
	return kv.Revision(m.number(&m.top, fieldRev))
}
