package gateway

import (
	"net/http"
	"strconv"
	"strings"
)

// Parts of our own streams, which other than Plum's have several kinds of events
// and ids to go on from.

// noID is for events after which a reader could not go on.
const noID = -1

// appendEvent appends an event whose one line of data is appended by data. A reader
// that has seen an event with an id has seen everything up to it.
func (g *Gateway) appendEvent(dst []byte, name string, id int64, data func(dst []byte) []byte) []byte {
	dst = append(append(append(dst, "event: "...), name...), '\n')
	if id != noID {
		dst = g.appendIDLine(dst, id)
	}
	return append(data(append(dst, "data: "...)), "\n\n"...)
}

func (g *Gateway) appendIDLine(dst []byte, id int64) []byte {
	return append(g.appendID(append(dst, "id: "...), id), '\n')
}

// appendID appends a place in a stream. The epoch stands before the number because
// numbers begin anew when the data is lost: one of before would soon look like a place
// that is known, and what lies below it would never be told.
func (g *Gateway) appendID(dst []byte, id int64) []byte {
	return strconv.AppendInt(append(dst, g.idPrefix...), id, 10)
}

func noData(dst []byte) []byte { return append(dst, "{}"...) }

// lastEvent is where a reader wants to go on: the header Last-Event-ID, which a
// browser sends by itself when it connects again and which is then the newer one,
// or else the parameter last. valid is false for what can be no place in a stream of
// this epoch.
func (g *Gateway) lastEvent(r *http.Request, p *parameters) (id int64, given, valid bool) {
	text := p.text("last")
	if header := r.Header.Get("Last-Event-ID"); header != "" {
		text = header
	}
	if text == "" {
		return 0, false, true
	}
	number, ours := strings.CutPrefix(text, g.idPrefix)
	id, err := strconv.ParseInt(number, 10, 64)
	return id, true, ours && err == nil && id >= 0
}
