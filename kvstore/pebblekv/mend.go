package pebblekv

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/kvstore/replica"
)

// A disk that has failed is never written to again by the same opening: after a failed sync
// the system may show what never reached the disk. When the directory takes writes again it
// is opened anew, as after a crash: what is found in the log has been read back, checked and
// written again by then, and what is not found has not taken effect.

// mender opens the disk anew when it has failed. Its goroutine runs from Load to Close.
type mender struct {
	// set by Load
	cfg   disk.Config
	clock clock.Clock
	log   zerolog.Logger

	arrived chan struct{} // capacity 1: found is there
	stop    chan struct{}
	running sync.WaitGroup

	disk    atomic.Pointer[disk.Disk]
	trouble atomic.Pointer[health.Trouble] // from a failure until Tail has told what was found

	mu    sync.Mutex
	found *found // guarded by mu; nil as long as the disk is not open again
}

// found is what the log has behind the revision that was known when it failed.
type found struct {
	commits []replica.Commit
	newest  kv.Revision
}

// Pauses between attempts to open the disk anew.
const firstPause, longestPause = time.Second, 30 * time.Second

func (m *mender) open(load replica.Loader) (kv.Revision, error) {
	d, newest, err := disk.Open(m.cfg, load)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		cfg := m.cfg
		cfg.ReadOnly = true
		var again error
		if d, newest, again = disk.Open(cfg, load); again != nil {
			return 0, errors.Join(err, again)
		}
		m.log.Warn().Err(err).Msg("the state store takes no writes as long as its directory can only be read")
		err = nil
	}
	if err != nil {
		return 0, err
	}
	m.disk.Store(d)
	m.cfg.Again, m.cfg.AcceptLoss = true, false
	m.running.Go(m.run)
	return newest, nil
}

// run waits for failures and mends them.
func (m *mender) run() {
	for {
		select {
		case <-m.stop:
			return
		case <-m.disk.Load().Failed():
		}
		m.fell()
		if m.trouble.Load().Kind == health.Stopped || !m.mend() {
			m.giveUp()
			return
		}
	}
}

// fell notes why the disk has failed. settle does not take that back: the disk may have failed
// again before it is asked.
func (m *mender) fell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble.Store(m.disk.Load().Trouble())
}

func (m *mender) giveUp() {
	t := *m.trouble.Load()
	t.Restart, t.Err = true, codes.Errorf(codes.Storage, "%w; writes resume when the server is restarted", t.Err)
	m.trouble.Store(&t)
}

// mend returns when the disk is open again. It is false if it cannot be, or need not be any
// more.
func (m *mender) mend() bool {
	old := m.disk.Load()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if !m.sleep(pause) {
			return false
		}
		err := m.again(old)
		if err == nil {
			return true
		}
		t := *m.trouble.Load()
		if errors.Is(err, errGone) {
			t.Err, t.Kind = err, health.Missing
			m.trouble.Store(&t)
			m.log.Error().Err(err).Msg("writes to the state store cannot be resumed")
			return false
		}
		if errors.Is(err, codes.Storage) {
			t.Err = err
			m.trouble.Store(&t)
		}
		if pause < longestPause {
			m.log.Warn().Err(err).Msg("the state store cannot be written to yet; trying again")
		}
	}
}

func (m *mender) sleep(pause time.Duration) bool {
	timer := m.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-m.stop:
		return false
	case <-timer.C():
		return true
	}
}

var errGone = errors.New("acknowledged writes are missing from it")

