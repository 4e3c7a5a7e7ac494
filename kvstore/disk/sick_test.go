package disk

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/health"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/disk/disktest"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

// patient is a store on a disk that can be made sick.
type patient struct {
	*testing.T
	*kvstore.Store
	clock *clocktest.Fake
	fs    *disktest.FS
	cfg   StoreConfig
	free  atomic.Uint64 // bytes on the disk

	mu    sync.Mutex
	ill   func(errorfs.Op) error // what happens to operations that write; nil: they are done
	blind bool                   // tables cannot be read
}

func newPatient(t *testing.T, adjust func(*Config)) *patient {
	p := &patient{T: t, clock: clocktest.NewFake(noon), fs: disktest.New()}
	p.free.Store(1 << 30)
	p.cfg = StoreConfig{
		Engine: kvstore.Config{Clock: p.clock, PauseAfter: -1},
		Disk:   Config{Dir: "data", FS: errorfs.Wrap(p.fs, errorfs.InjectorFunc(p.before)), ReserveBytes: 1, Free: func() (uint64, error) { return p.free.Load(), nil }},
	}
	budget := memory.Divide(1 << 30)
	p.cfg.Disk.Engine, p.cfg.Engine.Store, p.cfg.Engine.Tokens, p.cfg.Engine.Queues = budget.Engine, budget.Store, budget.Tokens, budget.Queues
	if adjust != nil {
		adjust(&p.cfg.Disk)
	}
	p.open()
	t.Cleanup(func() {
		p.sick(nil)
		_ = p.Close()
		for name, pool := range budget.Pools() { // what an abandoned database had comes back a little later
			require.Eventually(t, func() bool { return pool.Held() == 0 }, 5*time.Second, time.Millisecond, name)
		}
	})
	return p
}

func (p *patient) open() {
	s, err := Open(p.cfg)
	require.NoError(p, err)
	p.Store = s
}

func (p *patient) reopen() {
	require.NoError(p, p.Close())
	p.open()
}

// healed opens the store again if it waits for that.
func (p *patient) healed() bool {
	t := p.Trouble()
	if t == nil || !t.Restart {
		return false
	}
	p.reopen()
	return true
}

func (p *patient) before(op errorfs.Op) error {
	p.mu.Lock()
	ill, blind := p.ill, p.blind
	p.mu.Unlock()
	if blind && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
		return syscall.EIO
	}
	if ill == nil || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	return ill(op)
}

func (p *patient) sick(ill func(errorfs.Op) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ill = ill
}

// all makes every write fail.
func all(err error) func(errorfs.Op) error {
	return func(errorfs.Op) error { return err }
}

// once calls ill for the first operation of a kind on a file, and then makes all fail.
func (p *patient) once(kind errorfs.OpKind, suffix string, err error) {
	p.sick(func(op errorfs.Op) error {
		if op.Kind != kind || !strings.HasSuffix(op.Path, suffix) {
			return nil
		}
		p.sick(all(err))
		return err
	})
}

func (p *patient) begin(txn *kv.Txn) <-chan error {
	p.Helper()
	done := make(chan error, 1)
	require.NoError(p, p.Commit(txn, func(_ *kv.Result, err error) { done <- err }))
	return done
}

