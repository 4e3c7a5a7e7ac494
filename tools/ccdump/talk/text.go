package talk

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"confcenter/protocol"
	"confcenter/tools/ccdump/stream"
)

// Text prints lines for people:
//
//	09:12:44.000123 #1 app/2001 > GETCONFIG seq=2 39B {"file_pattern":"dev.json"}
//	09:12:44.000344 #1 app/2001 < GETCONFIG_RSP seq=2 98B {"code":0, … in 221µs
//
// time, connection, client, direction, the frame as protocol's Printer shows it, and for
// replies the time since the request. Odd remarks begin with an exclamation mark.
type Text struct {
	Printer protocol.Printer
	// Location is the time zone of printed times.
	Location *time.Location
	day      string
}

const (
	timeFormat = "15:04:05.000000"
	dayFormat  = "2006-01-02 MST"
)

// Append appends l and a line feed, preceded by a line with the day if that has changed.
func (t *Text) Append(dst []byte, l *Line) []byte {
	when := time.Unix(0, l.At).In(t.Location)
	if day := when.Format(dayFormat); day != t.day {
		t.day = day
		dst = fmt.Appendf(dst, "# %s\n", day)
	}
	dst = when.AppendFormat(dst, timeFormat)
	dst = fmt.Appendf(dst, " #%d ", l.Conn.ID)
	dst = append(dst, l.who()...)
	switch {
	case l.Frame != nil:
		dst = t.frame(dst, l)
	case l.Odd:
		dst = append(append(dst, ' '), l.From.String()...)
	case l.Name == "" && l.Conn.Frames == 0:
		dst = fmt.Appendf(dst, " > %v", l.Conn.Endpoint(stream.FromServer))
	}
	if l.Odd {
		dst = append(append(dst, " ! "...), l.Remark...)
	} else if l.Remark != "" {
		dst = append(append(dst, " # "...), l.Remark...)
	}
	return append(dst, '\n')
}

func (t *Text) frame(dst []byte, l *Line) []byte {
	dst = append(append(append(dst, ' '), l.From.String()...), ' ')
	dst = t.Printer.AppendLine(dst, l.Frame.Header, l.Body)
	if !l.Frame.Whole() && t.Printer.Style != protocol.BodyNone {
		dst = fmt.Appendf(dst, " (the first %d bytes of %d)", len(l.Frame.Body), l.Frame.BodyLen)
	}
	if l.Answered {
		dst = fmt.Appendf(dst, " in %v", l.Latency.Round(time.Microsecond))
	}
	return dst
}

// who names the client: by name and id once it is identified, else by address.
func (l *Line) who() string {
	if l.ID != 0 || l.Name != "" {
		return fmt.Sprintf("%s/%d", visible(l.Name), l.ID)
	}
	return l.Conn.Endpoint(stream.FromClient).String()
}

// visible returns a name that cannot break a line, quoted if it contains anything odd.
func visible(name string) string {
	if name == "" {
		return "?"
	}
	if q := strconv.Quote(name); len(q) != len(name)+2 || strings.ContainsAny(name, " /") {
		return q
	}
	return name
}
