package gateway

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// parameters are a request's query while it is read: each is asked for by name,
// and what was not asked for is refused, because a limit or a prefix that is
// misspelt would do harm in silence. The first fault is kept.
type parameters struct {
	values url.Values
	err    error
}

func parametersOf(r *http.Request) *parameters {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = codes.Errorf(codes.BadRequest, "the query is not well-formed: %w", err)
	}
	return &parameters{values, err}
}

func (p *parameters) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// text is "" if absent.
func (p *parameters) text(name string) string {
	values := p.values[name]
	delete(p.values, name)
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	p.fail(codes.Errorf(codes.BadRequest, "the query parameter %q is given more than once", name))
	return ""
}

// needed is text that must be there.
func (p *parameters) needed(name string) string {
	if !p.has(name) {
		p.fail(codes.Errorf(codes.BadRequest, "the query parameter %q is missing", name))
	}
	return p.text(name)
}

func (p *parameters) has(name string) bool { return len(p.values[name]) > 0 }

// count is a number from 0 on; 0 if absent.
func (p *parameters) count(name string) int64 {
	text := p.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		p.fail(codes.Errorf(codes.BadRequest, "%s is %.40q, not a number from 0 on", name, text))
	}
	return n
}

// flag is true for 1 and true, and for the bare name.
func (p *parameters) flag(name string) bool {
	given := p.has(name)
	switch text := p.text(name); text {
	case "1", "true":
		return true
	case "0", "false":
	case "":
		return given
	default:
		p.fail(codes.Errorf(codes.BadRequest, "%s is %.40q, not 0 or 1", name, text))
	}
	return false
}

// end is the first fault.
func (p *parameters) end() error {
	for name := range p.values {
		p.fail(codes.Errorf(codes.BadRequest, "this path has no query parameter %.40q", name))
	}
	return p.err
}

// fault is shared by the objects of one body.
type fault struct{ err error }

// object is a JSON object of a body while it is read, by the rules of parameters.
// Of equal names the first counts, and null counts as absent, as everywhere.
type object struct {
	fault   *fault
	members []jsontext.Member
	asked   []bool
}

// objectOf reads a body that is one JSON object into b; one that is empty has no
// members.
func objectOf(r *http.Request, b *buffer) (*object, error) {
	if err := b.read(r); err != nil {
		return nil, err
	}
	o := &object{fault: &fault{}}
	if len(b.b) == 0 {
		return o, nil
	}
	members, kind, err := jsontext.Scan(nil, b.b)
	switch {
	case err != nil:
		return nil, codes.Errorf(codes.BadJSON, "the body is not JSON: %w", err)
	case kind != jsontext.Object:
		return nil, codes.Errorf(codes.BadJSON, "the body is a JSON %s, not an object", kind)
	}
	o.members, o.asked = members, make([]bool, len(members))
	return o, nil
}

func (o *object) fail(err error) {
	if o.fault.err == nil {
		o.fault.err = err
	}
}

func (o *object) bad(name, want string) {
	o.fail(codes.Errorf(codes.BadRequest, "member %q is not %s", name, want))
}

// find is the member of that name, null or not; nil if there is none.
func (o *object) find(name string) *jsontext.Member {
	var found *jsontext.Member
	for i := range o.members {
		if string(o.members[i].Key) == name {
			o.asked[i] = true
			if found == nil {
				found = &o.members[i]
			}
		}
	}
	return found
}

// member is nil also for null.
func (o *object) member(name string) *jsontext.Member {
	m := o.find(name)
	if m == nil || m.Kind == jsontext.Null {
		return nil
	}
	return m
}

// text is "" if absent.
func (o *object) text(name string) string {
	m := o.member(name)
	if m == nil {
		return ""
	}
	if m.Kind != jsontext.String {
		o.bad(name, "a string")
		return ""
	}
	return string(jsontext.Unquote(m.Raw))
}

// number is otherwise if absent. A decimal in a string is one too, for programs
// whose numbers have fewer bits.
func (o *object) number(name string, otherwise int64) int64 {
	m := o.member(name)
	if m == nil {
		return otherwise
	}
	raw := m.Raw
	if m.Kind == jsontext.String {
		raw = jsontext.Unquote(raw)
	}
	n, ok := jsontext.Int64(raw)
	if !ok {
		o.bad(name, "an integer of 64 bits")
	}
	return n
}

// bound is nil if absent.
func (o *object) bound(name string) *int64 {
	if o.member(name) == nil {
		return nil
	}
	n := o.number(name, 0)
	return &n
}

// count is a number from 0 on; 0 if absent.
func (o *object) count(name string) int64 {
	n := o.number(name, 0)
	if n < 0 {
		o.bad(name, "0 or more")
	}
	return n
}

