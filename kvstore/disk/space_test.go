package disk

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/kvstore"
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

func (s *store) writable() bool { return s.disk.Writable(kvstore.Ordinary) == nil }

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
	err := s.disk.Writable(kvstore.Ordinary)
	require.Equal(t, codes.Quota, codes.Of(err))
	require.ErrorContains(t, err, "its limit is 8192 KiB")
	require.Equal(t, &health.Trouble{Kind: health.Quota, Dir: "data", Since: start, Err: err}, s.disk.Trouble())
	for i := range keys {
		require.NoError(t, s.disk.Writable(kvstore.Reserve))
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
	err := s.disk.Writable(kvstore.Ordinary)
	require.Equal(t, codes.Storage, codes.Of(err))
	require.ErrorContains(t, err, "nearly full")
	for i := range 10 {
		require.NoError(t, s.disk.Writable(kvstore.Reserve))
		s.put(op{"ns", fmt.Sprint(i), ""})
	}
	s.within(1000, s.writable)
	s.put(op{"ns", "again", large})
}

// Tables for which there is no space wait for it, and writes for the tables.
func TestWritesWaitForTablesThatFindNoSpace(t *testing.T) {
	var full atomic.Bool
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".table") {
			return syscall.ENOSPC
		}
		return nil
	})
	s := newStore(t, func(c *Config) { c.FS, c.TableBytes, c.ReserveBytes = errorfs.Wrap(vfs.NewMem(), inject), 1<<10, 1 })
	full.Store(true)
	var written atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			s.put(op{"ns", fmt.Sprint(s.rev), strings.Repeat("x", 300)})
			written.Add(1)
		}
	}()
	s.within(1000, func() bool { t := s.disk.Trouble(); return t != nil && t.Kind == health.Hanging })
	require.Less(t, written.Load(), int64(20))
	require.NoError(t, s.disk.broken())
	full.Store(false)
	s.within(1000, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	require.Nil(t, s.disk.Trouble())
	s.reopen()
}

// Whatever else keeps a table from being made ends writing.
func TestATableThatFailsEndsWriting(t *testing.T) {
	for name, fail := range map[string]func(errorfs.Op) bool{
		"creating": func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate },
		"writing":  func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite },
		"syncing":  func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData },
	} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if broken.Load() && strings.HasSuffix(op.Path, ".table") && fail(op) {
					return errors.New("too many open files")
				}
				return nil
			})
			s := newStore(t, func(c *Config) { c.FS, c.TableBytes = errorfs.Wrap(vfs.NewMem(), inject), 1<<10 })
			broken.Store(true)
			s.put(op{"ns", "k", strings.Repeat("x", 2000)})
			s.within(100, func() bool { return s.disk.broken() != nil })
			require.ErrorContains(t, s.disk.Writable(kvstore.LastByte), "too many open files")
			require.True(t, s.disk.Trouble().Restart)
			broken.Store(false)
			s.reopen()
		})
	}
}

// A write that is refused because another has failed must not be taken for what has failed.
func TestTheReasonIsKnownBeforeOthersAreRefused(t *testing.T) {
	f := newFence(vfs.NewMem(), clock.Real(), &log{})
	refusing := true
	f.sick = func(err error) {
		require.ErrorContains(t, err, "too many open files")
		refusing = f.failed.Load() != nil
	}
	require.Error(t, f.sync(func() error { return errors.New("too many open files") }))
	require.False(t, refusing)
	require.ErrorIs(t, f.sync(func() error { return nil }), errNoMore)
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
		for _, room := range [...]kvstore.Room{kvstore.LastByte, kvstore.Reserve, kvstore.Ordinary} {
			if s.disk.Writable(room) == nil {
				taken++
			}
		}
		require.Equal(t, c.taken, taken, c.free)
	}
	require.NoError(t, s.disk.Writable(kvstore.LastByte))
}
