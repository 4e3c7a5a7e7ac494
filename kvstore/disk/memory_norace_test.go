//go:build !race

package disk

import (
	"fmt"
	"strings"
	"testing"

	"confcenter/internal/memory"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

// The sizes of everything in memory follow the pool, and what is in use stays within it.
func TestASmallPoolMakesASmallEngine(t *testing.T) {
	pool := memory.NewPool(memory.Least / 1000 * 50)
	s := newStore(t, func(c *Config) { c.Engine = pool })
	require.Less(t, 2*s.disk.cfg.MemTableBytes+s.disk.cfg.CacheBytes+2*s.disk.cfg.TableBytes, pool.Limit())
	value := strings.Repeat("v", 2000)
	for i := range 10_000 {
		s.put(op{"ns", fmt.Sprint("key", i%100), value})
		if i%1000 == 0 {
			s.stopped(s.disk.gate.measure)
			require.LessOrEqual(t, pool.Held(), pool.Limit()*4/3, "more only if tables cannot be made as fast as groups come")
		}
	}
	require.Positive(t, pool.Held())
	large := strings.Repeat("v", kv.MaxValue)
	for i := range 8 {
		s.put(op{"ns", fmt.Sprint("large", i), large})
	}
	s.reopen()
	require.NoError(t, s.disk.Close())
	require.Zero(t, pool.Held())
	s.disk = nil
}
