package jsontext

import (
	"math"
	"strconv"
)

// Numbers as members of messages: programs whose own numbers have fewer bits, and
// forms of web pages, send them as text.

// Int64 is m as an integer of 64 bits, written as a number or as decimal text in a string.
func (m *Member) Int64() (int64, bool) {
	switch m.Kind {
	case Number:
		return Int64(m.Raw)
	case String:
		return Int64(Unquote(m.Raw))
	}
	return 0, false
}

// Int32 is Int64 for 32 bits. Text may have a sign and leading zeros, as CppCloud takes it.
func (m *Member) Int32() (int32, bool) {
	switch m.Kind {
	case Number:
		return Int32(m.Raw)
	case String:
		n, err := strconv.ParseInt(string(Unquote(m.Raw)), 10, 64)
		if err == nil && n >= math.MinInt32 && n <= math.MaxInt32 {
			return int32(n), true
		}
	}
	return 0, false
}

// Flag is true for true, and for an Int32 other than 0: the C++ SDK sends its 1 as a string.
func (m *Member) Flag() bool {
	if m.Kind == Bool {
		return m.Raw[0] == 't'
	}
	n, ok := m.Int32()
	return ok && n != 0
}
