package http

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
)

// gzipped is how what `go tool pprof` reads begins.
const gzipped = "\x1f\x8b"

func TestProfilesAreForAdministrators(t *testing.T) {
	caller := guardtest.Caller(t, "* *")
	k := start(t, func(cfg *Config, _ *Stores) {
		cfg.letIn(func() *guard.Caller { return caller })
	})
	require.Equal(t, http.StatusForbidden, k.do("GET", "/debug/pprof/heap", "").status)
	root := &access.Identity{Name: "token:root", Groups: []string{access.Administrators}}
	caller = &guard.Caller{Who: root, Permits: policy.New().Of(root)}
	for _, name := range []string{"heap", "goroutine", "profile?seconds=1"} {
		got := k.do("GET", "/debug/pprof/"+name, "")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, gzipped, got.body[:len(gzipped)], name)
	}
	for name, status := range map[string]int{"cmdline": 404, "profile?seconds=0": 400, "profile?seconds=61": 400, "profile?seconds=x": 400} {
		require.Equal(t, status, k.do("GET", "/debug/pprof/"+name, "").status, name)
	}
}
