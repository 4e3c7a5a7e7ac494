package field

import (
	"encoding/base64"

	"confcenter/internal/jsontext"
)

// Size is how many bytes of JSON a field takes at most, with its version and its mark: what a page
// and a reply are measured by.
func (f *Field) Size() int {
	const besides = len(`"":"",` + `"":-9223372036854775808,` + `"",`)
	size := besides + 3*quotedSize(f.Name)
	if jsontext.IsText(f.Value) {
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
