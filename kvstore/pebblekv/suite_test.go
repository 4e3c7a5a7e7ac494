package pebblekv

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/kvtest"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/kvstore/replica"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func openForSuite(t testing.TB, opts kvtest.Options) kvtest.Instance {
	p := &power{t: t, fs: newLosable(), clock: clock.NewFake(noon), opts: opts, dice: rand.New(rand.NewPCG(1, 2))}
	return kvtest.Instance{
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
	clock *clock.Fake
	opts  kvtest.Options
	dice  *rand.Rand
	full  atomic.Bool

	fs    *losable
	store *replica.Store
	disk  *pluggedDisk
}

func (p *power) open() kvstore.Engine {
	cfg := Config{
		Replica: replica.Config{Clock: p.clock, PauseAfter: 500 * time.Millisecond},
		Disk: disk.Config{
			Dir: "data", FS: p.fs, Free: p.free, TableDelay: 100 * time.Millisecond,
			LogBytes: p.opts.LogBytes, HistoryVersions: p.opts.HistoryVersions,
		},
	}
	if p.opts.LogBytes > 0 {
		cfg.Disk.TableBytes, cfg.Disk.RingBytes = p.opts.LogBytes/4, p.opts.LogBytes/4
	}
	p.disk = &pluggedDisk{log: newLog(cfg)}
	s, err := replica.Open(p.t.Context(), cfg.Replica, p.disk)
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
	crashed := p.disk.pull(func() *losable {
		return p.fs.lose(vfs.CrashCloneCfg{UnsyncedDataPercent: p.dice.IntN(101), RNG: p.dice})
	})
	require.NoError(p.t, p.store.Close())
	p.fs = crashed
	return p.open()
}

// losable is a file system in memory that can lose its power while it is used: its own Link
// takes a lock twice, and would wait for ever for a copy that is made in between.
type losable struct {
	*vfs.MemFS
	links sync.RWMutex // held by each Link, and by a copy against all of them
}

func newLosable() *losable { return &losable{MemFS: vfs.NewCrashableMem()} }

func (l *losable) Link(from, to string) error {
	l.links.RLock()
	defer l.links.RUnlock()
	return l.MemFS.Link(from, to)
}

// lose returns what a loss of power would leave.
func (l *losable) lose(cfg vfs.CrashCloneCfg) *losable {
	l.links.Lock()
	defer l.links.Unlock()
	return &losable{MemFS: l.CrashClone(cfg)}
}

// plugged is a store that nobody hears of any more after the plug is pulled.
type plugged struct {
	*replica.Store
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
	*log
	mu     sync.Mutex
	pulled bool // guarded by mu
}

func (d *pluggedDisk) pull(crash func() *losable) *losable {
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

func (d *pluggedDisk) Propose(ctx context.Context, group []replica.Commit, proofs []replica.Proof) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pulled {
		return 0, errors.New("the plug was pulled")
	}
	return d.log.Propose(ctx, group, proofs)
}
