//go:build soak

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every group prints its figures, though they mean nothing at this size.
func TestBenchPrintsEveryFigure(t *testing.T) {
	t.Setenv(asProgram, "both")
	self, err := os.Executable()
	require.NoError(t, err)
	want := map[string]int{"get": 3, "path": 1, "push": 3, "idle": 1, "tls": 4, "isolation": 3, "save": 2, "set": 1, "history": 1, "start": 2, "startold": 1, "kvget": 2, "kvput": 5, "kvwatch": 1, "landing": 1, "cold": 1, "flow": 4, "node": 2, "httpput": 2, "httpget": 1, "httpsse": 1, "httpunread": 2, "siege": 4, "dump": 1, "tap": 1, "builds": 8}
	require.Len(t, groups, len(want))
	dump := filepath.Join(t.TempDir(), "ccdump")
	build := exec.Command("go", "build", "-o", dump, "confcenter/tools/ccdump")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	built, err := build.CombinedOutput()
	require.NoError(t, err, string(built))
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel() // most of the time goes into ends of servers
			cfg := benchConfig{server: self, before: self, dump: dump, dir: t.TempDir(), only: []string{g.name}, pairs: 1, slice: 20 * time.Millisecond, part: 300}
			require.NoError(t, cfg.check())
			var out bytes.Buffer
			require.NoError(t, runBench(t.Context(), cfg, -1, &out))
			names := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				name, _, _ := strings.Cut(line, "  ")
				names[name] = true
			}
			require.Len(t, names, want[g.name], out.String())
			left, err := os.ReadDir(cfg.dir)
			require.NoError(t, err)
			require.Empty(t, left, "nothing stays behind")
		})
	}
}
