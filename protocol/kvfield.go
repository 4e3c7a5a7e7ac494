package protocol

import (
	"unicode"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// field is a member that some message of the state store has.
type field uint8

const (
	fieldNone field = iota
	fieldAfter
	fieldBefore
	fieldBy
	fieldBytes
	fieldCoalesce
	fieldCode
	fieldCount
	fieldCountOnly
	fieldCreate
	fieldCurrent
	fieldDeleted
	fieldDesc
	fieldElse
	fieldEntries
	fieldEvents
	fieldExpect
	fieldExpires
	fieldFence
	fieldFloor
	fieldFrom
	fieldGranted
	fieldHeld
	fieldIf
	fieldIfFence
	fieldIfMod
	fieldInitial
	fieldKey
	fieldKeys
	fieldKeysOnly
	fieldLease
	fieldLeft
	fieldLimit
	fieldMax
	fieldMin
	fieldMinRev
	fieldMod
	fieldMore
	fieldNamespaces
	fieldNS
	fieldNumber
	fieldOp
	fieldPrefix
	fieldPrev
	fieldRaw
	fieldReplayed
	fieldResults
	fieldResync
	fieldRev
	fieldState
	fieldSynced
	fieldTarget
	fieldThen
	fieldToken
	fieldTTL
	fieldType
	fieldUpdated
	fieldValue
	fieldVersion
	fieldVersions
	fieldWait
	fieldWatch
	fieldCountOf // how many there are
)

var fieldNames = [fieldCountOf]string{
	fieldAfter: "after", fieldBefore: "before", fieldBy: "by", fieldBytes: "bytes", fieldCoalesce: "coalesce", fieldCode: "code",
	fieldCount: "count", fieldCountOnly: "count_only", fieldCreate: "create", fieldCurrent: "current", fieldDeleted: "deleted",
	fieldDesc: "desc", fieldElse: "else", fieldEntries: "entries", fieldEvents: "events", fieldExpect: "expect", fieldExpires: "expires",
	fieldFence: "fence", fieldFloor: "floor", fieldFrom: "from", fieldGranted: "granted", fieldHeld: "held", fieldIf: "if",
	fieldIfFence: "if_fence", fieldIfMod: "if_mod", fieldInitial: "initial", fieldKey: "key", fieldKeys: "keys", fieldKeysOnly: "keys_only",
	fieldLease: "lease", fieldLeft: "left", fieldLimit: "limit", fieldMax: "max", fieldMin: "min", fieldMinRev: "min_rev", fieldMod: "mod",
	fieldMore: "more", fieldNamespaces: "namespaces", fieldNS: "ns", fieldNumber: "number", fieldOp: "op", fieldPrefix: "prefix",
	fieldPrev: "prev", fieldRaw: "raw", fieldReplayed: "replayed", fieldResults: "results", fieldResync: "resync", fieldRev: "rev",
	fieldState: "state", fieldSynced: "synced", fieldTarget: "target", fieldThen: "then", fieldToken: "token", fieldTTL: "ttl",
	fieldType: "type", fieldUpdated: "updated", fieldValue: "value", fieldVersion: "version", fieldVersions: "versions", fieldWait: "wait",
	fieldWatch: "watch",
}

// fieldStarts are the names as they are written behind another member.
var fieldStarts = func() (keys [fieldCountOf]string) {
	for f := fieldNone + 1; f < fieldCountOf; f++ {
		keys[f] = `,"` + fieldNames[f] + `":`
	}
	return keys
}()

// appendField is appendMember for a field.
func appendField(dst []byte, f field) []byte {
	key := fieldStarts[f]
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		key = key[1:]
	}
	return append(dst, key...)
}

// fieldSlots finds a field by its name: every member of every request is looked up
// once, and a map would hash more than there is to compare.
var fieldSlots = func() (slots [256]field) {
	for f := fieldNone + 1; f < fieldCountOf; f++ {
		at := fieldHash([]byte(fieldNames[f]))
		for slots[at] != fieldNone {
			at++
		}
		slots[at] = f
	}
	return slots
}()

func fieldHash(name []byte) uint8 {
	n := len(name)
	if n == 0 {
		return 0
	}
	return uint8(n)*101 + name[0]*54 + name[n/2]*209 + name[n-1]*205
}

func fieldOf(name []byte) field {
	for at := fieldHash(name); ; at++ {
		f := fieldSlots[at]
		if f == fieldNone || string(name) == fieldNames[f] {
			return f
		}
	}
}

// message is one body of the state store's while it is read. Unlike CppCloud's
// commands, these refuse a member of the wrong type instead of overlooking it: a
// lost ttl or if_mod would do harm in silence. The first fault is kept, and
// whatever is read after it means nothing.
type message struct {
	request *Request
	top     object
	tail    []byte // octets not taken yet
	raw     bool   // some value came as octets
	err     error
}