func (p *patient) put(key, text string) error {
	p.Helper()
	txn := kv.PutTxn("ns", key, kv.StringValue(text))
	txn.TokenNS, txn.Token = "ns", key+"="+text
	done := make(chan error, 1)
	if err := p.Commit(txn, func(_ *kv.Result, err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

func (p *patient) text(key string) string {
	e, _ := p.Get([]byte("ns"), []byte(key))
	if e == nil {
		return "-"
	}
	return string(e.Value.Data)
}

// read reads a version that only tables have.
func (p *patient) read(key string) error {
	v, err := p.History(p.Context(), "ns", key, 0, 0)
	if err == nil && len(v.Entries) < 2 {
		err = fmt.Errorf("%d versions are known", len(v.Entries))
	}
	return err
}

// until lets seconds pass until ok.
func (p *patient) until(ok func() bool) {
	p.Helper()
	require.Eventually(p, func() bool {
		if ok() {
			return true
		}
		p.clock.Advance(time.Second / 4)
		return false
	}, 20*time.Second, time.Millisecond)
}

func (p *patient) well() bool { return p.Trouble() == nil }

// missing reports whether files are found to be gone. Until then the write that finds out may seem
// to hang: until's clock can be much faster than the machine.
func (p *patient) missing() bool {
	t := p.Trouble()
	return t != nil && t.Kind == health.Missing
}

// After a write or a sync that failed nothing more is written, reads go on, and a start shows what has
// become of it.
func TestAFailedWriteEndsWriting(t *testing.T) {
	for _, what := range []struct {
		kind   errorfs.OpKind
		suffix string
		err    error
		health health.Kind
	}{
		{errorfs.OpFileSyncData, ".log", syscall.EIO, health.Failed},
		{errorfs.OpFileSyncData, ".log", syscall.ENOSPC, health.Full},
		{errorfs.OpFileWrite, ".log", syscall.EIO, health.Failed},
		{errorfs.OpFileWrite, ".log", syscall.EROFS, health.ReadOnly},
		{errorfs.OpFileWriteAt, "durable.mark", syscall.EIO, health.Failed},
	} {
		t.Run(what.suffix+" "+what.err.Error(), func(t *testing.T) {
			p := newPatient(t, nil)
			require.NoError(t, p.put("k", "1"))
			p.once(what.kind, what.suffix, what.err)
			require.ErrorIs(t, p.put("k", "2"), codes.Timeout, "nobody knows")
			require.Equal(t, "1", p.text("k"))
			require.Equal(t, what.health, p.Trouble().Kind)
			require.Equal(t, "data", p.Trouble().Dir)
			require.True(t, p.Trouble().Restart)
			p.sick(nil)
			for range 5 {
				p.clock.Advance(time.Second)
			}
			err := p.put("k", "3")
			require.ErrorIs(t, err, codes.Storage)
			require.ErrorContains(t, err, "data")
			require.ErrorContains(t, err, "restart")
			require.ErrorIs(t, p.put("k", "2"), codes.Timeout, "not known yet")
			changes, err := p.Changes(t.Context(), 0, 1000)
			require.NoError(t, err)
			require.NotEmpty(t, changes)

			p.reopen()
			found := p.text("k")
			require.NoError(t, p.put("k", "2"), "done now at the latest")
			require.Equal(t, "2", p.text("k"))
			require.EqualValues(t, 2, p.Revision(), "once")
			t.Log("found after the failure:", found)
		})
	}
}

// The database's own files fail in the background: nothing ends then.
func TestAFailedManifestEndsWriting(t *testing.T) {
	p := newPatient(t, func(c *Config) { c.TableBytes = 1 })
	r := p.must(&kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: time.Minute}}})
	id := r.Ops[0].Lease.ID
	p.must(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: "held", Value: kv.StringValue("x"), Lease: id}}})
	p.sick(func(op errorfs.Op) error {
		if strings.Contains(op.Path, "MANIFEST-") {
			return syscall.EIO
		}
		return nil
	})
	p.until(func() bool {
		_ = p.put("k", "1")
		return !p.well() && p.Trouble().Restart
	})
	for range 10 {
		p.clock.Advance(time.Minute)
	}
	require.Equal(t, "x", p.text("held"))
	_, err := p.KeepAlive(t.Context(), id)
	require.NoError(t, err)
	p.sick(nil)
	p.reopen()
	require.NoError(t, p.put("k", "2"))
	require.Equal(t, "x", p.text("held"))
}

