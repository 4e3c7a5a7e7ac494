//go:build !race || soak

package disk

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// What is deleted becomes history. If there is no room for that none is kept,
// rather than the space used up that the log needs.
func TestDeletesOfEverythingMakeRoom(t *testing.T) {
	const capacity, reserve = 48 << 20, 16 << 20
	var s *store
	used := func() uint64 {
		if s == nil || s.disk == nil {
			return 0
		}
		return s.disk.db.Metrics().DiskSpaceUsage()
	}
	free := func() (uint64, error) { return capacity - min(used(), capacity), nil }
	var tried atomic.Int64 // to write history while there was no room
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, "history.table") && s.disk.gate.pressed.Load() {
			tried.Add(1)
			return syscall.ENOSPC
		}
		return nil
	})
	s = newStore(t, func(c *Config) {
		c.FS = errorfs.Wrap(c.FS, inject)
		c.Free, c.ReserveBytes, c.TableBytes, c.MemTableBytes = free, reserve, 1<<20, 1<<20
	})
	large := strings.Repeat("x", 1<<17)
	keys := 0
	for ; s.writable(); keys++ {
		require.Less(t, keys, 1000)
		s.put(op{"ns", fmt.Sprint(keys), large})
		s.disk.gate.measure()
	}
	var all []op
	for i := range keys {
		all = append(all, op{"ns", fmt.Sprint(i), ""})
	}
	s.put(all...)
	s.within(1000, s.writable)
	require.Zero(t, tried.Load())
	s.put(op{"ns", "again", large})
	s.reopen()
	s.provable()
}
