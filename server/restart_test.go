package server

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/health"
)

// A restart helps once the disk has taken three writes in a row while one is due.
func TestARestartIsAskedForWhenTheDiskTakesWritesAgain(t *testing.T) {
	trouble := &health.Trouble{Kind: health.Failed, Err: syscall.EIO}
	var sick atomic.Bool
	probes := 0
	d := &restartDue{
		troubles: []func() *health.Trouble{func() *health.Trouble { return nil }, func() *health.Trouble { return trouble }},
		probe: func() error {
			if probes++; sick.Load() {
				return syscall.EIO
			}
			return nil
		},
	}
	look := func(times int) {
		for range times {
			d.look()
			require.Eventually(t, func() bool { return !d.probing.Load() }, time.Minute, time.Millisecond)
		}
	}
	look(5)
	require.Zero(t, probes, "what ends by itself needs no restart")
	require.NoError(t, d.err())
	trouble.Restart = true
	require.ErrorIs(t, d.err(), syscall.EIO)
	sick.Store(true)
	look(5)
	require.NoError(t, d.helps())
	sick.Store(false)
	look(2)
	require.NoError(t, d.helps())
	sick.Store(true)
	look(1)
	sick.Store(false)
	look(2)
	require.NoError(t, d.helps(), "in a row")
	look(1)
	require.ErrorIs(t, d.helps(), syscall.EIO)
	trouble.Kind = health.Missing
	require.NoError(t, d.helps(), "it would not start")
	trouble = nil
	require.NoError(t, d.helps())
}
