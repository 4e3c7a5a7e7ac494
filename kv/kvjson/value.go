package kvjson

import (
	"bytes"
	"encoding/base64"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Value reads the members type and value, or raw. The value is a copy. untyped is
// the type of a JSON string without a type. Without a value in the message it
// returns the zero Value; the caller decides whether that is allowed. It checks the
// text against the type only as far as the JSON determines it; kv.Txn.Check does
// the rest.
func (r *Reader) Value(o *Object, untyped kv.Type) kv.Value {
	typ := kv.Type(0)
	if name := r.Text(o, Type); name != nil {
		var err error
		typ, err = typeNamed(name)
		r.Fail(err)
	}
	if !r.dialect.http() && o.Has(Raw) {
		return r.octetsOf(o, typ)
	}
	m := o.find(Value)
	if m == nil || r.err != nil {
		return kv.Value{Type: typ}
	}
	if typ == 0 {
		typ = typeOf(m, untyped)
	}
	data, err := valueData(typ, m)
	r.Fail(err)
	return kv.Value{Type: typ, Data: data}
}

// NeedValue is Value for a value that must be given.
func (r *Reader) NeedValue(o *Object, untyped kv.Type) kv.Value {
	if !o.Given(Value) && (r.dialect.http() || !o.Has(Raw)) {
		r.Fail(codes.Errorf(codes.BadRequest, "member value is missing"))
	}
	return r.Value(o, untyped)
}

// typeNamed searches the types before it calls kv.ParseType, for which every name
// would have to be copied.
func typeNamed(name []byte) (kv.Type, error) {
	for typ := kv.String; typ <= kv.Removed; typ++ {
		if string(name) == typ.String() {
			return typ, nil
		}
	}
	return kv.ParseType(string(cut(name)))
}

// cut bounds how much of a message an error shows.
func cut(text []byte) []byte { return text[:min(len(text), 40)] }

// octetsOf reads the value that follows the JSON.
func (r *Reader) octetsOf(o *Object, typ kv.Type) kv.Value {
	switch {
	case o.Given(Value):
		r.Fail(codes.Errorf(codes.BadRequest, "value and raw exclude each other"))
	case typ != 0 && typ != kv.Bytes:
		r.Fail(codes.Errorf(codes.BadRequest, "raw is for values of type bytes, not %s", typ))
	}
	r.octets = true
	n := r.Number(o, Raw)
	if n < 0 || n > int64(len(r.tail)) {
		r.Fail(codes.Errorf(codes.BadRequest, "raw announces %d octets where %d follow", n, len(r.tail)))
	}
	if r.err != nil {
		return kv.Value{}
	}
	octets := r.tail[:n]
	r.tail = r.tail[n:]
	return kv.Value{Type: kv.Bytes, Data: clone(octets)}
}

// clone makes a copy that keeps nothing else alive.
func clone(b []byte) []byte {
	c := make([]byte, len(b))
	copy(c, b)
	return c
}

// typeOf derives the type of a value from its JSON.
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

// valueData copies the text of a value of that type; type 0 accepts any text.
func valueData(typ kv.Type, member *jsontext.Member) ([]byte, error) {
	switch {
	case typ == kv.JSON:
		return clone(member.Raw), nil
	case member.Kind == jsontext.String && typ.Octets():
		return decodeBytes(member.Raw)
	case member.Kind == jsontext.String:
		return jsontext.AppendUnquote(make([]byte, 0, len(member.Raw)-2), member.Raw), nil
	case member.Kind == jsontext.Number && (typ == kv.Int || typ == kv.Double), member.Kind == jsontext.Bool && typ == kv.Bool:
		return clone(member.Raw), nil
	}
	return nil, codes.Errorf(codes.BadValue, "value is a JSON %s, which is not a value of type %s; write it as a JSON string", member.Kind, typ)
}

// strictBase64 refuses non-canonical texts.
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

// AppendValue appends a value as JSON: json as it is, octets in base64, everything
// else as a string, so that no parser rounds a number.
func AppendValue(dst []byte, v kv.Value) []byte {
	switch v.Type {
	case kv.JSON:
		return append(dst, v.Data...)
	case kv.Bytes, kv.Removed:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Data), '"')
	}
	return jsontext.AppendQuote(dst, v.Data)
}

// ParseValue reads what AppendValue has made of a value of that type. text is compact and valid; the
// value shares no memory with it.
func ParseValue(t kv.Type, text []byte) (kv.Value, error) {
	data, err := valueData(t, &jsontext.Member{Raw: text, Kind: jsontext.KindOf(text)})
	return kv.Value{Type: t, Data: data}, err
}

// appendPlain is AppendValue for people: on one line, and with numbers and booleans
// without quotes where JSON allows it.
func appendPlain(dst []byte, v kv.Value) []byte {
	switch v.Type {
	case kv.JSON:
		return jsontext.AppendCompact(dst, v.Data)
	case kv.Bool:
		return append(dst, v.Data...)
	case kv.Int, kv.Double:
		if kind, err := jsontext.Check(v.Data); err == nil && kind == jsontext.Number {
			return append(dst, bytes.TrimSpace(v.Data)...)
		}
	}
	return AppendValue(dst, v)
}
