package jsontext

import "math"

// Int32 applies the wire's rule for an "int": an integer literal within int32, without fraction and exponent; "-0" is 0. For
// anything else it returns false, and the field counts as absent.
func Int32(raw []byte) (int32, bool) {
	digits := raw
	negative := len(raw) > 0 && raw[0] == '-'
	if negative {
		digits = raw[1:]
	}
	if len(digits) == 0 || len(digits) > 10 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	var v int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	if v < math.MinInt32 || v > math.MaxInt32 {
		return 0, false
	}
	return int32(v), true
}
