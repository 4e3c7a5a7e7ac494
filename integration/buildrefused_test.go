//go:build soak

package integration

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
	cmd := exec.Command("go", "list", "-C", "..", "-deps", "-tags=nognet", "./cmd/confcenter")
	cmd.Env = append(os.Environ(), "GOMODCACHE="+t.TempDir(), "GOPROXY="+proxy.URL, "GOFLAGS=-modcacherw")
	needed, err := cmd.CombinedOutput()
	require.NoError(t, err, "there is a build without it: %s", needed)
	require.NotContains(t, string(needed), "gnet")
	out, err := exec.Command("go", "build", "-C", "..", "-tags=nognet", "-o", os.DevNull, "./cmd/confcenter").CombinedOutput()
	require.NoError(t, err, "%s", out)

	said := makeWithProxy(t, "build", proxy.URL)
	require.Len(t, said, 1, "%q", said)
	require.Regexp(t, `^error: could not fetch github\.com/panjf2000/gnet/v2@v2\.9\.8 \(.*403 Forbidden`, said[0])
}
