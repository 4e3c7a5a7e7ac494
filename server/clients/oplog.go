package clients

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"confcenter/access"
	"confcenter/internal/clock"
	"confcenter/internal/ring"
)

// oplog is the operation log that GETLOGR shows: the last lines, in memory.
type oplog struct {
	clock clock.Clock // set at open
	lines ring.Ring[string]
}

// oplogLines is how many lines are kept.
const oplogLines = 200

func (o *oplog) init(c clock.Clock) { o.clock, o.lines.Size = c, oplogLines }

// add writes one line: the time, the kind and the fields.
func (o *oplog) add(kind string, fields ...string) {
	for i := range fields {
		fields[i] = oneLine(clip(fields[i]))
	}
	o.lines.Add(o.clock.Now().Format("2006-01-02 15:04:05") + ": " + strings.Join(append([]string{kind}, fields...), "| "))
}

// oneLine is a peer's text without anything that would break the line or the reply that
// shows it.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// config writes a line about a change of a document, requested or done, in the form that
// CppCloud's console shows.
func (o *oplog) config(deleted bool, name string, mtime int32, by *access.Actor, result string) {
	kind := "CONFCHANGE"
	if deleted {
		kind = "CONFDEL"
	}
	o.add(kind, "filename="+name, fmt.Sprintf("mtime=%d(%s)", mtime, wallTime(int64(mtime))), "opcli="+by.String(), "result="+result)
}

// maxLogged bounds a field of the operation log, in bytes: peers can make them long.
const maxLogged = 512

func clip(b string) string {
	if len(b) > maxLogged {
		end := maxLogged
		for end > maxLogged-utf8.UTFMax && !utf8.RuneStart(b[end]) {
			end-- // half a character would make the reply invalid UTF-8
		}
		return fmt.Sprintf("%s… +%dB", b[:end], len(b)-end)
	}
	return b
}

// newest returns up to n lines, the newest first.
func (o *oplog) newest(n int) []string { return o.lines.Newest(n) }
