package linear_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
	"confcenter/kvstore/disk/disktest"
	"confcenter/kvstore/memory"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

// mortal is an engine that reports no success any more once it is killed.
type mortal struct {
	kvstore.Engine
	mu     sync.Mutex
	killed bool // guarded by mu
}

func (m *mortal) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	return m.Engine.Commit(txn, func(r *kv.Result, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err != nil || !m.killed {
			done(r, err)
		}
	})
}

// kill calls left between the last success and what comes too late to be reported.
func (m *mortal) kill(left func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killed = true
	left()
}

// instance is an engine that can be killed.
type instance struct {
	Engine kvstore.Engine
	// Kill ends the engine like a crash, and returns a new one on the same data.
	Kill func() kvstore.Engine
}

// killable makes an instance that begins with the engine first. left is called when an engine is
// killed: it takes what that one leaves, and returns how to open the next one with it.
func killable(t testing.TB, first kvstore.Engine, left func() (open func() kvstore.Engine)) instance {
	now := &mortal{Engine: first}
	return instance{Engine: now, Kill: func() kvstore.Engine {
		var open func() kvstore.Engine
		now.kill(func() { open = left() })
		require.NoError(t, now.Close())
		now = &mortal{Engine: open()}
		return now
	}}
}

func openMemory(t testing.TB) instance {
	now := memory.New(memory.Config{Clock: clocktest.NewFake(noon)})
	return killable(t, now, func() func() kvstore.Engine {
		now = now.Clone()
		return func() kvstore.Engine { return now }
	})
}

// openPebble opens the embedded engine in a file system that loses what was not synced when it crashes.
func openPebble(t testing.TB) instance {
	files, dice := disktest.New(), rand.New(rand.NewPCG(1, 2))
	cfg := disk.StoreConfig{
		Engine: kvstore.Config{Clock: clocktest.NewFake(noon), PauseAfter: 500 * time.Millisecond},
		Disk:   disk.Config{Dir: "data", Free: func() (uint64, error) { return 100 << 30, nil }, TableDelay: 100 * time.Millisecond},
	}
	open := func() kvstore.Engine {
		cfg.Disk.FS = files
		s, err := disk.Open(cfg)
		require.NoError(t, err)
		return s
	}
	return killable(t, open(), func() func() kvstore.Engine {
		files = files.Lose(vfs.CrashCloneCfg{UnsyncedDataPercent: dice.IntN(101), RNG: dice})
		return open
	})
}
