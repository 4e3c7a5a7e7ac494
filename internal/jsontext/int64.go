package jsontext

import "math"

// Int64 is Int32 for 64 bits: an integer literal without fraction and exponent; "-0" is 0.
func Int64(raw []byte) (int64, bool) {
	digits := raw
	negative := len(raw) > 0 && raw[0] == '-'
	if negative {
		digits = raw[1:]
	}
	const most = 19 // digits of the greatest
	if len(digits) == 0 || len(digits) > most || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	var v uint64 // 19 digits are below 2^64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	if negative {
		return int64(-v), v <= -math.MinInt64
	}
	return int64(v), v <= math.MaxInt64
}
