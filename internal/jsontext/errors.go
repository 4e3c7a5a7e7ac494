package jsontext

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// SyntaxError says where a text stops being JSON, and why.
type SyntaxError struct {
	// Offset is the index of the byte at fault, from 0; the length of the text if it ended too early.
	Offset int
	// Reason is a phrase for people.
	Reason string
}

// Error returns "offset N: reason".
func (e *SyntaxError) Error() string {
	return "offset " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// Position turns the offset into line and column, both from 1 and the column in characters, as editors count. text has to be the
// text that was scanned.
func (e *SyntaxError) Position(text []byte) (line, col int) {
	before := text[:max(0, min(e.Offset, len(text)))]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[lineStart:])
}

// fault is what the scanner returns instead of an error, so that only a text that is really refused pays for one.
type fault uint8

const (
	faultNone fault = iota
	faultValue
	faultKey
	faultColon
	faultMemberEnd
	faultElementEnd
	faultTrailing
	faultControl
	faultEscape
	faultUnicode
	faultSurrogate
	faultLiteral
	faultNumber
	faultRange
	faultDepth
	faultMembers
)

// wanted completes "unexpected 'x': ..." for the faults that are about the byte found.
var wanted = map[fault]string{
	faultValue:      "a value should begin here",
	faultKey:        "a key in double quotes should begin here",
	faultColon:      "a ':' should follow the key",
	faultMemberEnd:  "a ',' or '}' should follow the member",
	faultElementEnd: "a ',' or ']' should follow the element",
	faultTrailing:   "nothing may follow the value",
	faultNumber:     "a digit should be here",
	faultEscape:     "no such escape in a string",
}

var reasons = map[fault]string{
	faultControl:   "control character in a string, write it as an escape",
	faultUnicode:   "\\u needs four hexadecimal digits",
	faultSurrogate: "\\u escape of half a surrogate pair",
	faultLiteral:   "unknown word, only true, false and null are allowed",
	faultRange:     "number too large for a double",
	faultDepth:     fmt.Sprintf("nested deeper than %d", MaxDepth),
	faultMembers:   fmt.Sprintf("more than %d members in the object of a message", MaxMembers),
}

func newSyntaxError(text []byte, offset int, f fault) *SyntaxError {
	return &SyntaxError{Offset: offset, Reason: reason(text, offset, f)}
}

func reason(text []byte, offset int, f fault) string {
	switch {
	case len(text) == 0:
		return "empty text"
	case bytes.HasPrefix(text, []byte("\xEF\xBB\xBF")):
		return "byte order mark, save the text without it"
	case offset >= len(text):
		return "text ends too early"
	}
	if want, ok := wanted[f]; ok {
		r, _ := utf8.DecodeRune(text[offset:])
		return fmt.Sprintf("unexpected %q: %s", r, want)
	}
	return reasons[f]
}