// What a disk does not give back of a table fails; all else goes on.
func TestATableThatCannotBeReadIsDamage(t *testing.T) {
	p := newPatient(t, func(c *Config) { c.TableBytes, c.CacheBytes, c.RingBytes = 1, 1, 1 })
	for i := range 20 {
		require.NoError(t, p.put("k", fmt.Sprint(i)))
	}
	p.until(func() bool { return p.read("k") == nil })
	p.mu.Lock()
	p.blind = true
	p.mu.Unlock()
	p.until(func() bool { return p.read("k") != nil })
	require.ErrorIs(t, p.read("k"), syscall.EIO)
	require.Equal(t, health.Damaged, p.Damage().Kind)
	require.ErrorContains(t, p.Damage().Err, "restore a backup")
	require.False(t, p.Damage().Restart)
	require.Nil(t, p.Trouble())
	require.NoError(t, p.put("k", "on"))
	require.Equal(t, "on", p.text("k"))
}

// A store on a read-only file system is served, and written to after a restart when that has changed.
func TestAReadOnlyDirectoryIsServed(t *testing.T) {
	p := newPatient(t, nil)
	require.NoError(t, p.put("k", "1"))
	require.NoError(t, p.Close())
	p.sick(all(syscall.EROFS))
	p.open()
	require.Equal(t, "1", p.text("k"))
	require.Equal(t, health.ReadOnly, p.Trouble().Kind)
	err := p.put("k", "2")
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, "read-only")
	v, err := p.History(t.Context(), "ns", "k", 0, 0)
	require.NoError(t, err)
	require.Len(t, v.Entries, 1)
	require.True(t, p.Trouble().Restart)
	p.reopen()
	require.Equal(t, "1", p.text("k"))
	p.sick(nil)
	p.reopen()
	require.NoError(t, p.put("k", "2"))
}

func TestAReadOnlyDirectoryWithoutAStoreIsRefused(t *testing.T) {
	p := newPatient(t, nil)
	p.sick(all(syscall.EROFS))
	cfg := p.cfg
	cfg.Disk.Dir = "other"
	_, err := Open(cfg)
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorIs(t, err, syscall.EROFS)
}

// Without space a write waits: it is not known to fail, and nothing is in doubt.
func TestAWriteWaitsForSpace(t *testing.T) {
	p := newPatient(t, nil)
	require.NoError(t, p.put("k", "1"))
	p.sick(all(syscall.ENOSPC))
	done := p.begin(kv.PutTxn("ns", "k", kv.StringValue("2")))
	p.until(func() bool { return !p.well() })
	require.Equal(t, health.Full, p.Trouble().Kind)
	var err error
	p.until(func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	require.ErrorIs(t, err, codes.Timeout)
	require.ErrorContains(t, err, "full")
	require.ErrorIs(t, p.put("k", "3"), codes.Storage)
	p.sick(nil)
	p.until(p.well)
	require.Equal(t, "2", p.text("k"), "it has gone on")
	require.NoError(t, p.put("k", "4"))
	p.reopen()
	require.Equal(t, "4", p.text("k"))
}

// TestWhatTakesRightsAwayWaitsForSpace: with not even deletes taken it is, and where there is no byte for it
// it is written as soon as there is one.
func TestWhatTakesRightsAwayWaitsForSpace(t *testing.T) {
	p := newPatient(t, func(c *Config) { c.ReserveBytes = 64 << 20 })
	require.NoError(t, p.put("k", "1"))
	p.free.Store(0)
	p.until(func() bool { return !p.well() })
	ends := func(value string) *kv.Txn {
		return &kv.Txn{System: true, Lessens: true, Then: kv.PutTxn("ns", "k", kv.StringValue(value)).Then}
	}
	_, err := kv.Commit(t.Context(), p, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "ns", Key: "k"}}})
	require.ErrorIs(t, err, codes.Storage)
	_, err = kv.Commit(t.Context(), p, ends("2"))
	require.NoError(t, err)
	p.sick(all(syscall.ENOSPC))
	done := p.begin(ends("3"))
	p.until(func() bool { return strings.Contains(p.Trouble().Err.Error(), "wait for space") || len(done) > 0 })
	p.sick(nil)
	p.until(func() bool { return p.text("k") == "3" })
	require.NotErrorIs(t, <-done, codes.Storage)
	p.reopen()
	require.Equal(t, "3", p.text("k"))
}

