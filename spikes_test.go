package confcenter_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spikeTests finds which tests show that a patch works.
var spikeTests = regexp.MustCompile(`(?m)^tests: (.+)$`)

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
		patch, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, dir := range strings.Fields(string(spikeTests.FindSubmatch(patch)[1])) {
			require.DirExists(t, strings.TrimSuffix(dir, "/..."), path)
		}
	}
}

func run(t *testing.T, dir string, in []byte, name string, args ...string) []byte {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, args, out)
	return out
}
