package suite

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
	"confcenter/kvstore/disk/disktest"
)

func openPebble(t testing.TB, opts options) instance {
	p := &power{t: t, fs: disktest.New(), clock: clocktest.NewFake(start), opts: opts, dice: rand.New(rand.NewPCG(1, 2))}
	return instance{
		Engine:  p.open(),
		Clock:   p.clock,
		Restart: p.restart,
		Kill:    p.kill,
		SetFull: p.full.Store,
	}
}

// power is the machine the suite's engine runs on.
type power struct {
	t     testing.TB
	clock *clocktest.Fake
	opts  options
	dice  *rand.Rand
	full  atomic.Bool

	fs    *disktest.FS
	store *kvstore.Store
	disk  *pluggedDisk
}

func (p *power) open() kvstore.Engine {
	cfg := disk.Config{
		Dir: "data", FS: p.fs, Free: p.free, TableDelay: 100 * time.Millisecond, Clock: p.clock,
		LogBytes: p.opts.LogBytes, HistoryVersions: p.opts.HistoryVersions,
	}
	if p.opts.LogBytes > 0 {
		cfg.TableBytes, cfg.RingBytes = p.opts.LogBytes/4, p.opts.LogBytes/4
	}
	p.disk = &pluggedDisk{cfg: cfg}
	s, err := kvstore.Open(p.t.Context(), kvstore.Config{Clock: p.clock, PauseAfter: 500 * time.Millisecond}, p.disk)
	require.NoError(p.t, err)
	p.store = s
	p.t.Cleanup(func() { _ = s.Close() })
	return plugged{s, p.disk}
}

func (p *power) free() (uint64, error) {
	if p.full.Load() {
		return 200 << 20, nil // too little for writes, enough for deletes
	}
	return 100 << 30, nil
}

func (p *power) restart() kvstore.Engine {
	require.NoError(p.t, p.store.Close())
	return p.open()
}

func (p *power) kill() kvstore.Engine {
	crashed := p.disk.pull(func() *disktest.FS {
		return p.fs.Lose(vfs.CrashCloneCfg{UnsyncedDataPercent: p.dice.IntN(101), RNG: p.dice})
	})
	require.NoError(p.t, p.store.Close())
	p.fs = crashed
	return p.open()
}

// plugged is a store that is not heard of any more after the plug is pulled.
type plugged struct {
	*kvstore.Store
	disk *pluggedDisk
}

func (s plugged) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	return s.Store.Commit(txn, func(r *kv.Result, err error) {
		if err == nil || !s.disk.gone() {
			done(r, err)
		}
	})
}

// pluggedDisk takes no writes any more after the plug is pulled, so that nothing
// is acknowledged, told or read that the crashed file system does not have.
type pluggedDisk struct {
	*disk.Disk // set by Load
	cfg        disk.Config
	mu         sync.Mutex
	pulled     bool // guarded by mu
}

func (d *pluggedDisk) Load(_ context.Context, load kvstore.Loader) (newest kv.Revision, err error) {
	d.Disk, newest, err = disk.OpenLog(d.cfg, load)
	return newest, err
}

func (d *pluggedDisk) pull(crash func() *disktest.FS) *disktest.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulled = true
	return crash()
}

func (d *pluggedDisk) gone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pulled
}

func (d *pluggedDisk) Append(group []kvstore.Commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pulled {
		return errors.New("the plug was pulled")
	}
	return d.Disk.Append(group)
}