// flag is true or 1; absent is false.
func (o *object) flag(name string) bool {
	m := o.member(name)
	if m == nil {
		return false
	}
	switch string(m.Raw) {
	case "true", "1":
		return true
	case "false", "0":
	default:
		o.bad(name, "true or false")
	}
	return false
}

// ttl is a time in ms; 0 if absent.
func (o *object) ttl(name string) time.Duration {
	n := o.number(name, 0)
	if n < 0 || n > kv.MaxTTL.Milliseconds() {
		o.fail(codes.Errorf(codes.BadTTL, "%s of %d ms is out of range: the limits are 0 and %d", name, n, kv.MaxTTL.Milliseconds()))
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// inner is the object raw, which is part of the body.
func (o *object) inner(raw []byte) *object {
	members := jsontext.AppendMembers(nil, raw)
	return &object{fault: o.fault, members: members, asked: make([]bool, len(members))}
}

// each calls fn for each object of an array, at most limit.
func (o *object) each(name string, limit int, fn func(*object)) {
	m := o.member(name)
	if m == nil {
		return
	}
	if m.Kind != jsontext.Array {
		o.bad(name, "an array of objects")
		return
	}
	n := 0
	for it := jsontext.Iterate(m.Raw); o.fault.err == nil && it.Next(); n++ {
		switch {
		case n == limit:
			o.fail(codes.Errorf(codes.TooManyOps, "%s has more elements than the limit of %d", name, limit))
		case it.Kind() != jsontext.Object:
			o.bad(name, "an array of objects")
		default:
			inner := o.inner(it.Raw())
			fn(inner)
			if err := inner.end(); err != nil {
				o.fault.err = codes.Errorf(codes.Of(err), "%s %d: %w", name, n, err)
			}
		}
	}
}

// value reads the members type and value. Without a type a value has the one that
// its JSON suggests; untyped is that of a string.
func (o *object) value(untyped kv.Type) kv.Value {
	var typ kv.Type
	if name := o.text("type"); name != "" {
		var err error
		if typ, err = kv.ParseType(name); err != nil {
			o.fail(codes.Errorf(codes.BadType, "type %.40q is unknown: use string, int, double, bool, bytes or json", name))
		}
	}
	m := o.find("value")
	if m == nil {
		o.fail(codes.Errorf(codes.BadRequest, "member \"value\" is missing"))
	}
	if o.fault.err != nil {
		return kv.Value{}
	}
	if typ == 0 {
		typ = typeOf(m, untyped)
	}
	data, err := valueData(typ, m)
	if err != nil {
		o.fail(err)
	}
	return kv.Value{Type: typ, Data: data}
}

func typeOf(m *jsontext.Member, untyped kv.Type) kv.Type {
	switch m.Kind {
	case jsontext.String:
		return untyped
	case jsontext.Bool:
		return kv.Bool
	case jsontext.Number:
		if _, ok := jsontext.Int64(m.Raw); ok {
			return kv.Int
		}
		for _, c := range m.Raw {
			if c == '.' || c|0x20 == 'e' {
				return kv.Double
			}
		}
		return kv.Int
	}
	return kv.JSON
}

// valueData is a copy of the value's text: the store must not keep a whole body
// for one value of it.
func valueData(typ kv.Type, m *jsontext.Member) ([]byte, error) {
	switch {
	case typ == kv.JSON:
		return append(make([]byte, 0, len(m.Raw)), m.Raw...), nil
	case m.Kind == jsontext.String && typ == kv.Bytes:
		return decodeBase64(jsontext.Unquote(m.Raw))
	case m.Kind == jsontext.String:
		return jsontext.AppendUnquote(make([]byte, 0, len(m.Raw)), m.Raw), nil
	case m.Kind == jsontext.Number && (typ == kv.Int || typ == kv.Double), m.Kind == jsontext.Bool && typ == kv.Bool:
		return append(make([]byte, 0, len(m.Raw)), m.Raw...), nil
	}
	return nil, codes.Errorf(codes.BadValue, "value is a JSON %s, which is not a value of type %s; write it as a JSON string", m.Kind, typ)
}

var strictBase64 = base64.StdEncoding.Strict()

func decodeBase64(text []byte) ([]byte, error) {
	size := base64.StdEncoding.DecodedLen(len(text))
	if size > kv.MaxValue+2 {
		return nil, codes.Errorf(codes.TooLarge, "value has about %d bytes, the limit is %d", size, kv.MaxValue)
	}
	data := make([]byte, size)
	n, err := strictBase64.Decode(data, text)
	if err != nil {
		return nil, codes.Errorf(codes.BadValue, "value of type bytes is not base64: %w", err)
	}
	return data[:n], nil
}

// end is the first fault.
func (o *object) end() error {
	for i, asked := range o.asked {
		if !asked {
			o.fail(codes.Errorf(codes.BadRequest, "member %.40q is not known here", o.members[i].Key))
		}
	}
	return o.fault.err
}
