package http

import (
	"encoding/base64"
	"encoding/json" // what it escapes is what Plum's clients know

	"confcenter/kv"
)

// plumType is the name of a type in Plum's API, which has only five: a json value
// is shown as a string, and a removed one as bytes, so that clients can at least read it.
func plumType(t kv.Type) string {
	switch t {
	case kv.JSON:
		t = kv.String
	case kv.Removed:
		t = kv.Bytes
	}
	return t.String()
}

// plumTypeOf returns the type with that name in Plum's API, or 0.
func plumTypeOf(name string) kv.Type {
	for t := kv.String; t <= kv.Bytes; t++ {
		if t.String() == name {
			return t
		}
	}
	return 0
}

// appendPlumEntry appends an entry with its members in Plum's order. In lists we
// add the size of the value in bytes at the end; Plum shows it in place of bytes,
// and the SDK then takes it for their text.
func appendPlumEntry(b []byte, e *kv.Entry, size bool) []byte {
	b = appendPlumTyped(b, e)
	b = appendNumber(b, `,"updatedAt":`, e.Updated/1000)
	if size {
		b = appendNumber(b, `,"size":`, int64(len(e.Value.Data)))
	}
	return append(b, '}')
}

// appendPlumTyped appends the members that entries and events share, and leaves the
// object open.
func appendPlumTyped(b []byte, e *kv.Entry) []byte {
	b = appendPlumText(append(b, `{"namespace":`...), e.NS)
	b = appendPlumText(append(b, `,"key":`...), e.Key)
	b = append(b, `,"value":`...)
	if e.Deleted() {
		return append(b, `"","type":"deleted"`...)
	}
	b = append(appendPlumValue(b, e.Value), `,"type":"`...)
	return append(append(b, plumType(e.Value.Type)...), '"')
}

// appendPlumValue appends a value of any type as a JSON string.
func appendPlumValue(b []byte, v kv.Value) []byte {
	if !v.Type.Octets() {
		return appendPlumText(b, v.Data)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v.Data)
	return append(b, '"')
}

// appendPlumText appends s as encoding/json does, which Plum uses. Everything in the
// store is UTF-8.
func appendPlumText[T string | []byte](b []byte, s T) []byte {
	for i := range len(s) {
		// 0xE2 may begin U+2028 or U+2029.
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0xE2 {
			text, _ := json.Marshal(string(s)) // a string always has a JSON form
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
