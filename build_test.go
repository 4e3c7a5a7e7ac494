package confcenter_test

import (
	"net/http"
	"net/http/httptest"
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
	cmd := exec.Command("make", "--no-print-directory", target)
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
	for _, target := range []string{"build", "test"} {
		said := makeWithProxy(t, target, "off")
		require.Len(t, said, 1, "make %s: %q", target, said)
		require.Regexp(t, `^error: could not fetch \S+@v\S+ \(module lookup disabled by GOPROXY=off\); `, said[0])
	}
}

func TestModuleWithRefusedArchiveIsNamedInOneLine(t *testing.T) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	known := http.FileServer(http.Dir(filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/github.com/panjf2000/gnet/") && strings.HasSuffix(r.URL.Path, ".zip") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		known.ServeHTTP(w, r)
	}))
	defer proxy.Close()

	t.Setenv("CGO_ENABLED", "0")
	cmd := exec.Command("go", "list", "-deps", "-tags=nognet", "./cmd/confcenter")
	cmd.Env = append(os.Environ(), "GOMODCACHE="+t.TempDir(), "GOPROXY="+proxy.URL, "GOFLAGS=-modcacherw")
	needed, err := cmd.CombinedOutput()
	require.NoError(t, err, "there is a build without it: %s", needed)
	require.NotContains(t, string(needed), "gnet")
	out, err := exec.Command("go", "build", "-tags=nognet", "-o", os.DevNull, "./cmd/confcenter").CombinedOutput()
	require.NoError(t, err, "%s", out)

	said := makeWithProxy(t, "build", proxy.URL)
	require.Len(t, said, 1, "%q", said)
	require.Regexp(t, `^error: could not fetch github\.com/panjf2000/gnet/v2@v2\.9\.8 \(.*403 Forbidden`, said[0])
}
