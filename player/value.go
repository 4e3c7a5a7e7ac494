package player

import (
	"strconv"

	"confcenter/kv"
	"confcenter/player/field"
)

// valueOf is how bytes are kept: as a number if they are written as one, so that increments
// are the store's own, and in any case so that they read back as they are.
func valueOf(data []byte) kv.Value {
	if isNumber(data) {
		return kv.Value{Type: kv.Int, Data: data}
	}
	return kv.Value{Type: kv.Bytes, Data: data}
}

// isNumber reports whether data is what strconv.AppendInt writes.
func isNumber(data []byte) bool {
	const longest = len("-9223372036854775808")
	digits := data
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
		if len(digits) > 0 && digits[0] == '0' {
			return false
		}
	}
	if len(digits) == 0 || len(data) > longest || len(digits) > 1 && digits[0] == '0' {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	const sure = 18 // digits that fit in any case
	if len(digits) <= sure {
		return true
	}
	_, err := strconv.ParseInt(string(data), 10, 64)
	return err == nil
}

func live(e *kv.Entry) bool { return e != nil && e.Value.Type != kv.Removed }

// fieldOf is the field of an entry.
func fieldOf(e *kv.Entry, name string, base int64) field.Field {
	return field.Field{Name: name, Value: e.Value.Data, Version: base + int64(e.Mod), Removed: e.Value.Type == kv.Removed, Updated: e.Updated}
}
