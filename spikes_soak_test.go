//go:build soak

package confcenter_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A patch in testdata/spikes is what something new costs that the house is built for. Its head says which
// tests show that it works, and in how many files it may be written by hand; the rest is generated.
var (
	spikeFiles = regexp.MustCompile(`(?m)^files: (\d+)$`)
	spikeFile  = regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`)
)

// TestSpikes applies each to a copy of the tree, generates what follows, builds, and tests.
func TestSpikes(t *testing.T) {
	for _, path := range spikes(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".patch"), func(t *testing.T) {
			patch, err := os.ReadFile(path)
			require.NoError(t, err)
			files, tests := spikeFiles.FindSubmatch(patch), spikeTests.FindSubmatch(patch)
			require.NotNil(t, files)
			require.NotNil(t, tests)
			most, err := strconv.Atoi(string(files[1]))
			require.NoError(t, err)
			written := spikeFile.FindAllSubmatch(patch, -1)
			require.LessOrEqual(t, len(written), most, "%s", written)

			copied := copyOfTheTree(t)
			run(t, copied, patch, "git", "apply", "--whitespace=nowarn", "-")
			run(t, copied, nil, "go", "generate", "./internal/generate/...")
			run(t, copied, nil, "go", "build", "./...")
			// What has been applied does not apply once more.
			run(t, copied, nil, "go", append([]string{"test", "-skip", "^TestSpikesApply$", "."}, strings.Fields(string(tests[1]))...)...)
		})
	}
}

// copyOfTheTree has the files that git knows, or would add.
func copyOfTheTree(t *testing.T) string {
	dir := t.TempDir()
	list := run(t, ".", nil, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	run(t, dir, nil, "git", "init", "-q") // or git would apply the patch to a repository above
	run(t, dir, nil, "git", "add", "-A")
	return dir
}
