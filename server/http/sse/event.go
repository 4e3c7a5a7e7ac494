package sse

import (
	"net/http"
	"strconv"
	"strings"
)

// IDs are how the ids of events begin: with the epoch of the data and a separator. Numbers restart
// when the data is lost: an old one would soon look valid again, and the reader would never get
// what lies below it.
type IDs string

// NoID marks events from which a reader cannot resume.
const NoID = -1

// Append appends the id of a position in a stream.
func (ids IDs) Append(dst []byte, at int64) []byte {
	return strconv.AppendInt(append(dst, ids...), at, 10)
}

func (ids IDs) appendLine(dst []byte, at int64) []byte {
	return append(ids.Append(append(dst, "id: "...), at), '\n')
}

// AppendEvent appends an event; data appends its single line of data. A reader that
// has seen an id has seen everything up to it.
func (ids IDs) AppendEvent(dst []byte, name string, id int64, data func(dst []byte) []byte) []byte {
	dst = append(append(append(dst, "event: "...), name...), '\n')
	if id != NoID {
		dst = ids.appendLine(dst, id)
	}
	return append(data(append(dst, "data: "...)), "\n\n"...)
}

// NoData appends the data of an event that has none.
func NoData(dst []byte) []byte { return append(dst, "{}"...) }

// Last is the position from which a reader wants to resume: that of the header
// Last-Event-ID, which a browser sends when it reconnects and which is then newer,
// or else of text, which the request says otherwise. valid is false if that cannot be
// a position of this epoch.
func (ids IDs) Last(r *http.Request, text string) (at int64, given, valid bool) {
	if header := r.Header.Get("Last-Event-ID"); header != "" {
		text = header
	}
	if text == "" {
		return 0, false, true
	}
	number, ours := strings.CutPrefix(text, string(ids))
	at, err := strconv.ParseInt(number, 10, 64)
	return at, true, ours && err == nil && at >= 0
}
