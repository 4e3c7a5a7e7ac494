//go:build soak

package siege

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/flood"
)

// controlGroup makes a control group below the test's own with a limit on memory, and
// returns its directory; empty if that is not allowed here.
func controlGroup(t *testing.T, limit int64) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, file := "", ""
		switch part[1] {
		case "memory":
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case "":
			root, file = "/sys/fs/cgroup", "memory.max"
		default:
			continue
		}
		dir := filepath.Join(root, part[2], fmt.Sprintf("siege-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0o644) == nil {
			t.Cleanup(func() {
				eventually(t, "the control group is empty", func() bool { return os.Remove(dir) == nil })
			})
			return dir
		}
		require.NoError(t, os.Remove(dir))
	}
	return ""
}

// No one has told this server how much it may use; the kernel ends it if it uses more.
// Where no control group can be made, it is told, and the test looks at what it uses.
func TestEverythingWithinAControlGroup(t *testing.T) {
	const limit = 256 * mib
	const budget = limit * 3 / 4
	flags := []string{"--exempt-networks", "192.0.2.0/24", "--log-level", "info"}
	before := "ulimit -n 4096"
	if group := controlGroup(t, limit); group != "" {
		before += fmt.Sprintf("; echo $$ >%s/cgroup.procs", group)
	} else {
		t.Log("no control group can be made here, so the server is told its budget")
		flags = append(flags, "--memory", fmt.Sprintf("%dMiB", budget/mib))
	}
	p := process.New(t, confDir(t), flags...)
	p.Before = before
	p.Start()
	b := &besieged{t: t, Process: p, budget: budget, w: watch(t, p), before: p.Memory()}
	text, err := webGet(web, "http://"+p.HTTP+"/metrics")
	require.NoError(t, err)
	require.Contains(t, text, fmt.Sprintf("confcenter_memory_budget_bytes %v\n", float64(b.budget)))

	f, err := flood.New(p.Addr, p.HTTP, 1000)
	require.NoError(t, err)
	defer f.Close()
	b.putLarge(10)
	sets, keys := hugeSets(p, 50), tinyKeys(p, 400_000)
	all := []*crowd{sets, keys, unfinishedBodies(p, 100), unreadStreams(p, 200), unreadPeers(p, 100), wideClients(p, 100)}
	// The flood would keep out who has not said yet who they are. Where memory runs out the server
	// may close all of the others before they get far.
	comesTrue(func() bool { return sets.accepted.Load()+sets.refused.Load()+keys.accepted.Load() > 0 })
	for f.Begun < 10_000 {
		require.NoError(t, f.Connect())
	}
	for _, g := range all {
		g.over()
	}
	b.putSmall()
	b.over(func() {
		for _, g := range all {
			g.disperse()
		}
		c, err := enter(b.Addr, "witness")
		require.NoError(t, err)
		defer c.Close()
		dropTiny(t, c)
	})
}
