package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
)

func TestMemoryOfThisProcess(t *testing.T) {
	m, err := memoryOf(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, m.now, int64(1<<20))
	require.GreaterOrEqual(t, m.peak, m.now)
}

// The benchmark itself may be large when it starts small programs.
func TestThePeakOfAProcessIsItsOwn(t *testing.T) {
	ballast := bytes.Repeat([]byte{1}, 64<<20)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended, seen := make(chan struct{}), make(chan int64)
	go func() { seen <- peakUntil(ended, cmd.Process.Pid) }()
	close(ended) // it looks once at least
	peak := <-seen
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.Positive(t, peak)
	require.Less(t, peak, int64(len(ballast)/2))
}

func TestCPUTimeOfNobody(t *testing.T) {
	require.Zero(t, cpuTime(1<<30))
	_, err := memoryOf(1 << 30)
	require.Error(t, err)
}

func TestProgramTimeLeavesOutWhatIsIdle(t *testing.T) {
	require.Equal(t, 20*time.Second, programTime(procfs.CPUStat{User: 1, Nice: 2, System: 3, IRQ: 5, SoftIRQ: 9, Idle: 100, Iowait: 100, Steal: 100}))
}

func TestOthers(t *testing.T) {
	before := machineUse{at: time.Second, all: 10 * time.Second, own: time.Second}
	after := machineUse{at: 3 * time.Second, all: 13 * time.Second, own: 3 * time.Second}
	require.Equal(t, 0.25, after.others(before, 2), "one of the three seconds that were used, of four")
	require.Zero(t, before.others(before, 2))
	require.Zero(t, machineUse{at: 2 * time.Second, all: 10 * time.Second, own: 9 * time.Second}.others(before, 2))
}
