//go:build soak

package siege

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/flood"
)

// Bare connects beyond the limit once ended the process: the event loop's library accepts
// without asking, and its acceptor ends on EMFILE.
func TestFloodsBeyondEveryLimit(t *testing.T) {
	for _, limit := range []struct {
		files, hold, connects int
		flags                 []string
	}{
		{4096, 8000, 200_000, nil},
		{20_000, 12_000, 400_000, nil},
		{1024, 700, 100_000, []string{"--max-connections", "100", "--http-max-connections", "50", "--max-unidentified", "40", "--max-per-address", "30"}},
	} {
		t.Run(fmt.Sprintf("%d_files", limit.files), func(t *testing.T) {
			p := process.New(t, confDir(t), append(limit.flags, strict...)...)
			p.Before = fmt.Sprintf("ulimit -n %d", limit.files)
			p.Start()
			w := watch(t, p)
			f, err := flood.New(p.Addr, p.HTTP, limit.hold)
			require.NoError(t, err)
			defer f.Close()
			slowest, begun := time.Duration(0), time.Now()
			for f.Begun < limit.connects {
				require.NoError(t, f.Connect())
				if f.Begun%2500 == 0 {
					slowest = max(slowest, newcomer(t, p))
				}
			}
			t.Logf("%d connects, %.0f/s", f.Begun, float64(f.Begun)/time.Since(begun).Seconds())
			w.relieve()
			t.Logf("a newcomer was in after %v at most", slowest.Round(time.Millisecond))
			f.Close()
			require.Positive(t, f.Evicted, "the limits were not met: %+v", f.Tally)
			eventually(t, "a stranger gets in when they are gone", func() bool {
				c, err := enter(p.Addr, "stranger")
				if err == nil {
					c.Close()
				}
				return err == nil
			})
			p.Stop()
		})
	}
}

// A server that stands still finds both of its listeners' queues full, and what was in
// them long gone.
func TestAStoppedServerComesBackToAFlood(t *testing.T) {
	p := process.New(t, confDir(t), strict...)
	p.Before = "ulimit -n 4096"
	p.Start()
	w := watch(t, p)
	f, err := flood.New(p.Addr, p.HTTP, 4000)
	require.NoError(t, err)
	defer f.Close()
	for range 3 {
		p.Signal(syscall.SIGSTOP)
		for range 12_000 {
			require.NoError(t, f.Connect())
		}
		p.Signal(syscall.SIGCONT)
		newcomer(t, p)
	}
	w.relieve()
	f.Close()
	p.Stop()
}
