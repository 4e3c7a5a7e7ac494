package confcenter_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func spikes(t *testing.T) []string {
	patches, err := filepath.Glob("testdata/spikes/*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	return patches
}

// What `make soak` builds and tests has to fit the tree at any time.
func TestSpikesApply(t *testing.T) {
	for _, path := range spikes(t) {
		run(t, ".", nil, "git", "apply", "--check", path)
	}
}

func run(t *testing.T, dir string, in []byte, name string, args ...string) []byte {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, args, out)
	return out
}