// again opens the disk anew if its directory takes writes.
func (m *mender) again(old *disk.Disk) error {
	if err := disk.Probe(m.cfg); err != nil {
		return err
	}
	old.Cut()
	known := old.Newest()
	var f found
	d, newest, err := disk.Open(m.cfg, replica.Loader{Commit: func(c *replica.Commit) {
		if c.Revision > known {
			f.commits = append(f.commits, ownedByReplica(*c))
		}
	}})
	if err != nil {
		return err
	}
	f.newest = newest
	if newest < known || len(f.commits) != int(newest-known) {
		_ = d.Close()
		return codes.Errorf(codes.Storage, "%s is not the store that was being served: it ends at revision %d, and %d was known: %w", m.cfg.Dir, newest, known, errGone)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found != nil { // and nobody has asked, so this comes behind it
		f.commits = append(m.found.commits, f.commits...)
	}
	m.disk.Store(d)
	m.found = &f
	select {
	case m.arrived <- struct{}{}:
	default:
	}
	m.abandon(old)
	return nil
}

// ownedByReplica is a copy of a commit that the replica may complete while the disk writes
// the original to its tables.
func ownedByReplica(c replica.Commit) replica.Commit {
	c.Events = slices.Clone(c.Events)
	for i := range c.Events {
		entry := *c.Events[i].Entry
		c.Events[i].Entry = &entry
	}
	if c.Token != nil {
		token := *c.Token
		c.Token = &token
	}
	return c
}

// abandon closes a disk that has been cut off. What is left of its database may never end,
// so nobody waits for it; it can do no harm.
func (m *mender) abandon(old *disk.Disk) {
	go func() {
		defer func() { _ = recover() }() // its files are closed under it
		_ = old.Close()
	}()
}

// settle returns what was found behind a revision, once the disk is open again.
func (m *mender) settle(after kv.Revision) (tail []replica.Commit, through kv.Revision, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil {
		return nil, after, replica.ErrUnknown
	}
	f := m.found
	first, _ := slices.BinarySearchFunc(f.commits, after+1, func(c replica.Commit, rev kv.Revision) int { return cmp.Compare(c.Revision, rev) })
	m.found = nil
	if !m.disk.Load().Broken() {
		m.trouble.Store(nil)
		m.log.Info().Int64("revision", int64(f.newest)).Msg("the state store takes writes again")
	}
	return f.commits[first:], f.newest, nil
}

func (m *mender) close() error {
	close(m.stop)
	m.running.Wait()
	return m.disk.Load().Close()
}

// broken reports whether the disk has failed, and settle has not told yet what was found.
func (m *mender) broken() bool { return m.trouble.Load() != nil || m.disk.Load().Broken() }

// Capabilities and the following implement replica.Log by the disk that is open now.

// Writable implements replica.Log.
func (l *log) Writable(uses replica.Room) error {
	if t := l.trouble.Load(); t != nil {
		return t.Err
	}
	return l.disk.Load().Writable(uses)
}

// Trouble implements replica.Log.
func (l *log) Trouble() *health.Trouble {
	if t := l.trouble.Load(); t != nil {
		return t
	}
	return l.disk.Load().Trouble()
}

// DropTokens implements replica.Log.
func (l *log) DropTokens(through kv.Revision, others []kv.Revision) {
	l.disk.Load().DropTokens(through, others)
}

// Forget implements replica.Forgetter. What a disk that has failed was to forget is there
// again at the next start.
func (l *log) Forget(entries []*kv.Entry) { l.disk.Load().Forget(entries) }

// Changes implements replica.Log.
func (l *log) Changes(_ context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	return l.disk.Load().Changes(after, maxBytes)
}

// GetAt implements replica.Log.
func (l *log) GetAt(_ context.Context, ns, key string, rev kv.Revision) (*kv.Entry, error) {
	return l.disk.Load().GetAt(ns, key, rev)
}

// Versions implements replica.Log.
func (l *log) Versions(_ context.Context, ns, key string, before kv.Revision, limit int) (kv.Versions, error) {
	return l.disk.Load().Versions(ns, key, before, limit)
}

// ListArchive implements replica.Log.
func (l *log) ListArchive(_ context.Context, list kv.List) (kv.Page, error) {
	return l.disk.Load().ListArchive(list)
}

// Copy implements kv.Copier.
func (l *log) Copy(context.Context) (kv.Copy, error) {
	c, err := l.disk.Load().Copy()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Identity implements replica.Log.
func (l *log) Identity() string { return l.disk.Load().Identity() }

// Floors implements replica.Log.
func (l *log) Floors() (changes, versions kv.Revision) { return l.disk.Load().Floors() }

// Stats implements replica.Log.
func (l *log) Stats() replica.LogStats { return l.disk.Load().Stats() }

// Close implements replica.Log.
func (l *log) Close() error { return l.mender.close() }
