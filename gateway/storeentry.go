package gateway

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"

	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// entryForm says how an entry is written.
type entryForm uint8

const (
	withValue    entryForm = iota
	withoutValue           // type and size are there all the same
	onOneLine              // a json value without the blanks outside its strings, for streams
)

// entryOverhead is about what an entry takes as JSON besides its key and value.
const entryOverhead = 192

// appendEntry appends an entry as an object. A deleted one has only what is known
// of the deletion.
func appendEntry(dst []byte, e *kv.Entry, form entryForm) []byte {
	return append(appendEntryOpen(dst, e, form), '}')
}

// appendEntryOpen leaves the brace open, for a further member.
func appendEntryOpen(dst []byte, e *kv.Entry, form entryForm) []byte {
	dst = jsontext.AppendQuote(append(dst, `{"ns":`...), e.NS)
	dst = jsontext.AppendQuote(append(dst, `,"key":`...), e.Key)
	if e.Deleted() {
		dst = append(dst, `,"deleted":true`...)
	} else {
		dst = append(append(append(dst, `,"type":"`...), e.Value.Type.String()...), '"')
		if form != withoutValue {
			dst = appendValue(append(dst, `,"value":`...), e.Value, form == onOneLine)
		}
		dst = appendNumber(dst, `,"size":`, int64(len(e.Value.Data)))
		dst = appendNumber(dst, `,"create":`, int64(e.Create))
	}
	dst = appendNumber(dst, `,"mod":`, int64(e.Mod))
	if !e.Deleted() {
		dst = appendNumber(dst, `,"version":`, e.Version)
	}
	dst = appendNumber(dst, `,"updated_ms":`, e.Updated)
	if e.Expires != 0 {
		dst = appendNumber(dst, `,"expires_ms":`, e.Expires)
	}
	if e.Lease != 0 {
		dst = appendNumber(dst, `,"lease":`, int64(e.Lease))
	}
	return dst
}

// appendPrev appends the member prev behind others.
func appendPrev(dst []byte, prev *kv.Entry, form entryForm) []byte {
	dst = append(dst, `,"prev":`...)
	if prev == nil {
		return append(dst, "null"...)
	}
	return appendEntry(dst, prev, form)
}

// appendValue appends the value as JSON: of a json the text itself, of bytes
// base64, of all others a string, so that no parser rounds a number.
func appendValue(dst []byte, v kv.Value, oneLine bool) []byte {
	switch {
	case v.Type == kv.JSON && oneLine:
		return jsontext.AppendCompact(dst, v.Data)
	case v.Type == kv.JSON:
		return append(dst, v.Data...)
	case v.Type == kv.Bytes:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Data), '"')
	}
	return jsontext.AppendQuote(dst, v.Data)
}

func appendNumber(dst []byte, member string, n int64) []byte {
	return strconv.AppendInt(append(dst, member...), n, 10)
}

func appendBool(dst []byte, member string, is bool) []byte {
	return strconv.AppendBool(append(dst, member...), is)
}

// sizeOf is about what entries take as JSON.
func sizeOf(entries []*kv.Entry, form entryForm) (n int) {
	for _, e := range entries {
		n += entryOverhead + len(e.NS) + len(e.Key)
		if form != withoutValue {
			n += len(e.Value.Data)
		}
	}
	return n
}

func appendEntries(dst []byte, entries []*kv.Entry, form entryForm) []byte {
	dst = append(dst, '[')
	for i, e := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendEntry(dst, e, form)
	}
	return append(dst, ']')
}

// sendFresh answers with a JSON text that no cache may keep. body is not kept.
func sendFresh(w http.ResponseWriter, body []byte) error {
	body = append(body, '\n')
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = contentJSON, noStore
	if len(body) >= autoLength {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	_, err := w.Write(body)
	return gone(err)
}

// sendUnchanged answers somebody who has this version already.
func sendUnchanged(w http.ResponseWriter, version int64) error {
	setETag(w, version)
	w.Header()["Cache-Control"] = noStore
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// sendEntry answers with one entry and its tag.
func sendEntry(w http.ResponseWriter, b *buffer, e *kv.Entry) error {
	setETag(w, int64(e.Mod))
	b.b = appendEntry(b.b[:0], e, withValue)
	return sendFresh(w, b.b)
}

func appendQuoted(dst []byte, member, text string) []byte {
	return jsontext.AppendQuote(append(dst, member...), text)
}

// grow makes room for n more bytes and what goes around them.
func (b *buffer) grow(n int) { b.b = slices.Grow(b.b, n+entryOverhead) }
