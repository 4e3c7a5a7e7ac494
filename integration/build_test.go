package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// makeWithProxy runs make with no module at hand but those a proxy gives, and returns what
// it says beside what is being downloaded.
func makeWithProxy(t *testing.T, target, proxy string) []string {
	t.Helper()
	cmd := exec.Command("make", "-C", "..", "--no-print-directory", target)
	cmd.Env = append(os.Environ(), "GOMODCACHE="+t.TempDir(), "GOPROXY="+proxy, "GOFLAGS=-modcacherw -buildvcs=false", "MAKEFLAGS=", "MAKELEVEL=0")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "make: ***") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestUnfetchableModuleIsNamedInOneLine(t *testing.T) {
	for _, target := range []string{"run", "build", "check", "test"} {
		said := makeWithProxy(t, target, "off")
		require.Len(t, said, 1, "make %s: %q", target, said)
		require.Regexp(t, `^error: could not fetch \S+@v\S+ \(module lookup disabled by GOPROXY=off\); `, said[0])
	}
}
