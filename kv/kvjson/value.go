package kvjson

import (
	"bytes"
	"encoding/base64"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Value reads the members type and value, or raw. The value is the caller's.
// untyped is the type of a value that is given as a JSON string and without a type.
// A message without a value gets the zero Value; whether that is allowed is for the
// caller to say. The text is not checked against the type but where the JSON decides
// it: kv.Txn.Check does that.
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

// NeedValue is Value where there must be one.
func (r *Reader) NeedValue(o *Object, untyped kv.Type) kv.Value {
	if !o.Given(Value) && (r.dialect.http() || !o.Has(Raw)) {
		r.Fail(codes.Errorf(codes.BadRequest, "member value is missing"))
	}
	return r.Value(o, untyped)
}

// typeNamed looks through the types before it asks kv, whose error would keep a
// copy of every name.
func typeNamed(name []byte) (kv.Type, error) {
	for typ := kv.String; typ <= kv.JSON; typ++ {
		if string(name) == typ.String() {
			return typ, nil
		}
	}
	return kv.ParseType(string(cut(name)))
}

// cut bounds what an error shows of a message.
func cut(text []byte) []byte { return text[:min(len(text), 40)] }

// octetsOf is the value that follows the JSON.
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

// AppendValue appends a value as JSON: of a json the text itself, of bytes base64,
// of all others a string, so that no parser rounds a number.
func AppendValue(dst []byte, v kv.Value) []byte {
	switch v.Type {
	case kv.JSON:
		return append(dst, v.Data...)
	case kv.Bytes:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Data), '"')
	}
	return jsontext.AppendQuote(dst, v.Data)
}

// appendPlain is AppendValue for people: on one line, and with numbers and truth
// values as such where JSON has them.
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