// object is an object of a message with its members by field. Of equal names the
// first counts; null counts as absent, but for `value`.
type object struct {
	members []jsontext.Member
	at      [fieldCountOf]int32 // index + 1
}

func (m *message) begin(r *Request) {
	m.request, m.tail = r, r.tail
	m.top.index(r.members)
}

func (o *object) index(members []jsontext.Member) {
	o.members = members
	for i := range members {
		if f := fieldOf(members[i].Key); o.at[f] == 0 {
			o.at[f] = int32(i) + 1
		}
	}
}

// enter reads the object raw, which was scanned as part of the message. level is 0
// for one within the message and 1 for one within that.
func (m *message) enter(level int, raw []byte, o *object) {
	*o = object{}
	m.request.nested[level] = jsontext.AppendMembers(m.request.nested[level][:0], raw)
	o.index(m.request.nested[level])
}

// end judges what follows the JSON: exactly the octets that were announced; if
// none were, nothing but blanks, or a NUL and anything. It returns the first fault.
func (m *message) end() error {
	switch {
	case m.err != nil:
		return m.err
	case m.raw:
		if len(m.tail) > 0 {
			return codes.Errorf(codes.BadRequest, "%d octets follow those that the raw members announce", len(m.tail))
		}
		return nil
	}
	for i, c := range m.tail {
		switch c {
		case 0:
			return nil
		case ' ', '\t', '\r', '\n':
		default:
			return codes.Errorf(codes.BadJSON, "offset %d: %d octets follow the JSON, but no raw member announces any", len(m.request.body)+i, len(m.tail)-i)
		}
	}
	return nil
}

func (m *message) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *message) badMember(f field, want string) {
	if m.err == nil {
		m.err = codes.Errorf(codes.BadRequest, "member %q is not %s", fieldNames[f], want)
	}
}

// member is nil if there is none or it is null.
func (o *object) member(f field) *jsontext.Member {
	if i := o.at[f]; i != 0 && o.members[i-1].Kind != jsontext.Null {
		return &o.members[i-1]
	}
	return nil
}

func (o *object) has(f field) bool { return o.member(f) != nil }

// text is decoded and aliases the body; nil if absent.
func (m *message) text(o *object, f field) []byte {
	member := o.member(f)
	if member == nil {
		return nil
	}
	if member.Kind != jsontext.String {
		m.badMember(f, "a string")
		return nil
	}
	return jsontext.Unquote(member.Raw)
}

// number is 0 if absent.
func (m *message) number(o *object, f field) int64 {
	member := o.member(f)
	if member == nil {
		return 0
	}
	n, ok := int64Of(member)
	if !ok {
		m.badMember(f, "an integer of 64 bits")
	}
	return n
}

// count is a number from 0 on; 0 if absent.
func (m *message) count(o *object, f field) int64 {
	n := m.number(o, f)
	if n < 0 {
		m.badMember(f, "0 or more")
	}
	return n
}

// optional is nil if absent.
func (m *message) optional(o *object, f field) *int64 {
	if !o.has(f) {
		return nil
	}
	n := m.number(o, f)
	return &n
}

// flag follows the rule of all flags.
func (o *object) flag(f field) bool {
	member := o.member(f)
	return member != nil && flag(*member)
}

// array calls fn with each element while there is no fault. Absent is empty.
func (m *message) array(o *object, f field, fn func(raw []byte, kind jsontext.Kind)) {
	member := o.member(f)
	if member == nil {
		return
	}
	if member.Kind != jsontext.Array {
		m.badMember(f, "an array")
		return
	}
	for it := jsontext.Iterate(member.Raw); m.err == nil && it.Next(); {
		fn(it.Raw(), it.Kind())
	}
}

// take cuts n octets off the tail.
func (m *message) take(n int64) []byte {
	m.raw = true
	if n < 0 || n > int64(len(m.tail)) {
		m.fail(codes.Errorf(codes.BadRequest, "raw announces %d octets where %d follow", n, len(m.tail)))
		return nil
	}
	octets := m.tail[:n:n]
	m.tail = m.tail[n:]
	return octets
}

// checkPair is kv.CheckNamespace and kv.CheckKey for bytes, without an allocation
// unless there is a fault.
func checkPair(ns, key []byte) error {
	if !plainName(ns, kv.MaxNamespace) {
		if err := kv.CheckNamespace(string(ns)); err != nil {
			return err
		}
	}
	if !plainName(key, kv.MaxKey) {
		return kv.CheckKey(string(key))
	}
	return nil
}

// plainName may say false of a name that is allowed.
func plainName(name []byte, limit int) bool {
	if len(name) == 0 || len(name) > limit {
		return false
	}
	for i := 0; i < len(name); {
		if c := name[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7F {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(name[i:])
		if r == utf8.RuneError || unicode.IsControl(r) {
			return false
		}
		i += size
	}
	return true
}
