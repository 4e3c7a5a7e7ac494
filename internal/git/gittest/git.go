// Package gittest makes real git repositories for tests.
package gittest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Git runs git in dir and returns what it prints. What the machine's user has configured does
// not count; commits are made by Ada Lovelace.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	command := exec.Command("git", append([]string{
		"-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "user.name=Ada Lovelace", "-c", "user.email=ada@example.com", "-c", "gc.auto=0",
	}, args...)...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := command.CombinedOutput()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// Write writes a file below dir, with the directories it is in.
func Write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// Commit commits everything in the work tree dir, and returns the commit's hash.
func Commit(t testing.TB, dir, message string) string {
	t.Helper()
	Git(t, dir, "add", "--all")
	Git(t, dir, "commit", "--allow-empty", "-m", message)
	return Git(t, dir, "rev-parse", "HEAD")
}
