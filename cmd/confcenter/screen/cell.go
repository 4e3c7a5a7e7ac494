package screen

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Cell is a text as a cell of a table, a dash for none. Clients choose their texts, so characters that could
// control a terminal are escaped.
func Cell(text string) string {
	if text == "" {
		return "-"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Shortened is a text cut to what a table has room for.
func Shortened(text string) string {
	const shown = 60
	if len(text) <= shown {
		return text
	}
	return strings.ToValidUTF8(text[:shown], "") + "…"
}

// Time is a time, in ms since 1970, to the second.
func Time(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z") }

// Moment is Time to the ms, and a dash for 0, which is no time.
func Moment(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
