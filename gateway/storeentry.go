package gateway

import (
	"net/http"
	"slices"
	"strconv"

	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// newWriter begins an object at the end of b.
func newWriter(b []byte) kvjson.Writer {
	return kvjson.Writer{Buf: append(b, '{'), Dialect: kvjson.HTTP}
}

// entryOverhead is about what an entry takes as JSON besides its key and value.
const entryOverhead = 192

func appendNumber(dst []byte, member string, n int64) []byte {
	return strconv.AppendInt(append(dst, member...), n, 10)
}

func appendBool(dst []byte, member string, is bool) []byte {
	return strconv.AppendBool(append(dst, member...), is)
}

// sizeOf is about what entries take as JSON.
func sizeOf(entries []*kv.Entry, withValues bool) (n int) {
	for _, e := range entries {
		n += entryOverhead + len(e.NS) + len(e.Key)
		if withValues {
			n += len(e.Value.Data)
		}
	}
	return n
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
	out := newWriter(b.b[:0])
	out.Named(e, true)
	b.b = out.End()
	return sendFresh(w, b.b)
}

func appendQuoted(dst []byte, member, text string) []byte {
	return jsontext.AppendQuote(append(dst, member...), text)
}

// grow makes room for n more bytes and what goes around them.
func (b *buffer) grow(n int) { b.b = slices.Grow(b.b, n+entryOverhead) }
