package http

import (
	"net/http"
	"strconv"
	"strings"
)

// Parts of our own streams. Unlike Plum's they have several kinds of events, and
// ids to resume from.

// noID marks events from which a reader cannot resume.
const noID = -1

// appendEvent appends an event; data appends its single line of data. A reader that
// has seen an id has seen everything up to it.
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

// appendID appends a position in a stream. The epoch precedes the number because
// numbers restart when the data is lost: an old number would soon look valid again,
// and the reader would never get what lies below it.
func (g *Gateway) appendID(dst []byte, id int64) []byte {
	return strconv.AppendInt(append(dst, g.idPrefix...), id, 10)
}

func noData(dst []byte) []byte { return append(dst, "{}"...) }

// lastEvent is the position from which a reader wants to resume: the header
// Last-Event-ID, which a browser sends when it reconnects and which is then newer,
// or else the parameter last. valid is false if that cannot be a position of this
// epoch.
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