// A disk that hangs holds no one up for longer than the time-out.
func TestADiskThatHangsIsSurvived(t *testing.T) {
	p := newPatient(t, nil)
	require.NoError(t, p.put("k", "1"))
	thaw := make(chan struct{})
	p.sick(func(errorfs.Op) error { <-thaw; return nil })
	done := p.begin(kv.PutTxn("ns", "k", kv.StringValue("2")))
	p.until(func() bool { return !p.well() })
	require.Equal(t, health.Hanging, p.Trouble().Kind)
	require.Equal(t, "data", p.Trouble().Dir)
	p.until(func() bool { return len(done) > 0 })
	require.ErrorIs(t, <-done, codes.Timeout)
	require.ErrorIs(t, p.put("k", "3"), codes.Storage)
	require.Equal(t, "1", p.text("k"))
	p.sick(nil)
	close(thaw)
	p.until(p.well)
	require.Equal(t, "2", p.text("k"))
	require.NoError(t, p.put("k", "4"))
}

// It shows although no one writes.
func TestADiskThatHangsShowsWithoutAWrite(t *testing.T) {
	p := newPatient(t, nil)
	thaw := make(chan struct{})
	p.sick(func(errorfs.Op) error { <-thaw; return nil })
	p.until(func() bool { return !p.well() })
	first := p.Trouble()
	require.Equal(t, health.Hanging, first.Kind)
	p.clock.Advance(time.Minute)
	require.Equal(t, first.Err.Error(), p.Trouble().Err.Error(), "the console would have it read out again")
	p.sick(nil)
	close(thaw)
	p.until(p.well)
	require.NoError(t, p.put("k", "1"))
}

// A directory that was emptied is not filled again as if nothing had been there.
func TestAnEmptiedDirectoryIsNotFilledAgain(t *testing.T) {
	p := newPatient(t, nil)
	require.NoError(t, p.put("k", "1"))
	require.NoError(t, p.fs.RemoveAll("data"))
	require.NoError(t, p.fs.MkdirAll("data", 0o755))
	p.until(p.missing)
	require.ErrorIs(t, p.put("k", "2"), codes.Storage)
	require.Equal(t, "1", p.text("k"))
	names, err := p.fs.List("data")
	require.NoError(t, err)
	require.Empty(t, names)
}

// Likewise if a single file was removed.
func TestAFileThatWasRemovedIsTold(t *testing.T) {
	for _, suffix := range []string{".log", ".sst"} {
		t.Run(suffix, func(t *testing.T) {
			p := newPatient(t, func(c *Config) { c.TableBytes = 1 })
			require.NoError(t, p.put("k", "1"))
			for range 3 {
				p.clock.Advance(time.Second)
			}
			names, err := p.fs.List("data/db")
			require.NoError(t, err)
			for _, name := range names {
				if strings.HasSuffix(name, suffix) {
					require.NoError(t, p.fs.Remove("data/db/"+name))
				}
			}
			p.until(p.missing)
			require.ErrorIs(t, p.put("k", "2"), codes.Storage)
			require.Equal(t, "1", p.text("k"))
		})
	}
}

// A fault of the keeper ends writing, not the process.
func TestAPanicOfTheKeeperEndsWriting(t *testing.T) {
	p := newPatient(t, func(c *Config) { c.TableBytes = 1 })
	require.NoError(t, p.put("k", "1"))
	p.sick(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".table") {
			panic("planted")
		}
		return nil
	})
	p.until(func() bool { return p.put("k", "2") != nil })
	p.until(func() bool { return p.Trouble().Restart })
	require.Equal(t, health.Stopped, p.Trouble().Kind)
	require.ErrorContains(t, p.put("k", "3"), "restart")
	p.sick(nil)
	shown := p.text("k")
	p.reopen()
	require.Equal(t, shown, p.text("k"))
}
