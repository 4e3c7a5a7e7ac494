package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.Contains(t, do("", "kv", "get", "game", "k", "--reveal"), `"hunter2"`)

	require.Contains(t, do("", "secret", "status"), "seals: true")
	newest := strings.TrimSpace(strings.TrimPrefix(strings.Split(do("", "secret", "rotate"), "\n")[0], "newest:"))
	do("again", "set", "db", "/password", "--secret")
	require.Contains(t, do("", "get", "db", "/password"), "$secret:v1:"+newest+":")
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
	t.Setenv(keyVariable, "never printed")
	require.NotContains(t, call(t, "", "serve", "--print-config", "--conf", t.TempDir()).stdout, "never printed")
}
