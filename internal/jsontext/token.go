package jsontext

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// Eight bytes are looked at in one step: a byte of the result is 0x80 where the byte of the word is searched for. Bytes above the
// first hit may be set wrongly by the borrow, so only the lowest one counts.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func wordAt(text []byte, i int) uint64 { return binary.LittleEndian.Uint64(text[i:]) }

func zeroBytes(w uint64) uint64 { return (w - ones) &^ w & highs }

// special holds the bytes that end a run of plain text in a string.
var special = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// plainEnd returns the index of the next quote, backslash or control character, or len(text).
func plainEnd(text []byte, i int) int {
	for i+8 <= len(text) {
		w := wordAt(text, i)
		hit := (zeroBytes(w^ones*'"') | zeroBytes(w^ones*'\\') | (w-ones*0x20)&^w&highs)
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
		i += 8
	}
	for i < len(text) && !special[text[i]] {
		i++
	}
	return i
}

// scanString reads the string whose opening quote is at i and returns the index behind the closing one.
func scanString(text []byte, i int) (end int, escaped bool, f fault) {
	i++
	for {
		i = plainEnd(text, i)
		switch at(text, i) {
		case '"':
			return i + 1, escaped, faultNone
		case '\\':
			escaped = true
			if i, f = scanEscape(text, i); f != faultNone {
				return i, escaped, f
			}
		default:
			return i, escaped, faultControl
		}
	}
}

// scanEscape reads the escape whose backslash is at i, both halves of a surrogate pair as one.
func scanEscape(text []byte, i int) (int, fault) {
	switch at(text, i+1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, faultNone
	case 'u':
	default:
		return min(i+1, len(text)), faultEscape
	}
	u, ok := hex4(text, i+2)
	if !ok {
		return i, faultUnicode
	}
	if u < 0xD800 || u > 0xDFFF {
		return i + 6, faultNone
	}
	if u >= 0xDC00 || at(text, i+6) != '\\' || at(text, i+7) != 'u' {
		return i, faultSurrogate
	}
	if low, ok := hex4(text, i+8); !ok || low < 0xDC00 || low > 0xDFFF {
		return i, faultSurrogate
	}
	return i + 12, faultNone
}

func hex4(text []byte, i int) (rune, bool) {
	if i+4 > len(text) {
		return 0, false
	}
	var u rune
	for _, c := range text[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			u = u<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return u, true
}

func scanLiteral(text []byte, i int, want string) (int, fault) {
	if i+len(want) > len(text) || string(text[i:i+len(want)]) != want {
		return i, faultLiteral
	}
	return i + len(want), faultNone
}

func digitsEnd(text []byte, i int) int {
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanNumber reads the number that begins at i. Its value is computed only if it may be out of range.
func scanNumber(text []byte, i int) (int, fault) {
	start := i
	if text[i] == '-' {
		i++
	}
	whole := i
	if at(text, i) == '0' {
		i++
	} else if i = digitsEnd(text, i); i == whole {
		return i, faultNumber
	}
	power := i - whole
	if at(text, i) == '.' {
		fraction := i + 1
		if i = digitsEnd(text, fraction); i == fraction {
			return i, faultNumber
		}
	}
	if at(text, i)|0x20 == 'e' {
		digits := i + 1
		if c := at(text, digits); c == '+' || c == '-' {
			digits++
		}
		if i = digitsEnd(text, digits); i == digits {
			return i, faultNumber
		}
		power += exponent(text[digits:i], text[digits-1] == '-')
	}
	// A double holds every number below 10^308.
	if power > 308 && overflows(text[start:i]) {
		return start, faultRange
	}
	return i, faultNone
}

// exponent stops counting where more digits make no difference.
func exponent(digits []byte, negative bool) int {
	e := 0
	for _, c := range digits {
		if e < 1<<40 {
			e = e*10 + int(c-'0')
		}
	}
	if negative {
		return -e
	}
	return e
}

func overflows(number []byte) bool {
	_, err := strconv.ParseFloat(string(number), 64)
	return err != nil
}
