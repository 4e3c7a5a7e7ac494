package kvjson

import (
	"bytes"
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Reader reads one message. Unlike CppCloud's commands, those of the store refuse a
// member of the wrong type instead of ignoring it, because a lost ttl or if_mod
// would do silent harm. The Reader keeps the first error, which End returns; what
// is read after it is meaningless.
type Reader struct {
	Top     Object
	dialect Dialect
	nested  *Scratch
	at      int    // where tail begins in the message
	tail    []byte // octets not yet taken
	octets  bool   // some value was given as octets
	err     error
}

// Scratch holds the members of an object in a message, and of one nested in that.
// It can be reused for another message.
type Scratch [2][]jsontext.Member

// Drop releases lists that have grown beyond limit members.
func (s *Scratch) Drop(limit int) {
	for i := range s {
		if cap(s[i]) > limit {
			s[i] = nil
		}
	}
}

// Object is an object of a message, indexed by field. Of duplicate names the first
// counts; null counts as absent, except for [Value].
type Object struct {
	members []jsontext.Member
	at      [fieldCount]uint16 // index + 1, of jsontext.MaxMembers at most
	asked   fieldSet
}

// fieldSet is a set of fields.
type fieldSet [2]uint64

func setOf(fields ...Field) (set fieldSet) {
	for _, f := range fields {
		set.add(f)
	}
	return set
}

func (s *fieldSet) add(f Field)      { s[f>>6] |= 1 << (f & 63) }
func (s *fieldSet) has(f Field) bool { return s[f>>6]&(1<<(f&63)) != 0 }

// ReplyError reports a reply that lacks a member it must have.
type ReplyError struct{ Member string }

func (e *ReplyError) Error() string { return "reply has no valid member " + strconv.Quote(e.Member) }

// Begin starts with the scanned members of the message's object. Results alias them
// unless documented otherwise.
func (r *Reader) Begin(d Dialect, members []jsontext.Member, scratch *Scratch) {
	r.dialect, r.nested = d, scratch
	r.Top.index(members)
}

// Follow sets what follows the JSON of the message, which has at bytes.
func (r *Reader) Follow(tail []byte, at int) { r.tail, r.at = tail, at }

func (o *Object) index(members []jsontext.Member) {
	o.members = members
	for i := range members {
		if f := fieldOf(members[i].Key); o.at[f] == 0 {
			o.at[f] = uint16(i) + 1
		}
	}
}

// Enter reads the object raw, which was scanned as part of the message. level is 0
// for an object in the message and 1 for one nested in that.
func (r *Reader) Enter(level int, raw []byte, o *Object) {
	*o = Object{}
	r.nested[level] = jsontext.AppendMembers(r.nested[level][:0], raw)
	if len(r.nested[level]) > jsontext.MaxMembers {
		r.Fail(codes.Errorf(codes.BadRequest, "more than %d members in one object", jsontext.MaxMembers))
	}
	o.index(r.nested[level])
}

// EnterMember enters o's member f, if it is there and is an object.
func EnterMember(r *Reader, level int, o *Object, f Field, in *Object) bool {
	m := o.member(f)
	switch {
	case m == nil:
		return false
	case m.Kind != jsontext.Object:
		r.Bad(f, "an object")
		return false
	}
	r.Enter(level, m.Raw, in)
	return true
}

// Leave refuses members of o that were not asked for, if the dialect does. It
// reports a misspelt member rather than the one that is missing because of it.
func (r *Reader) Leave(o *Object) {
	if r.dialect == Wire {
		return
	}
	for i := range o.members {
		switch f := fieldOf(o.members[i].Key); {
		case o.asked.has(f):
			continue
		case f == noField:
			r.err = nil
		}
		r.Fail(codes.Errorf(codes.BadRequest, "member %.40q is not known here", o.members[i].Key))
	}
}

// End leaves the message and returns the first error. After the JSON there must be
// exactly the announced octets; if none were announced, only blanks, or a NUL and
// anything.
func (r *Reader) End() error {
	r.Leave(&r.Top)
	switch {
	case r.err != nil:
		return r.err
	case r.octets:
		if len(r.tail) > 0 {
			return codes.Errorf(codes.BadRequest, "%d octets follow those announced by the raw members", len(r.tail))
		}
		return nil
	}
	for i, c := range r.tail {
		switch c {
		case 0:
			return nil
		case ' ', '\t', '\r', '\n':
		default:
			return codes.Errorf(codes.BadJSON, "offset %d: %d octets follow the JSON, but no raw member announces any", r.at+i, len(r.tail)-i)
		}
	}
	return nil
}

// Fail records err, which may be nil, unless there is an error already.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Bad reports that a member is not what it should be.
func (r *Reader) Bad(f Field, want string) {
	if r.err == nil {
		r.err = codes.Errorf(codes.BadRequest, "member %q is not %s", f, want)
	}
}

// Missing reports that a reply lacks a member.
func (r *Reader) Missing(f Field) { r.Fail(&ReplyError{Member: f.String()}) }

// within adds to the error in which element of an array it occurred.
func (r *Reader) within(f Field, i int) {
	if r.err != nil {
		r.err = codes.Errorf(codes.Of(r.err), "%s %d: %w", f, i, r.err)
	}
}

// find returns nil if there is no such member.
func (o *Object) find(f Field) *jsontext.Member {
	o.asked.add(f)
	if i := o.at[f]; i != 0 {
		return &o.members[i-1]
	}
	return nil
}

// member returns nil also for null.
func (o *Object) member(f Field) *jsontext.Member {
	o.asked.add(f)
	if i := o.at[f]; i != 0 && o.members[i-1].Kind != jsontext.Null {
		return &o.members[i-1]
	}
	return nil
}

// Has reports whether there is such a member that is not null.
func (o *Object) Has(f Field) bool { return o.member(f) != nil }

// Given reports whether there is such a member, null or not.
func (o *Object) Given(f Field) bool { return o.find(f) != nil }

// Before reports whether member f of o precedes member g; an absent member precedes
// all.
func (o *Object) Before(f, g Field) bool { return o.at[f] < o.at[g] }

// Text is decoded; nil if absent.
func (r *Reader) Text(o *Object, f Field) []byte {
	m := o.member(f)
	if m == nil {
		return nil
	}
	if m.Kind != jsontext.String {
		r.Bad(f, "a string")
		return nil
	}
	text := jsontext.Unquote(m.Raw)
	if len(text) == 0 && r.dialect != Wire {
		return nil
	}
	return text
}

// Verbatim is a copy of a value as it is written, null included; false if absent.
func (o *Object) Verbatim(f Field) ([]byte, bool) {
	m := o.find(f)
	if m == nil {
		return nil, false
	}
	return bytes.Clone(m.Raw), true
}

// Number is 0 if absent.
func (r *Reader) Number(o *Object, f Field) int64 {
	m := o.member(f)
	if m == nil {
		return 0
	}
	n, ok := m.Int64()
	if !ok {
		r.Bad(f, "an integer of 64 bits")
	}
	return n
}

// Count is a non-negative number; 0 if absent.
func (r *Reader) Count(o *Object, f Field) int64 {
	n := r.Number(o, f)
	if n < 0 {
		r.Bad(f, "0 or more")
	}
	return n
}

// optional is nil if absent.
func (r *Reader) optional(o *Object, f Field) *int64 {
	if !o.Has(f) {
		return nil
	}
	n := r.Number(o, f)
	return &n
}

// Flag is false if absent. On the wire anything that is not a flag is false, too.
func (r *Reader) Flag(o *Object, f Field) bool {
	m := o.member(f)
	if m == nil || !r.dialect.http() {
		return m != nil && m.Flag()
	}
	switch string(m.Raw) {
	case "true", "1":
		return true
	case "false", "0":
	default:
		r.Bad(f, "true or false")
	}
	return false
}

// Elements iterates over an array:
//
//	for list := r.Elements(o, kvjson.Entries, 0); list.Next(&entry); {
//
// Next enters an element that is an object at level 0; for any other the Object has
// no members. Kind and Raw describe the element, and suffice if the Object is nil.
type Elements struct {
	// Len is the number of elements. It is set only if there is a limit.
	Len int

	it    jsontext.Iter
	field Field
	next  int
}

// Elements iterates over o's member f, which is empty if absent. More elements than
// limit are an error; 0 is no limit.
func (r *Reader) Elements(o *Object, f Field, limit int) Elements {
	e := Elements{field: f}
	m := o.member(f)
	switch {
	case m == nil:
		return e
	case m.Kind != jsontext.Array:
		r.Bad(f, "an array")
		return e
	}
	for it := jsontext.Iterate(m.Raw); limit > 0 && it.Next(); {
		if e.Len++; e.Len > limit {
			r.Fail(codes.Errorf(codes.TooManyOps, "%s has more elements than the limit of %d", f, limit))
			return e
		}
	}
	e.it = jsontext.Iterate(m.Raw)
	return e
}

// Next advances list, and reports whether there is an element and no error.
func (r *Reader) Next(list *Elements, o *Object) bool {
	if list.next > 0 {
		if o != nil {
			r.Leave(o)
		}
		r.within(list.field, list.next-1)
	}
	if r.err != nil || !list.it.Next() {
		return false
	}
	list.next++
	if o == nil {
		return true
	}
	r.Enter(0, list.it.Raw(), o)
	if r.dialect.http() && list.it.Kind() != jsontext.Object {
		r.Bad(list.field, "an array of objects")
		return false
	}
	return true
}

// Members iterates over member f of o, an object whose n members have names of the user's
// own; it has none if f is absent.
func Members(r *Reader, o *Object, f Field) (it jsontext.Iter, n int) {
	m := o.member(f)
	switch {
	case m == nil:
		return it, 0
	case m.Kind != jsontext.Object:
		r.Bad(f, "an object")
		return it, 0
	}
	for it = jsontext.Iterate(m.Raw); it.Next(); {
		n++
	}
	return jsontext.Iterate(m.Raw), n
}

// Kind is the kind of the element.
func (e *Elements) Kind() jsontext.Kind { return e.it.Kind() }

// Raw is the text of the element.
func (e *Elements) Raw() []byte { return e.it.Raw() }
