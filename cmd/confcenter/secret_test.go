package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/cmd/confcenter/serving"
)

func TestSecretsOfASession(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("0f", 32)), 0o600))
	addr, _ := serve(t, "--secret-key-file", key)
	do := func(stdin string, args ...string) string {
		t.Helper()
		r := call(t, stdin, at(addr, args...)...)
		require.Equal(t, exitOK, r.code, "%v %s", args, r.stderr)
		return r.stdout
	}
	do(`{"host":"db","login":{"$seal":{"user":"root"}}}`, "set", "db")
	do("hunter2 \"x\"\n", "set", "db", "/password", "--secret")
	require.NotContains(t, do("", "get", "db"), "hunter2")
	require.Equal(t, "hunter2 \"x\"\n", do("", "get", "db", "/password", "--raw", "--reveal"))
	require.Equal(t, "\"root\"\n", do("", "get", "db", "/login/user", "--reveal"))
	require.NotContains(t, do("", "watch", "db", "--count", "1"), "hunter2")
	require.Contains(t, do("", "watch", "db", "--count", "1", "--reveal"), "hunter2")

	before := do("", "get", "db")
	do(before, "set", "db")
	require.Equal(t, before, do("", "get", "db"), "what was printed is written back")
	do("", "set", "db", "/host", `"other"`)
	require.Contains(t, do("", "get", "db"), "$secret:", "another value does not reveal those beside it")
	require.NotContains(t, do("", "get", "db"), "hunter2")

	do("hunter2\n", "kv", "put", "game", "k", "--secret")
	require.NotContains(t, do("", "kv", "get", "game", "k"), "hunter2")
	require.Equal(t, "hunter2\n", do("", "kv", "get", "game", "k", "--reveal"))
	require.Contains(t, do("", "kv", "get", "game", "k", "-o", "json", "--reveal"), `"type":"string"`)
	do("7", "kv", "put", "game", "n", "--secret", "--type", "int")
	require.Contains(t, do("", "kv", "get", "game", "n", "-o", "json", "--reveal"), `"value":7,`)
	require.NotContains(t, do("hunter2", "kv", "put", "game", "k", "--secret", "-o", "json"), "hunter2")
	for _, args := range [][]string{
		{"kv", "mget", "game", "k", "n"}, {"kv", "list", "game"}, {"kv", "list", "game", "--all", "-o", "json"}, {"kv", "history", "game", "k"},
		{"kv", "watch", "game", "k", "--state", "--count", "1"},
	} {
		require.NotContains(t, do("", args...), "hunter2", args)
		require.Contains(t, do("", append(args, "--reveal")...), "hunter2", args)
	}
	const txn = `{"then":[{"op":"get","key":"k"},{"op":"put","key":"k","value":"hunter2","seal":true,"prev":true}]}`
	require.NotContains(t, do(txn, "kv", "txn", "game", "-o", "json"), "hunter2")
	require.Equal(t, 2, strings.Count(do(txn, "kv", "txn", "game", "-o", "json", "--reveal"), "hunter2"))

	require.Contains(t, do("", "secret", "status"), "seals: true")
	newest := strings.TrimSpace(strings.TrimPrefix(strings.Split(do("", "secret", "rotate"), "\n")[0], "newest:"))
	do("again", "set", "db", "/password", "--secret")
	require.Contains(t, do("", "get", "db", "/password"), "$secret:v1:"+newest+":")
}

// Without its key a server serves marks. A caller who asked for values must not take marks for them.
func TestWhatStaysSealedIsNoSuccess(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("0f", 32)), 0o600))
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0", "--secret-key-file", key)...)
	addr := p.log.await(t, "ready").Address
	require.Equal(t, exitOK, call(t, "hunter2", at(addr, "set", "a", "/password", "--secret")...).code)
	for _, k := range []string{"k", "l"} {
		require.Equal(t, exitOK, call(t, "hunter2", at(addr, "kv", "put", "game", k, "--secret")...).code)
	}
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
	p = startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
	addr = p.log.await(t, "ready").Address
	for line, want := range map[string]string{
		"get a": " a: ", "get a /password -o json": " a: ", "kv get game k": "game/k: ", "kv mget game k l": "game/k and 1 more: ",
		"kv list game": "game/k and 1 more: ", "kv history game k": "game/k: ", "get a /v": "",
		"kv list game --all": "game/k", "kv list game --keys": "",
	} {
		require.Equal(t, exitOK, call(t, "", at(addr, words(line)...)...).code, line)
		r := call(t, "", at(addr, words(line+" --reveal")...)...)
		if want == "" {
			require.Equal(t, exitOK, r.code, r.stderr)
			continue
		}
		require.Equal(t, exitRefused, r.code, line)
		require.Contains(t, r.stdout, "$secret:", line)
		require.Contains(t, r.stderr, want, line)
		require.Contains(t, r.stderr, "stay sealed", line)
	}
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}

