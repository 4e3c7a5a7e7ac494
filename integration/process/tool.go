package process

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tool runs a verb of the binary that needs no connection.
func Tool(t testing.TB, args ...string) (code int, said string) {
	t.Helper()
	cmd := ToolCommand(t, args...)
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// ToolCommand is how Tool runs it.
func ToolCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path, err := Binary()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"TZ=UTC"}
	return cmd
}

// Must runs a verb that must succeed.
func Must(t testing.TB, args ...string) string {
	t.Helper()
	code, said := Tool(t, args...)
	require.Zero(t, code, "%v: %s", args, said)
	return said
}
