package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizesOfBytes(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "1": "1", "1B": "1", "1023": "1023", "1024": "1KiB", "1536": "1536", "512MiB": "512MiB", "1024MiB": "1GiB",
		"4GiB": "4GiB", "8388607TiB": "8388607TiB",
	} {
		var size byteSize
		require.NoError(t, size.Set(text), text)
		require.Equal(t, want, size.String())
		again := size
		require.NoError(t, again.Set(size.String()))
		require.Equal(t, size, again)
	}
	for _, text := range []string{"", "x", "-1", "-1MiB", "1.5GiB", "1 GiB", "1MB", "MiB", "8388608TiB", "9223372036854775808", "1mib"} {
		size := byteSize(7)
		require.ErrorContains(t, size.Set(text), "must be a number of bytes", text)
		require.Equal(t, byteSize(7), size)
	}
}
