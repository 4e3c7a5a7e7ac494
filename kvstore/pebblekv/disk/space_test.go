package disk

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kvstore/replica"
)

// within lets seconds pass until ok, and gives the keeper time for each.
func (s *store) within(seconds int, ok func() bool) {
	s.t.Helper()
	passed := 0
	require.Eventually(s.t, func() bool {
		if ok() {
			return true
		}
		if passed++; passed <= seconds {
			s.clock.Advance(time.Second)
		}
		return false
	}, 30*time.Second, time.Millisecond)
}

func (s *store) writable() bool { return s.disk.Writable(replica.Ordinary) == nil }

// What is deleted must come free by itself, though its versions, its changes and
// its tables would be kept for long if there were room.
func TestDeletesMakeRoomBelowTheQuota(t *testing.T) {
	const quota = 8 << 20
	s := newStore(t, func(c *Config) { c.QuotaBytes, c.ReserveBytes, c.TableBytes, c.MemTableBytes = quota, 1, 1<<20, 1<<20 })
	large := strings.Repeat("x", 1<<18)
	keys := 0
	for ; s.writable(); keys++ {
		require.Less(t, keys, 100)
		s.put(op{"ns", fmt.Sprint(keys), large})
		s.disk.gate.measure()
	}
	err := s.disk.Writable(replica.Ordinary)
	require.Equal(t, codes.Quota, codes.Of(err))
	require.ErrorContains(t, err, "its limit is 8192 KiB")
	require.Equal(t, &health.Trouble{Kind: health.Quota, Dir: "data", Since: start, Err: err}, s.disk.Trouble())
	for i := range keys {
		require.NoError(t, s.disk.Writable(replica.Reserve))
		s.put(op{"ns", fmt.Sprint(i), ""})
	}
	s.within(1000, s.writable)
	s.within(1000, func() bool { return s.disk.Stats().DiskBytes < quota })
	s.put(op{"ns", "again", large})
	s.reopen()
}

// Likewise on a disk that the store has filled itself: what it keeps for
// convenience goes, and deletes do not use up what is left.
func TestDeletesMakeRoomOnAFullDisk(t *testing.T) {
	const capacity, reserve = 48 << 20, 16 << 20
	var s *store
	used := func() uint64 {
		if s == nil || s.disk == nil {
			return 0
		}
		return s.disk.db.Metrics().DiskSpaceUsage()
	}
	free := func() (uint64, error) { return capacity - min(used(), capacity), nil }
	s = newStore(t, func(c *Config) { c.Free, c.ReserveBytes, c.TableBytes, c.MemTableBytes = free, reserve, 1<<20, 1<<20 })
	large := strings.Repeat("x", 1<<16)
	keys := 0
	for ; s.writable(); keys++ {
		require.Less(t, keys, 1000)
		s.put(op{"ns", fmt.Sprint(keys % 10), large})
		s.disk.gate.measure()
	}
	err := s.disk.Writable(replica.Ordinary)
	require.Equal(t, codes.Storage, codes.Of(err))
	require.ErrorContains(t, err, "nearly full")
	for i := range 10 {
		require.NoError(t, s.disk.Writable(replica.Reserve))
		s.put(op{"ns", fmt.Sprint(i), ""})
	}
	s.within(1000, s.writable)
	s.put(op{"ns", "again", large})
}

// Tables that cannot be made must not end writing for good: what waits for them
// is bounded, and goes on by itself.
func TestWritesWaitForTablesThatCannotBeMade(t *testing.T) {
	var broken atomic.Bool
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".table") {
			return errors.New("too many open files")
		}
		return nil
	})
	s := newStore(t, func(c *Config) { c.FS, c.TableBytes, c.ReserveBytes = errorfs.Wrap(vfs.NewMem(), inject), 1<<10, 1 })
	broken.Store(true)
	value := strings.Repeat("x", 300)
	s.within(100, func() bool {
		if s.writable() {
			s.put(op{"ns", fmt.Sprint(s.rev), value})
			return false
		}
		return true
	})
	err := s.disk.Writable(replica.Ordinary)
	require.Equal(t, codes.Storage, codes.Of(err))
	require.ErrorContains(t, err, "cannot write its tables")
	deletes := 0
	for ; s.disk.Writable(replica.Reserve) == nil; deletes++ {
		require.Less(t, deletes, 100)
		s.put(op{"ns", fmt.Sprint(deletes % 5), ""})
	}
	require.NotZero(t, deletes)
	s.put(op{"ns", "through", value}) // has been let through before
	broken.Store(false)
	s.within(100, s.writable)
	s.put(op{"ns", "again", value})
	s.reopen()
}

// TestWhatTakesRightsAwayUsesTheLastByte: of a nearly full disk each kind of write may use more than the
// one before.
func TestWhatTakesRightsAwayUsesTheLastByte(t *testing.T) {
	const reserve = 16 << 20
	var free atomic.Uint64
	free.Store(reserve)
	s := newStore(t, func(c *Config) { c.Free, c.ReserveBytes = func() (uint64, error) { return free.Load(), nil }, reserve })
	for _, c := range []struct {
		free  uint64
		taken int // of the rooms
	}{{reserve, 3}, {reserve - 1, 2}, {reserve / 4, 2}, {reserve/4 - 1, 1}, {0, 1}} {
		free.Store(c.free)
		s.disk.gate.measure()
		taken := 0
		for _, room := range [...]replica.Room{replica.LastByte, replica.Reserve, replica.Ordinary} {
			if s.disk.Writable(room) == nil {
				taken++
			}
		}
		require.Equal(t, c.taken, taken, c.free)
	}
	require.NoError(t, s.disk.Writable(replica.LastByte))
}
