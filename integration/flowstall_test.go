package integration

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/integration/process"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
)

// holder takes a lock and keeps it as long as it can.
const holder = `
fence=$("$CONFCENTER" flow lock job sleeper 5 -o json | sed 's/.*"fence": *\([0-9]*\).*/\1/')
echo "fence $fence"
while "$CONFCENTER" flow lock job sleeper 5 --fence "$fence" >/dev/null; do echo kept; done
"$CONFCENTER" flow unlock job sleeper "$fence"
echo "unlock $?"
`

// C29: the holder of a lock stands still for longer than the 5 s that the lock is for. When it goes
// on, another has the lock, and it can neither prolong nor end it.
func TestC29AHolderThatStallsIsFenced(t *testing.T) {
	t.Parallel()
	p := process.Start(t, t.TempDir())
	ctx := modeltest.Context(t)
	c, err := client.Dial(ctx, client.Config{Addrs: []string{p.Addr}, Name: "test"})
	require.NoError(t, err)
	defer c.Close()
	model := calls.Flow(c)
	w, err := model.Watch(ctx, "", "job.lock.owner", 0)
	require.NoError(t, err)
	defer w.Stop()

	binary, err := process.Binary()
	require.NoError(t, err)
	sleeper := exec.Command("sh", "-c", strings.ReplaceAll(holder, `"$CONFCENTER"`, binary))
	sleeper.Env = append(sleeper.Environ(), "CONFCENTER_ADDR="+p.Addr)
	sleeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it and what it runs
	sleeper.Stderr = t.Output()
	out, err := sleeper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, sleeper.Start())
	signal := func(s syscall.Signal) { _ = syscall.Kill(-sleeper.Process.Pid, s) }
	t.Cleanup(func() {
		signal(syscall.SIGKILL)
		_ = sleeper.Wait()
	})
	lines := bufio.NewScanner(out)
	line := func() string {
		require.True(t, lines.Scan(), "the holder has ended")
		return lines.Text()
	}
	var fence int64
	_, err = fmt.Sscanf(line(), "fence %d", &fence)
	require.NoError(t, err)
	require.Equal(t, "kept", line())

	signal(syscall.SIGSTOP)
	other, err := model.TryLock(ctx, &flow.LockAsk{Key: "job", Owner: "other"})
	require.NoError(t, err)
	for !other.Granted {
		n, err := w.Next(ctx)
		require.NoError(t, err)
		if slices.ContainsFunc(n.List, func(c flow.Change) bool { return c.Expired }) {
			other, err = model.TryLock(ctx, &flow.LockAsk{Key: "job", Owner: "other"})
			require.NoError(t, err)
		}
	}
	require.Greater(t, other.Fence, fence)

	signal(syscall.SIGCONT)
	last := line()
	for last == "kept" { // said before it stood still
		last = line()
	}
	require.Regexp(t, `^unlock [1-9]`, last)
	_, err = model.Unlock(ctx, &flow.UnlockAsk{Key: "job", Owner: "sleeper", Fence: fence})
	require.Equal(t, codes.FenceLost, codes.Of(err))
	_, err = model.Unlock(ctx, &flow.UnlockAsk{Key: "job", Owner: "other", Fence: other.Fence})
	require.NoError(t, err)
}
