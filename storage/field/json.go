package field

import (
	"encoding/base64"
	"unicode/utf8"
)

// maxSpelledOut is how long a value may be to be a text whatever its characters are. Beyond
// it, one of control characters is base64, since a mebibyte of them would be a text of six,
// which is more than a request may have.
const maxSpelledOut = 64 << 10

// IsText reports whether a value is written as a text.
func IsText(value []byte) bool {
	if !utf8.Valid(value) {
		return false
	}
	if len(value) <= maxSpelledOut {
		return true
	}
	controls := 0
	for _, c := range value {
		if c < ' ' {
			controls++
		}
	}
	return controls < len(value)/4
}

// Size is how many bytes of JSON a field takes at most, with its version and its mark: what a page
// and a reply are measured by.
func (f *Field) Size() int {
	const besides = len(`"":"",` + `"":-9223372036854775808,` + `"",`)
	size := besides + 3*quotedSize(f.Name)
	if IsText(f.Value) {
		return size + quotedSize(f.Value)
	}
	return size + base64.StdEncoding.EncodedLen(len(f.Value))
}

// quotedSize is the size of a JSON string without its quotes.
func quotedSize[T string | []byte](s T) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}
