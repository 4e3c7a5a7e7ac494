package main

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
func startSelf(t *testing.T, addr string, args ...string) *process {
	t.Helper()
	t.Setenv(asProgram, "ccload")
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := startProcess(serverCore, t.TempDir(), "self", addr, append([]string{self}, args...))
	require.NoError(t, err)
	t.Cleanup(p.stop)
	return p
}

func TestAServerProcess(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)
	p := startSelf(t, addr, "ceiling", "--listen", addr)
	require.NoError(t, p.ready(t.Context(), addr, greet))

	l := testLoop(t)
	before := cpuTime(p.pid)
	conns, err := l.identify(addr, 4, false)
	require.NoError(t, err)
	_, err = newLoad(l, conns, readTape(newRandom(0), fileNames(3), "")).closed(4, 50*time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, cpuTime(p.pid), before)

	p.stop()
	require.Contains(t, p.printed(), "listening on "+addr)
	require.ErrorContains(t, p.ready(t.Context(), addr, greet), "self has ended")
	require.Zero(t, p.cmd.ProcessState.ExitCode(), p.printed())
	p.stop() // nothing happens
}

// Our server opens its port for a moment to probe it; a client that took that for
// readiness would be refused a moment later.
func TestAProbedPortIsNotTakenForReadiness(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)
	probe, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	served := make(chan error)
	go func() {
		c, err := probe.Accept()
		err = errors.Join(err, c.Close(), probe.Close())
		ln, listenErr := net.Listen("tcp", addr)
		if err = errors.Join(err, listenErr); err == nil {
			c, err = ln.Accept()
			serveFakeConn(c, nil)
			err = errors.Join(err, ln.Close())
		}
		served <- err
	}()
	p := &process{name: "probing", gone: make(chan struct{})}
	require.NoError(t, p.ready(t.Context(), addr, greet))
	require.NoError(t, <-served)
}

func TestAProcessThatEndsIsReported(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)
	p := startSelf(t, addr, "get", "--nope")
	require.ErrorContains(t, p.ready(t.Context(), addr, greet), "unknown flag: --nope")
	_, err = startProcess(-1, t.TempDir(), "none", "", []string{"/does/not/exist"})
	require.ErrorContains(t, err, "start none")
}
