package gateway

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// gzipped is how what `go tool pprof` reads begins.
const gzipped = "\x1f\x8b"

func TestProfilesAreForThoseWhoMayGrantRights(t *testing.T) {
	k, with := rightsKit(t)
	with("* status", "* config", "* kv")
	require.Equal(t, http.StatusForbidden, k.do("GET", "/debug/pprof/heap", "").status)
	with("grant roles")
	for _, name := range []string{"heap", "goroutine", "profile?seconds=1"} {
		got := k.do("GET", "/debug/pprof/"+name, "")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, gzipped, got.body[:len(gzipped)], name)
	}
	for name, status := range map[string]int{"cmdline": 404, "profile?seconds=0": 400, "profile?seconds=61": 400, "profile?seconds=x": 400} {
		require.Equal(t, status, k.do("GET", "/debug/pprof/"+name, "").status, name)
	}
}
