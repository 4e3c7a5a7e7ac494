package jsontext

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789ABCDEF"

// shortEscape holds the letter of control characters that have an escape of their own, and the two that need a backslash.
var shortEscape = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// AppendQuote appends s as a JSON string with its quotes. Only quote, backslash and control characters are escaped; everything
// else, bytes that are not UTF-8 included, is copied: the clients' parsers do the same, so text survives a round trip.
func AppendQuote[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	// Most text has nothing to escape: it is copied whole, then searched in words of eight bytes.
	from := len(dst)
	dst = append(dst, s...)
	plain := plainEnd(dst, from)
	if plain == len(dst) {
		return append(dst, '"')
	}
	dst = dst[:plain]
	start := plain - from
	for i := start; i < len(s); i++ {
		c := s[i]
		if !special[c] {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if e := shortEscape[c]; e != 0 {
			dst = append(dst, '\\', e)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// Unquote returns what the string token raw, quotes included, stands for. It aliases raw if there is no escape.
func Unquote(raw []byte) []byte {
	inner := trimQuotes(raw)
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return appendUnescaped(make([]byte, 0, len(inner)), inner)
}

// AppendUnquote appends what the string token raw, quotes included, stands for. dst may be raw[:0].
func AppendUnquote(dst, raw []byte) []byte {
	return appendUnescaped(dst, trimQuotes(raw))
}

// UnquotedEqual reports whether the string token raw, quotes included, stands for want. It allocates nothing.
func UnquotedEqual(raw, want []byte) bool {
	inner := trimQuotes(raw)
	// An escape is always longer than what it stands for. So a token as long as want can only be want itself, and only a longer one
	// needs decoding.
	if len(inner) <= len(want) {
		return bytes.Equal(inner, want) && bytes.IndexByte(inner, '\\') < 0
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return false
	}
	for len(inner) > 0 {
		var buf [utf8.UTFMax]byte
		part := buf[:0]
		part, inner = nextPart(part, inner)
		if len(part) > len(want) || !bytes.Equal(part, want[:len(part)]) {
			return false
		}
		want = want[len(part):]
	}
	return len(want) == 0
}

func trimQuotes(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	end := len(raw) - 1
	return raw[1:end:end]
}

func appendUnescaped(dst, inner []byte) []byte {
	for len(inner) > 0 {
		plain := bytes.IndexByte(inner, '\\')
		if plain < 0 {
			return append(dst, inner...)
		}
		dst = append(dst, inner[:plain]...)
		dst, inner = appendEscape(dst, inner[plain:])
	}
	return dst
}

// nextPart returns the plain text up to the next escape, or the escape decoded into buf.
func nextPart(buf, inner []byte) (part, rest []byte) {
	switch plain := bytes.IndexByte(inner, '\\'); {
	case plain < 0:
		return inner, nil
	case plain > 0:
		return inner[:plain], inner[plain:]
	}
	return appendEscape(buf, inner)
}

// appendEscape appends what the escape at the start of inner stands for, at most four bytes.
func appendEscape(dst, inner []byte) (out, rest []byte) {
	if len(inner) < 2 {
		return dst, nil
	}
	switch c := inner[1]; c {
	case 'b':
		return append(dst, '\b'), inner[2:]
	case 'f':
		return append(dst, '\f'), inner[2:]
	case 'n':
		return append(dst, '\n'), inner[2:]
	case 'r':
		return append(dst, '\r'), inner[2:]
	case 't':
		return append(dst, '\t'), inner[2:]
	case 'u':
		return appendUnicode(dst, inner)
	default:
		return append(dst, c), inner[2:]
	}
}

func appendUnicode(dst, inner []byte) (out, rest []byte) {
	u, ok := hex4(inner, 2)
	if !ok {
		return dst, nil
	}
	if !utf16.IsSurrogate(u) {
		return utf8.AppendRune(dst, u), inner[6:]
	}
	low, ok := hex4(inner, 8)
	if !ok {
		return dst, nil
	}
	return utf8.AppendRune(dst, utf16.DecodeRune(u, low)), inner[12:]
}

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
