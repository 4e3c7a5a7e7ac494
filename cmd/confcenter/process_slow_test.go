//go:build !race || soak

package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that was built without SQLite says so, wherever a database is named, and what to do.
func TestABinaryWithoutSQLiteSaysSo(t *testing.T) {
	file, err := buildBinary("nosqlite", "-tags", "nosqlite")
	require.NoError(t, err)
	say := func(args ...string) (text string, code int) {
		cmd := exec.Command(file, args...)
		out, _ := cmd.CombinedOutput() // the exit code says it too
		return string(out), cmd.ProcessState.ExitCode()
	}
	text, code := say("version")
	require.Equal(t, exitOK, code)
	require.Equal(t, fmt.Sprintf("confcenter v0-test (%s, %s/%s, tags nosqlite)\n", runtime.Version(), runtime.GOOS, runtime.GOARCH), text)
	text, _ = say("version", "-o", "json")
	require.Contains(t, text, `"tags":["nosqlite"]`)

	conf, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
	addr := p.log.await(t, "ready").Address
	for _, args := range [][]string{
		{"serve", "--conf", conf, "--data", t.TempDir(), "--landing", "sqlite:players.db"},
		{"serve", "--check-config", "--landing", "sqlite:players.db"},
		{"landing", "--addr", addr, "--dsn", "sqlite:players.db"},
		at(addr, "storage", "import", "--from", "sqlite:players.db", "--landing", "mysql://h/db"),
		at(addr, "storage", "import", "--from", "mysql://h/db", "--landing", "sqlite:players.db"),
	} {
		text, code := say(args...)
		require.Equal(t, exitUsage, code, text)
		require.Contains(t, text, "it begins with sqlite:, and this program was built without SQLite (make build has it)", args)
		args[slices.Index(args, "sqlite:players.db")] = "oracle://h/db"
		text, _ = say(args...)
		require.Contains(t, text, "it must begin with mysql://, postgres:// or sqlite:", args)
	}
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}
