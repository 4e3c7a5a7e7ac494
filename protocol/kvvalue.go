package protocol

import (
	"encoding/base64"
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// value reads the value of o, which is the caller's. untyped is the type of a value
// that is given as a JSON string and without a type. A message without a value gets
// the zero Value; whether that is allowed is for the caller to say. The text is not
// checked against the type but where the JSON decides it: kv.Txn.Check does that.
func (m *message) value(o *object, untyped kv.Type) kv.Value {
	typ := kv.Type(0)
	if name := m.text(o, fieldType); name != nil {
		typ = m.typeNamed(name)
	}
	if o.has(fieldRaw) {
		return m.octets(o, typ)
	}
	i := o.at[fieldValue]
	if i == 0 || m.err != nil {
		return kv.Value{Type: typ}
	}
	member := &o.members[i-1]
	if typ == 0 {
		typ = typeOf(member, untyped)
	}
	data, err := valueData(typ, member)
	if err != nil {
		m.fail(err)
	}
	return kv.Value{Type: typ, Data: data}
}

// typeNamed looks through the types before it asks kv, whose error would keep a
// copy of every name.
func (m *message) typeNamed(name []byte) kv.Type {
	for typ := kv.String; typ <= kv.JSON; typ++ {
		if string(name) == typ.String() {
			return typ
		}
	}
	_, err := kv.ParseType(string(cut(name)))
	m.fail(err)
	return 0
}

// octets is the value that follows the JSON.
func (m *message) octets(o *object, typ kv.Type) kv.Value {
	switch {
	case o.at[fieldValue] != 0:
		m.fail(codes.Errorf(codes.BadRequest, "value and raw exclude each other"))
	case typ != 0 && typ != kv.Bytes:
		m.fail(codes.Errorf(codes.BadRequest, "raw is for values of type bytes, not %s", typ))
	}
	octets := m.take(m.number(o, fieldRaw))
	if m.err != nil {
		return kv.Value{}
	}
	return kv.Value{Type: kv.Bytes, Data: clone(octets)}
}

// clone makes a copy that keeps nothing else alive.
func clone(b []byte) []byte {
	c := make([]byte, len(b))
	copy(c, b)
	return c
}

// typeOf is the type that a value has by its JSON.
func typeOf(member *jsontext.Member, untyped kv.Type) kv.Type {
	switch member.Kind {
	case jsontext.String:
		return untyped
	case jsontext.Bool:
		return kv.Bool
	case jsontext.Number:
		for _, c := range member.Raw {
			if c == '.' || c|0x20 == 'e' {
				return kv.Double
			}
		}
		return kv.Int
	}
	return kv.JSON
}

// valueData is a copy of the text of a value of that type; 0 stands for any text.
func valueData(typ kv.Type, member *jsontext.Member) ([]byte, error) {
	switch {
	case typ == kv.JSON:
		return clone(member.Raw), nil
	case member.Kind == jsontext.String && typ == kv.Bytes:
		return decodeBytes(member.Raw)
	case member.Kind == jsontext.String:
		return jsontext.AppendUnquote(make([]byte, 0, len(member.Raw)-2), member.Raw), nil
	case member.Kind == jsontext.Number && (typ == kv.Int || typ == kv.Double), member.Kind == jsontext.Bool && typ == kv.Bool:
		return clone(member.Raw), nil
	}
	return nil, codes.Errorf(codes.BadValue, "value is a JSON %s, which is not a value of type %s; write it as a JSON string", member.Kind, typ)
}

// strictBase64 refuses texts that are not the one form of some bytes.
var strictBase64 = base64.StdEncoding.Strict()

func decodeBytes(raw []byte) ([]byte, error) {
	text := jsontext.Unquote(raw)
	if base64.StdEncoding.DecodedLen(len(text)) > kv.MaxValue+2 {
		return nil, codes.Errorf(codes.TooLarge, "value has about %d bytes, the limit is %d", base64.StdEncoding.DecodedLen(len(text)), kv.MaxValue)
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := strictBase64.Decode(data, text)
	if err != nil {
		return nil, codes.Errorf(codes.BadValue, "value of type bytes is not base64: %w", err)
	}
	return data[:n], nil
}

// builder appends a message whose values may follow it as octets.
type builder struct {
	dst  []byte
	raw  bool     // values of type bytes go behind the JSON
	tail [][]byte // the octets, in the order of the JSON
}

// end closes the message and lets the octets follow.
func (b *builder) end() []byte {
	b.dst = append(b.dst, '}')
	for _, octets := range b.tail {
		b.dst = append(b.dst, octets...)
	}
	return b.dst
}

func (b *builder) open(f field, bracket byte) {
	b.dst = append(appendField(b.dst, f), bracket)
}
func (b *builder) close(bracket byte) { b.dst = append(b.dst, bracket) }

// element begins an object within an array.
func (b *builder) element() { b.dst = append(appendComma(b.dst), '{') }

func (b *builder) number(f field, n int64) { b.dst = strconv.AppendInt(appendField(b.dst, f), n, 10) }

func (b *builder) text(f field, s string) { b.dst = appendText(b.dst, fieldNames[f], s) }

// given appends a number that counts as absent when it is 0.
func (b *builder) given(f field, n int64) {
	if n != 0 {
		b.number(f, n)
	}
}

func (b *builder) flag(f field, set bool) {
	if set {
		b.dst = append(appendField(b.dst, f), '1')
	}
}

// value appends type and value; a value without a type as a text that any type may
// have.
func (b *builder) value(v kv.Value) {
	if v.Type != 0 {
		b.dst = append(append(append(appendField(b.dst, fieldType), '"'), v.Type.String()...), '"')
	}
	if v.Type == kv.Bytes && b.raw {
		b.number(fieldRaw, int64(len(v.Data)))
		if len(v.Data) > 0 {
			b.tail = append(b.tail, v.Data)
		}
		return
	}
	b.dst = appendValue(appendField(b.dst, fieldValue), v)
}

// appendValue appends the value as JSON.
func appendValue(dst []byte, v kv.Value) []byte {
	switch v.Type {
	case kv.JSON:
		return append(dst, v.Data...)
	case kv.Bytes:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Data), '"')
	}
	return jsontext.AppendQuote(dst, v.Data)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendMember(dst, name), n, 10)
}

func appendComma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last != '{' && last != '[' {
		dst = append(dst, ',')
	}
	return dst
}

// kvStart begins a reply of success.
func kvStart(dst []byte, rev kv.Revision) []byte {
	return strconv.AppendInt(append(dst, `{"code":0,"rev":`...), int64(rev), 10)
}
