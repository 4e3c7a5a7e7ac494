package gateway

import (
	"net/http"
	"strconv"
)

// Parts of our own streams, which other than Plum's have several kinds of events
// and ids to go on from.

// noID is for events after which a reader could not go on.
const noID = -1

// appendEvent appends an event whose one line of data is appended by data. A reader
// that has seen an event with an id has seen everything up to it.
func appendEvent(dst []byte, name string, id int64, data func(dst []byte) []byte) []byte {
	dst = append(append(dst, "event: "...), name...)
	if id != noID {
		dst = strconv.AppendInt(append(dst, "\nid: "...), id, 10)
	}
	return append(data(append(dst, "\ndata: "...)), "\n\n"...)
}

func noData(dst []byte) []byte { return append(dst, "{}"...) }

// lastEvent is where a reader wants to go on: the header Last-Event-ID, which a
// browser sends by itself when it connects again and which is then the newer one,
// or else the parameter last. valid is false for what can be no place in a stream.
func lastEvent(r *http.Request, p *parameters) (id int64, given, valid bool) {
	text := p.text("last")
	if header := r.Header.Get("Last-Event-ID"); header != "" {
		text = header
	}
	if text == "" {
		return 0, false, true
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, true, err == nil && id >= 0
}
