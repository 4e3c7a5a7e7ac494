package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStatus(t *testing.T) {
	text := []byte("Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n")
	n, err := parseStatus(text, residentNow)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, n)
	n, err = parseStatus(text, residentPeak)
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, n)
	_, err = parseStatus(text, "VmSwap")
	require.ErrorContains(t, err, "VmSwap")
	_, err = parseStatus([]byte("VmRSS: many\n"), residentNow)
	require.Error(t, err)
}

func TestParseSockstat(t *testing.T) {
	text := "sockets: used 9\nTCP: inuse 5 orphan 0 tw 0 alloc 7 mem 31\nUDP: inuse 0 mem 2\n"
	require.EqualValues(t, 31, parseSockstat([]byte(text)))
	require.Zero(t, parseSockstat(nil))
}

func TestPinnedUsesTaskset(t *testing.T) {
	require.Equal(t, []string{"taskset", "-c", "0", "x", "y"}, pinned(0, []string{"x", "y"}))
	require.Equal(t, []string{"x"}, pinned(-1, []string{"x"}))
}

func TestShare(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 7} {
		sum := 0
		for i := range threads {
			sum += share(10, threads, i)
		}
		require.Equal(t, 10, sum)
	}
}

// ccload itself, as another process.
func startSelf(t *testing.T, args ...string) *process {
	t.Helper()
	t.Setenv(asProgram, "1")
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := startProcess(serverCore, t.TempDir(), "self", append([]string{self}, args...))
	require.NoError(t, err)
	t.Cleanup(p.stop)
	return p
}

func TestAServerProcess(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)
	p := startSelf(t, "ceiling", "--listen", addr)
	p.addr = addr
	require.NoError(t, p.ready(t.Context(), time.Minute))
	require.Contains(t, p.printed(), "listening on "+addr)
	resident, err := memory(p.pid, residentNow)
	require.NoError(t, err)
	require.Positive(t, resident)

	l := testLoop(t)
	before := cpuTime(p.pid)
	conns, err := l.identify(dialing{addr: addr}, 4)
	require.NoError(t, err)
	_, err = newClosedLoop(l, conns, 4, readTape(newRandom(0), fileNames(3))).run(50 * time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, cpuTime(p.pid), before)

	p.stop()
	require.ErrorContains(t, p.ready(t.Context(), time.Minute), "self has ended")
	require.Zero(t, p.cmd.ProcessState.ExitCode(), p.printed())
	p.stop() // nothing happens
}

func TestAProcessThatEndsIsReported(t *testing.T) {
	p := startSelf(t, "get", "--nope")
	var err error
	p.addr, err = freeAddr()
	require.NoError(t, err)
	err = p.ready(t.Context(), time.Minute)
	require.ErrorContains(t, err, "unknown flag: --nope")
	_, err = startProcess(-1, t.TempDir(), "none", []string{"/does/not/exist"})
	require.ErrorContains(t, err, "start none")
}

func TestCPUTimeOfNobody(t *testing.T) {
	require.Zero(t, cpuTime(1<<30))
	_, err := memory(1<<30, residentNow)
	require.Error(t, err)
	require.True(t, strings.HasPrefix(err.Error(), "open"))
}
