package kvjson

import (
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Reader is one message while it is read. Unlike CppCloud's commands, the store's
// refuse a member of the wrong type instead of overlooking it: a lost ttl or if_mod
// would do harm in silence. The first fault is kept, and whatever is read after it
// means nothing; End tells it.
type Reader struct {
	Top     Object
	dialect Dialect
	nested  *Scratch
	at      int    // where tail begins in the message
	tail    []byte // octets not taken yet
	octets  bool   // some value came as octets
	err     error
}

// Scratch holds the members of an object within a message, and of one within that.
// It may be used again for another message.
type Scratch [2][]jsontext.Member

// Drop lets go of lists that have grown beyond limit members.
func (s *Scratch) Drop(limit int) {
	for i := range s {
		if cap(s[i]) > limit {
			s[i] = nil
		}
	}
}

// Object is an object of a message with its members by field. Of equal names the
// first counts; null counts as absent, but for [Value].
type Object struct {
	members []jsontext.Member
	at      [fieldCount]int32 // index + 1
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

// Begin begins with the members of the message's object, which were scanned. What
// is read aliases them unless it says otherwise.
func (r *Reader) Begin(d Dialect, members []jsontext.Member, scratch *Scratch) {
	r.dialect, r.nested = d, scratch
	r.Top.index(members)
}

// Follow says what follows the JSON of the message, which has at bytes.
func (r *Reader) Follow(tail []byte, at int) { r.tail, r.at = tail, at }

func (o *Object) index(members []jsontext.Member) {
	o.members = members
	for i := range members {
		if f := fieldOf(members[i].Key); o.at[f] == 0 {
			o.at[f] = int32(i) + 1
		}
	}
}

// Enter reads the object raw, which was scanned as part of the message. level is 0
// for one within the message and 1 for one within that.
func (r *Reader) Enter(level int, raw []byte, o *Object) {
	*o = Object{}
	r.nested[level] = jsontext.AppendMembers(r.nested[level][:0], raw)
	o.index(r.nested[level])
}

// Leave refuses members of o that were not asked for, where the dialect does. What
// is misspelt is told rather than what is missing for it.
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

// End leaves the message and returns the first fault. Behind the JSON come exactly
// the octets that were announced; if none were, nothing but blanks, or a NUL and
// anything.
func (r *Reader) End() error {
	r.Leave(&r.Top)
	switch {
	case r.err != nil:
		return r.err
	case r.octets:
		if len(r.tail) > 0 {
			return codes.Errorf(codes.BadRequest, "%d octets follow those that the raw members announce", len(r.tail))
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

// Fail keeps err, which may be nil, unless there is a fault already.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Bad says that a member is not what it should be.
func (r *Reader) Bad(f Field, want string) {
	if r.err == nil {
		r.err = codes.Errorf(codes.BadRequest, "member %q is not %s", f, want)
	}
}

// Missing says that a reply lacks a member.
func (r *Reader) Missing(f Field) { r.Fail(&ReplyError{Member: f.String()}) }

// within says in which element of an array the fault is.
func (r *Reader) within(f Field, i int) {
	if r.err != nil {
		r.err = codes.Errorf(codes.Of(r.err), "%s %d: %w", f, i, r.err)
	}
}

// find is nil if there is no such member.
func (o *Object) find(f Field) *jsontext.Member {
	o.asked.add(f)
	if i := o.at[f]; i != 0 {
		return &o.members[i-1]
	}
	return nil
}

// member is nil also for null.
func (o *Object) member(f Field) *jsontext.Member {
	o.asked.add(f)
	if i := o.at[f]; i != 0 && o.members[i-1].Kind != jsontext.Null {
		return &o.members[i-1]
	}
	return nil
}

// Has says that there is such a member, and that it is not null.
func (o *Object) Has(f Field) bool { return o.member(f) != nil }

// Given says that there is such a member, null or not.
func (o *Object) Given(f Field) bool { return o.find(f) != nil }

// Before says that o's member f stands before its member g; one that is absent does.
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

// Count is a number from 0 on; 0 if absent.
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

// Flag is false if absent. On the wire it follows the rule of all flags, by which
// what is none is false.
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

// Elements are those of an array while it is read:
//
//	for list := r.Elements(o, kvjson.Entries, 0); list.Next(&entry); {
//
// An element that is an object is entered at level 0; of any other the Object has no
// members. Kind and Raw tell what it is, and are enough where the Object is nil.
type Elements struct {
	// Len is how many there are. It is known only where there is a limit.
	Len int

	it    jsontext.Iter
	field Field
	next  int
}

// Elements are those of o's member f, none if it is absent. More than limit are a
// fault; 0: there is none.
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

// Next goes on to the next of list, if there is one and no fault.
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

// Kind is that of the element.
func (e *Elements) Kind() jsontext.Kind { return e.it.Kind() }

// Raw is the element.
func (e *Elements) Raw() []byte { return e.it.Raw() }
