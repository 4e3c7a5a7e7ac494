package integration

import (
	"os"
	"os/exec"
	"path/filepath"
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
		if !strings.HasPrefix(line, "make: ***") && !strings.HasPrefix(line, "go: downloading ") {
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

// A first start takes minutes: it says what it is about, and in the end where to look.
func TestMakeRunSaysWhatItDoes(t *testing.T) {
	dir := t.TempDir()
	toolchain := filepath.Join(dir, "go")
	require.NoError(t, os.WriteFile(toolchain, []byte(`#!/bin/sh
case "$1" in
list) echo 'go: downloading example.com/module v1.2.3' >&2 ;;
build)
	while [ "$1" != -o ]; do shift; done
	printf '#!/bin/sh\necho "$*"\necho console: http://127.0.0.1:8080/\n' >"$2"
	chmod +x "$2" ;;
esac
`), 0o755))
	cmd := exec.Command("make", "-C", "..", "--no-print-directory", "run", "GO="+toolchain, "BIN="+dir)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=0", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?s)^go: downloading example\.com/module v1\.2\.3\nbuilding .*first time.*serve --listen 127\.0\.0\.1:4800 --conf \./conf .*\nconsole: http://127\.0\.0\.1:8080/\n$`, string(out))
}
