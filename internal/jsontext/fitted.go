package jsontext

import (
	"bytes"
	"slices"
)

// Compact returns valid text without blanks, in memory of about its size.
func Compact(valid []byte) []byte {
	return Fitted(AppendCompact(make([]byte, 0, len(valid)), valid))
}

// Readable returns compact text with escapes of visible characters replaced by the
// characters.
func Readable(compact []byte) []byte {
	if !bytes.Contains(compact, []byte(`\u`)) {
		return compact
	}
	return bytes.Clone(AppendReadable(make([]byte, 0, len(compact)), compact))
}

// Fitted returns text in memory of about its size.
func Fitted(text []byte) []byte {
	if cap(text)-len(text) > len(text)/8+64 {
		return bytes.Clone(text)
	}
	return slices.Clip(text)
}
