package plum

import (
	"encoding/base64"
	"encoding/json" // what it escapes is what Plum's clients know
	"strconv"

	"confcenter/kv"
)

// nameOf is the name of a type in Plum's API, which has only five: a json value
// is shown as a string, and a removed one as bytes, so that clients can at least read it.
func nameOf(t kv.Type) string {
	switch t {
	case kv.JSON:
		t = kv.String
	case kv.Removed:
		t = kv.Bytes
	}
	return t.String()
}

// typeOf returns the type with that name in Plum's API, or 0.
func typeOf(name string) kv.Type {
	for t := kv.String; t <= kv.Bytes; t++ {
		if t.String() == name {
			return t
		}
	}
	return 0
}

// AppendEntry appends an entry with its members in Plum's order. In lists we
// add the size of the value in bytes at the end; Plum shows it in place of bytes,
// and the SDK then takes it for their text.
func AppendEntry(b []byte, e *kv.Entry, size bool) []byte {
	b = appendTyped(b, e)
	b = strconv.AppendInt(append(b, `,"updatedAt":`...), e.Updated/1000, 10)
	if size {
		b = strconv.AppendInt(append(b, `,"size":`...), int64(len(e.Value.Data)), 10)
	}
	return append(b, '}')
}

// appendTyped appends the members that entries and events share, and leaves the
// object open.
func appendTyped(b []byte, e *kv.Entry) []byte {
	b = AppendText(append(b, `{"namespace":`...), e.NS)
	b = AppendText(append(b, `,"key":`...), e.Key)
	b = append(b, `,"value":`...)
	if e.Deleted() {
		return append(b, `"","type":"deleted"`...)
	}
	b = append(appendValue(b, e.Value), `,"type":"`...)
	return append(append(b, nameOf(e.Value.Type)...), '"')
}

// appendValue appends a value of any type as a JSON string.
func appendValue(b []byte, v kv.Value) []byte {
	if !v.Type.Octets() {
		return AppendText(b, v.Data)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v.Data)
	return append(b, '"')
}

// AppendText appends s as encoding/json does, which Plum uses. Everything in the
// store is UTF-8.
func AppendText[T string | []byte](b []byte, s T) []byte {
	for i := range len(s) {
		// 0xE2 may begin U+2028 or U+2029.
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0xE2 {
			text, _ := json.Marshal(string(s)) // a string always has a JSON form
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// AppendEvent appends an event of a stream, without the final empty line. A deleted key has the type
// deleted.
func AppendEvent(b []byte, e *kv.Event) []byte {
	return append(appendTyped(append(b, "event: kv\ndata: "...), e.Entry), "}\n"...)
}

// AppendPut appends the answer to a put.
func AppendPut(b []byte, put *kv.Op, ignored Ignored) []byte {
	b = AppendText(append(b, `{"key":`...), put.Key)
	b = AppendText(append(b, `,"namespace":`...), put.NS)
	b = append(append(b, `,"type":"`...), nameOf(put.Value.Type)...)
	b = appendValue(append(b, `","value":`...), put.Value)
	return append(ignored.append(b), "}\n"...)
}

// AppendBatch appends the answer to a batch of so many puts.
func AppendBatch(b []byte, ns string, count int, ignored Ignored) []byte {
	b = strconv.AppendInt(append(b, `{"count":`...), int64(count), 10)
	b = AppendText(append(b, `,"namespace":`...), ns)
	return append(ignored.append(b), "}\n"...)
}