func TestASecretIsNoArgument(t *testing.T) {
	for want, args := range map[string][]string{
		"NAME and PATH": {"set", "db", "/password", `"hunter2"`, "--secret"},
		"has no value":  {"set", "db", "/password", "--secret"},
		"needs NAME":    {"set", "db", "--secret"},
		"whole file":    {"set", "db", "/", "--secret"},
		"needs NS":      {"kv", "put", "game", "k", "v", "--secret"},
		"VALUE is":      {"kv", "put", "game", "k"},
		"give one":      {"serve", "--secret-key-file", "a", "--secret-key-command", "b", "--check-config"},
	} {
		stdin := ""
		if want == "whole file" {
			stdin = "x"
		}
		r := call(t, stdin, append(args, "--conf", t.TempDir())[:len(args)+2*strings.Count(args[0], "serve")]...)
		require.Equal(t, exitUsage, r.code, args)
		require.Contains(t, r.stderr, want)
	}
	r := call(t, "hunter2", "kv", "put", "game", "k", "--secret", "--type", "int")
	require.NotEqual(t, exitOK, r.code)
	require.NotContains(t, r.stdout+r.stderr, "hunter2")
	t.Setenv(serving.KeyVariable, "never printed")
	require.NotContains(t, call(t, "", "serve", "--print-config", "--conf", t.TempDir()).stdout, "never printed")
}

// echoes reports whether a terminal shows what is typed.
func echoes(t *testing.T, terminal *os.File) bool {
	settings, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return settings.Lflag&unix.ECHO != 0
}

// What is typed at the prompt is nowhere on the screen, and the terminal shows what is typed afterwards.
func TestASecretThatIsTypedIsNotShown(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("0f", 32)), 0o600))
	addr, _ := serve(t, "--secret-key-file", key)
	require.Equal(t, exitOK, call(t, "{}", at(addr, "set", "db")...).code)
	for _, c := range []struct{ write, read []string }{
		{[]string{"set", "db", "/password", "--secret"}, []string{"get", "db", "/password", "--raw", "--reveal"}},
		{[]string{"kv", "put", "game", "k", "--secret"}, []string{"kv", "get", "game", "k", "--reveal"}},
	} {
		keyboard, terminal := openTerminal(t)
		require.True(t, echoes(t, terminal))
		typed := make(chan error, 1)
		ctx := t.Context()
		go func() {
			for ctx.Err() == nil {
				settings, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
				if err == nil && settings.Lflag&unix.ECHO != 0 {
					runtime.Gosched() // it does not read a secret yet
					continue
				}
				if err == nil {
					_, err = keyboard.WriteString("hunter2 typed\n")
				}
				typed <- err
				return
			}
			typed <- ctx.Err()
		}()
		var stdout, stderr strings.Builder
		require.Equal(t, exitOK, run(ctx, at(addr, c.write...), terminal, &stdout, &stderr), stderr.String())
		require.NoError(t, <-typed)
		require.True(t, echoes(t, terminal), "as before")
		require.Regexp(t, `^\w+ \S+: \n$`, stderr.String(), "what is asked for, and the line that was typed is over")
		_, err := terminal.WriteString("the end")
		require.NoError(t, err)
		screen := ""
		for !strings.Contains(screen, "the end") {
			part := make([]byte, 1<<10)
			n, err := keyboard.Read(part)
			require.NoError(t, err)
			screen += string(part[:n])
		}
		require.NotContains(t, screen+stdout.String()+stderr.String(), "hunter2")
		require.Equal(t, "hunter2 typed\n", call(t, "", at(addr, c.read...)...).stdout)
	}
}
