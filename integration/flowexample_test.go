package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/integration/process"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
)

// Two schedulers and three workers, of which one takes for ever and is killed: what it had runs
// elsewhere, and everything is done in the end.
func TestTasksOfAKilledWorkerRunElsewhere(t *testing.T) {
	program := filepath.Join(t.TempDir(), "flow")
	require.NoError(t, process.Build(program, ".", "./examples/flow"))
	p := process.Start(t, t.TempDir())
	ctx := modeltest.Context(t)
	c, err := client.Dial(ctx, client.Config{Addrs: []string{p.Addr}, Name: "test"})
	require.NoError(t, err)
	defer c.Close()
	model := calls.Flow(c)

	const nodes = 20
	parts := []flow.Part{{Key: "sess.E"}, {Key: "flow.F", Parent: "sess.E"}}
	for i := range nodes {
		parts = append(parts, flow.Part{Key: fmt.Sprint("node.N", i), Parent: "flow.F"})
	}
	_, err = model.Register(ctx, &flow.RegisterAsk{App: "A", Parts: parts})
	require.NoError(t, err)

	start := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append([]string{p.Addr}, args...)...)
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	slow := start("worker", "slow", time.Hour.String())
	start("scheduler", "S1")
	start("scheduler", "S2")
	w, err := model.Watch(ctx, "", "flow.F.node.", 0)
	require.NoError(t, err)
	defer w.Stop()
	exited, lost := map[string]bool{}, ""
	for len(exited) < nodes {
		n, err := w.Next(ctx)
		require.NoError(t, err, "%d of %d have exited", len(exited), nodes)
		for i := range n.List {
			one := &n.List[i]
			if one.Is() == flow.Working && lost == "" { // of the only worker there is
				lost = one.Key.Member.String()
				require.NoError(t, slow.Process.Kill())
				start("worker", "W1", "1ms")
				start("worker", "W2", "1ms")
			}
			if one.Is() == flow.Exited {
				exited[one.Key.Member.String()] = true
			}
		}
	}
	log, err := model.Oplog(ctx, &flow.LogAsk{Key: lost})
	require.NoError(t, err)
	var said []string
	for _, line := range log.Lines {
		said = append(said, line.What)
	}
	require.Contains(t, said, "WORKING -> WAITING: returned by wokr.slow")
	require.Contains(t, strings.Join(said, "\n"), "WORKING -> EXITED")
	left, err := model.Assigned(ctx, &flow.AssignedAsk{Worker: "wokr.slow"})
	require.NoError(t, err)
	require.Empty(t, left.Tasks)
}
