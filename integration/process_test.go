package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
)

// Process is the real binary.
type Process = process.Process

// StartProcess serves conf until the test ends.
func StartProcess(t *testing.T, conf string, flags ...string) *Process {
	t.Helper()
	return process.Start(t, conf, flags...)
}

// sampleConf is a copy of the sample configuration that a test may change.
func sampleConf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "conf"))))
	return dir
}
