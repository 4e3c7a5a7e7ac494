package jsontext

import (
	"bytes"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendReadable appends valid with its \u escapes as the characters that they stand for, so that people can read and search
// the text. It stands for the same as before. Left as they are: escapes of quote and backslash, of control characters, and
// of what an editor would not show, such as U+2028, U+FEFF and the bidirectional controls; all other escapes, and all that
// was not escaped. The result is never longer than valid. dst may be valid[:0].
func AppendReadable(dst, valid []byte) []byte {
	for {
		i := bytes.IndexByte(valid, '\\') // only strings have any
		if i < 0 {
			return append(dst, valid...)
		}
		dst = append(dst, valid[:i]...)
		valid = valid[i:]
		r, size := escapedRune(valid)
		if Visible(r) && r != '"' && r != '\\' {
			dst = utf8.AppendRune(dst, r)
		} else {
			dst = append(dst, valid[:size]...)
		}
		valid = valid[size:]
	}
}

// Visible reports whether a reader of the text sees the character, or what it does to its neighbours: joiners show nothing
// themselves, but scripts and emoji are misspelt without them.
func Visible(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) || r == nonJoiner || r == joiner
}

// escapedRune is the character that the \u escape at the start of text stands for, and the length of the escape; -1 for any
// other escape.
func escapedRune(text []byte) (r rune, size int) {
	if at(text, 1) != 'u' {
		return -1, min(2, len(text))
	}
	u, ok := hex4(text, 2)
	if !ok {
		return -1, 2
	}
	if !utf16.IsSurrogate(u) {
		return u, 6
	}
	low, ok := hex4(text, 8)
	if r = utf16.DecodeRune(u, low); !ok || r == unicode.ReplacementChar || at(text, 6) != '\\' || at(text, 7) != 'u' {
		return -1, 6
	}
	return r, 12
}
