package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/cmd/confcenter/screen"
)

// onTerminal runs the program with a terminal for its output, and returns what that is sent.
func onTerminal(t *testing.T, args ...string) (shown string, code int) {
	keyboard, terminal := openTerminal(t)
	attributes, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	require.NoError(t, err)
	attributes.Oflag &^= unix.OPOST // which puts a carriage return before each line end
	require.NoError(t, unix.IoctlSetTermios(int(terminal.Fd()), unix.TCSETS, attributes))
	code = run(t.Context(), args, strings.NewReader(""), terminal, terminal)
	const end = "the end of it"
	_, err = terminal.WriteString(end)
	require.NoError(t, err)
	var all strings.Builder
	part := make([]byte, 1<<16)
	require.NoError(t, keyboard.SetReadDeadline(time.Now().Add(patience)))
	for !strings.HasSuffix(all.String(), end) {
		n, err := keyboard.Read(part)
		require.NoError(t, err)
		all.Write(part[:n])
	}
	return strings.TrimSuffix(all.String(), end), code
}

// Anyone who writes a name or a value controls no one's terminal by it.
func TestATerminalIsSentNothingThatControlsIt(t *testing.T) {
	addr := store(t)
	const hostile = "a\x1b]0;t\x07\u009b31m\u202e\u2066\u200f\u061c\u2028\U000e0041\r\b\x7fz\tä\u200d\r\nb"
	const escaped = `a\u001b]0;t\u0007\u009b31m\u202e\u2066\u200f\u061c\u2028\udb40\udc41\u000d\u0008\u007fz` + "\tä\u200d\r\nb"
	quoted, err := json.Marshal(map[string]string{"v": hostile, "n\u202e": "x"})
	require.NoError(t, err)
	for _, args := range [][]string{{"kv", "put", "ns", "text", hostile}, {"kv", "put", "ns", "k\u202ey", "v"}, {"kv", "put", "ns", "json", "--json", string(quoted)}} {
		require.Equal(t, exitOK, call(t, "", at(addr, args...)...).code)
	}
	require.Equal(t, exitOK, call(t, string(quoted), at(addr, "set", "hostile")...).code)
	show := func(line string) string {
		shown, code := onTerminal(t, at(addr, words(line)...)...)
		require.Equal(t, exitOK, code, shown)
		return shown
	}
	require.Equal(t, escaped+"\n", show("kv get ns text"))
	require.Equal(t, hostile, show("kv get ns text -o raw"))
	require.Contains(t, show("kv list ns --keys"), `k\u202ey`)
	require.Equal(t, hostile+"\n", call(t, "", at(addr, words("kv get ns text")...)...).stdout, "which is no terminal")
	for _, line := range []string{
		"kv get ns json", "kv get ns json -o json", "kv list ns", "kv list ns -o json", "kv history ns text", "kv history ns text -o json", "get hostile", "get hostile /v", "get hostile /v -r", "get hostile -o json",
		"history show hostile", "show hostile", "diff hostile 0", "blame hostile", "ls", "clients",
	} {
		shown, _ := onTerminal(t, at(addr, words(line)...)...)
		for _, r := range shown {
			require.True(t, r == '\n' || r == '\t' || r == '\r' || r == '\u200d' || r >= ' ' && r < '\x7f' || r >= '\u00a0' && !strings.ContainsRune("\u202e\u2066\u200f\u061c\u2028\U000e0041", r), "%s: %q", line, shown)
		}
	}
	shown, code := onTerminal(t, at(addr, "kv", "get", "ns", "no\u202esuch")...)
	require.Equal(t, exitNotFound, code)
	require.Contains(t, shown, `\u202e`)
	require.NotContains(t, shown, "\u202e")
	shown, _ = onTerminal(t, "frobnicate\x1b[2J")
	require.NotContains(t, shown, "\x1b")

	var value map[string]string
	require.NoError(t, json.Unmarshal([]byte(show("get hostile")), &value))
	require.Equal(t, hostile, value["v"], "it is the same JSON")
}

// Messages of the log name what peers have named.
func TestTheLogOnATerminalIsEscaped(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	log := screen.NewLog(screen.Of(terminal), zerolog.InfoLevel)
	log.Info().Str("name", "a\u202eb\x1b[2J").Msg("role a\u202eb\x1b[2J is broken")
	got := make([]byte, 4096)
	n, err := keyboard.Read(got)
	require.NoError(t, err)
	require.Contains(t, string(got[:n]), `role a\u202eb\u001b[2J is broken`)
	require.NotContains(t, string(got[:n]), "\u202e")
	require.NotContains(t, string(got[:n]), "\x1b[2J")
}

// What is written in parts is escaped as a whole.
func TestCharactersWrittenInPartsAreShownWhole(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	out := screen.Of(terminal)
	for _, part := range []string{"ä\xe2", "\x80", "\xae", "x\xc3", "\xa4\xf0\x9f"} {
		n, err := out.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	screen.Flush(out)
	want := `ä\u202exä\xf0\x9f`
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		k, err := keyboard.Read(got[n:])
		require.NoError(t, err)
		n += k
	}
	require.Equal(t, want, string(got))
}
