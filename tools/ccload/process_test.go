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

// ccload itself, as another process.
func startSelf(t *testing.T, args ...string) *process {
	t.Helper()
	t.Setenv(asProgram, "ccload")
	self, err := os.Executable()
	require.NoError(t, err)
	p := startProcess(t.Context(), serverCore, append([]string{self}, args...))
	t.Cleanup(p.end)
	return p
}

func TestAServerProcess(t *testing.T) {
	addr := freeAddr()
	p := startSelf(t, "ceiling", "--listen", addr)
	require.NoError(t, p.ready(addr, greet))
	before := cpuTime(p.pid)
	conns := dial(t, addr, 4)
	script(t, func() {
		newLoad(conns, benchReads(0)).closed(4, 50*time.Millisecond)
		now, peak := p.memory()
		require.Greater(t, now, int64(1<<20))
		require.GreaterOrEqual(t, peak, now)
	})
	require.Greater(t, cpuTime(p.pid), before)

	p.end()
	require.ErrorContains(t, p.ready(addr, greet), "has ended")
	require.Zero(t, p.ProcessState.ExitCode(), string(p.printed()))
	p.end() // nothing happens
	require.Error(t, attempt(func() { p.memory() }))
	require.Zero(t, cpuTime(p.pid))
}

// Our server opens its port for a moment to probe it; a client that took that for
// readiness would be refused a moment later.
func TestAProbedPortIsNotTakenForReadiness(t *testing.T) {
	addr := freeAddr()
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
	p := &process{gone: make(chan struct{})}
	require.NoError(t, p.ready(addr, greet))
	require.NoError(t, <-served)
}

func TestAProcessThatEndsIsReported(t *testing.T) {
	p := startSelf(t, "bench", "--nope")
	require.ErrorContains(t, p.ready(freeAddr(), greet), "unknown flag: --nope")
	require.Error(t, attempt(func() { startProcess(t.Context(), -1, []string{"/does/not/exist"}) }))
}
