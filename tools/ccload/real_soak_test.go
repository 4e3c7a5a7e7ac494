//go:build soak

package main

import (
	"bytes"
	"encoding/json"
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
	want := map[string]int{"get": 3, "path": 1, "change": 2, "push": 3, "idle": 1, "tls": 4, "access": 6, "isolation": 12, "save": 2, "set": 1, "history": 1, "start": 2, "startold": 1, "stall": 2, "kvget": 2, "kvput": 6, "kvwatch": 1, "kvmillion": 4, "storage": 4, "landing": 3, "cold": 1, "flow": 5, "node": 2, "httpput": 2, "httpget": 1, "httpsse": 1, "httpunread": 2, "siege": 4, "dump": 2, "tap": 1, "builds": 8}
	require.Len(t, groups, len(want))
	dump := filepath.Join(t.TempDir(), "ccdump")
	build := exec.Command("go", "build", "-o", dump, "confcenter/tools/ccdump")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	built, err := build.CombinedOutput()
	require.NoError(t, err, string(built))
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel() // most of the time goes into ends of servers
			cfg := benchConfig{
				server: self, before: self, dump: dump, dir: t.TempDir(), only: []string{g.name}, slice: 20 * time.Millisecond, stallPause: 20 * time.Millisecond, siege: 100 * time.Millisecond, output: formatJSON,
				benchSizes: benchSizes{
					pairs: 1, paths: 50, startFiles: 50, versions: 3, subscribers: 30, idle: 30, stalled: 10, bound: 1 << 20,
					keys: 600, many: 1200, watchers: 30, streams: 30, dumpSize: 1, dirty: 3000, landed: 3000, tasks: 200,
				},
			}
			require.NoError(t, cfg.check())
			var out, status bytes.Buffer
			require.NoError(t, runBench(t.Context(), cfg, -1, &out, &status), status.String())
			names := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				var f figure
				require.NoError(t, json.Unmarshal([]byte(line), &f), line)
				names[f.Name] = true
			}
			require.Len(t, names, want[g.name], "%v", names)
			left, err := os.ReadDir(cfg.dir)
			require.NoError(t, err)
			require.Empty(t, left, "nothing stays behind")
		})
	}
}
