package http

import (
	"net/http"
	"strconv"

	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// newWriter begins a JSON object at the end of b.
func newWriter(b []byte) kvjson.Writer {
	return kvjson.Writer{Buf: append(b, '{'), Dialect: kvjson.HTTP}
}

// entryOverhead is about how many bytes of JSON an entry takes besides key and
// value.
const entryOverhead = 192

func appendNumber(dst []byte, member string, n int64) []byte {
	return strconv.AppendInt(append(dst, member...), n, 10)
}

// sizeOf is about how many bytes of JSON entries take.
func sizeOf(entries []*kv.Entry, withValues bool) (n int) {
	for _, e := range entries {
		n += entryOverhead + len(e.NS) + len(e.Key)
		if withValues {
			n += len(e.Value.Data)
		}
	}
	return n
}

// sendUnchanged answers a client that already has this version.
func (w *reply) sendUnchanged(tag string) error {
	w.setTag(tag)
	w.Header()["Cache-Control"] = noStore
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// sendEntry answers with one entry and its ETag.
func (w *reply) sendEntry(e *kv.Entry) error {
	return w.sendLong(e.Size(), func(out *kvjson.Writer) {
		w.setETag(int64(e.Mod))
		out.Named(e, true)
	})
}

func appendQuoted(dst []byte, member, text string) []byte {
	return jsontext.AppendQuote(append(dst, member...), text)
}
