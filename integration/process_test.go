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
	return process.SampleConf(t)
}

// confWith is the sample with further files.
func confWith(t *testing.T, files map[string]string) string {
	t.Helper()
	conf := sampleConf(t)
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(conf, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o600))
	}
	return conf
}
