package gateway

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/kv"
)

// plumType is the name that Plum's API shows for a type. It knows five: a json
// value is a string to it, so that its clients can at least read it.
func plumType(t kv.Type) string {
	if t == kv.JSON {
		t = kv.String
	}
	return t.String()
}

// plumTypeOf is the type of one of Plum's names, 0 for another name.
func plumTypeOf(name string) kv.Type {
	switch name {
	case "string":
		return kv.String
	case "int":
		return kv.Int
	case "double":
		return kv.Double
	case "bool":
		return kv.Bool
	case "bytes":
		return kv.Bytes
	}
	return 0
}

// plumBytes decodes text in its place.
func plumBytes(text []byte) ([]byte, error) {
	n, err := base64.StdEncoding.Decode(text, text)
	if err != nil {
		return nil, codes.Errorf(codes.BadValue, "the value is not base64, as bytes must be")
	}
	return text[:n], nil
}

// appendPlumEntry appends an entry in the order of Plum's members. Lists have a
// member of ours at the end, the size of the value in bytes: Plum shows that in place
// of bytes, which the SDK then takes for their text.
func appendPlumEntry(b []byte, e *kv.Entry, size bool) []byte {
	b = append(b, `{"namespace":`...)
	b = appendPlumText(b, e.NS)
	b = append(b, `,"key":`...)
	b = appendPlumText(b, e.Key)
	b = append(b, `,"value":`...)
	b = appendPlumValue(b, e.Value)
	b = append(b, `,"type":"`...)
	b = append(b, plumType(e.Value.Type)...)
	b = append(b, `","updatedAt":`...)
	b = strconv.AppendInt(b, e.Updated/1000, 10)
	if size {
		b = append(b, `,"size":`...)
		b = strconv.AppendInt(b, int64(len(e.Value.Data)), 10)
	}
	return append(b, '}')
}

// appendPlumEvent appends what a stream tells of an event. A key that is gone has
// the type deleted.
func appendPlumEvent(b []byte, e *kv.Entry) []byte {
	b = append(b, `{"namespace":`...)
	b = appendPlumText(b, e.NS)
	b = append(b, `,"key":`...)
	b = appendPlumText(b, e.Key)
	b = append(b, `,"value":`...)
	if e.Deleted() {
		return append(b, `"","type":"deleted"}`...)
	}
	b = appendPlumValue(b, e.Value)
	b = append(b, `,"type":"`...)
	b = append(b, plumType(e.Value.Type)...)
	return append(b, `"}`...)
}

// appendPlumValue appends a value as a JSON string, whatever its type is.
func appendPlumValue(b []byte, v kv.Value) []byte {
	if v.Type != kv.Bytes {
		return appendPlumText(b, v.Data)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v.Data)
	return append(b, '"')
}

// plumEscaped are the bytes that encoding/json, and so Plum, does not leave as they
// are. 0xE2 may begin one of two separators of lines.
var plumEscaped = func() (table [256]bool) {
	for c := range ' ' {
		table[c] = true
	}
	for _, c := range `"\<>&` {
		table[c] = true
	}
	table[0xE2] = true
	return table
}()

// appendPlumText appends s as encoding/json does. Everything in the store is UTF-8.
func appendPlumText[T string | []byte](b []byte, s T) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if !plumEscaped[c] {
			i++
			continue
		}
		if c == 0xE2 {
			if i+utf8.UTFMax-1 > len(s) || s[i+1] != 0x80 || s[i+2]&^1 != 0xA8 { // U+2028, U+2029
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = append(b, `\u202`...)
			b = append(b, digits[s[i+2]&0xF])
			i += 3
			start = i
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xF])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
