package settings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/settings"
)

func TestSizesOfBytes(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "1": "1", "1B": "1", "1023": "1023", "1024": "1KiB", "1536": "1536", "512MiB": "512MiB", "1024MiB": "1GiB",
		"4GiB": "4GiB", "8388607TiB": "8388607TiB",
	} {
		var size settings.Bytes
		require.NoError(t, size.Set(text), text)
		require.Equal(t, want, size.String())
		again := size
		require.NoError(t, again.Set(size.String()))
		require.Equal(t, size, again)
	}
	for _, text := range []string{"", "x", "-1", "-1MiB", "1.5GiB", "1 GiB", "1MB", "MiB", "8388608TiB", "9223372036854775808", "1mib"} {
		size := settings.Bytes(7)
		require.ErrorContains(t, size.Set(text), "must be a number of bytes", text)
		require.Equal(t, settings.Bytes(7), size)
	}
}

func TestThePasswordOfADatabaseIsNotShown(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"sqlite:/a@b:c":                     "sqlite:/a@b:c",
		"mysql://u@h/db":                    "mysql://u@h/db",
		"mysql://u:geheim@h:1/db?tls=true":  "mysql://u:******@h:1/db?tls=true",
		"postgres://u:ge:h@eim@h/db":        "postgres://u:******@h/db",
		"postgres://h/db?a=b&password=ge&c": "postgres://h/db?a=b&password=******&c",
		"mysql://u:geheim@h:bad%/not a url": "mysql://u:******@h:bad%/not a url",
	} {
		var d settings.DSN
		require.NoError(t, d.Set(text))
		require.Equal(t, want, d.String())
		require.Equal(t, settings.DSN(text), d)
	}
}
