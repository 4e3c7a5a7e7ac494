package confstore

import (
	"errors"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
)

// Store is an open directory of documents. Make it with Open.
type Store struct {
	// set at open
	cfg       Config
	log       zerolog.Logger
	clock     clock.Clock
	dir       string // absolute
	limits    limits
	data      atomicfile.Root
	lock      io.Closer
	journal   *journal
	epoch     string
	watch     *watcher // nil without events
	problems  *problems
	sets      chan setJob
	reloads   chan chan struct{}
	scans     chan *listing
	closing   chan struct{}
	owner     sync.WaitGroup
	scanners  sync.WaitGroup
	queued    atomic.Int64 // bytes of contents in sets
	snapshot  atomic.Pointer[Snapshot]
	closeOnce sync.Once

	// store's goroutine only
	root       atomicfile.Root
	rootID     fileID
	entries    map[string]*entry
	rules      *rules
	seq        uint64
	liveBytes  int64
	behind     bool // some entries are unsaved
	settle     settling
	linked     map[string]struct{} // files behind symlinks
	linkedDirs map[string]struct{} // symlinks to directories, or to nothing
	dirs       map[string]struct{} // directories that were listed
	scanning   bool
	scanAgain  bool   // events were lost while scanning
	gitLock    string // the lock of the repository the directory is in, or ""

	mu     sync.Mutex // guards the rest
	subs   []func(*Batch)
	follow []func(*Snapshot, []string)
	faults map[string]string // why files that were never good are not; nil: there are none
	closed bool
}

// Snapshot is the newest snapshot. It is one atomic load and may be called from
// any goroutine, also after Close.
func (s *Store) Snapshot() *Snapshot { return s.snapshot.Load() }

// Epoch identifies the history of versions: random text that is made with the
// journal and kept for its life. Versions of another epoch say nothing.
func (s *Store) Epoch() string { return s.epoch }

// Problems is what is wrong now, sorted by name. The slice is the caller's.
func (s *Store) Problems() []Problem { return s.problems.all() }

// Subscribe has fn called for every batch from now on, in order, on the store's
// goroutine: after the snapshot is readable and before the writer is answered. fn
// must only post; while it runs nothing else changes, and it must not call Reload
// or Close.
func (s *Store) Subscribe(fn func(*Batch)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs[:len(s.subs):len(s.subs)], fn)
}

func (s *Store) subscribers() []func(*Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs
}

// Reload reads all files again and returns when what has changed is published. It
// waits neither for quiet nor for removed files to come back.
func (s *Store) Reload() {
	done := make(chan struct{})
	select {
	case s.reloads <- done:
		<-done
	case <-s.closing:
	}
}

// Close finishes the write it is at, refuses those that wait with codes.Closed
// and gives the lock back. Snapshots stay readable. Only the first call does
// anything.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.closing)
		s.owner.Wait()
		s.scanners.Wait()
		err = s.release()
	})
	return err
}

// release gives back what Open took, as far as it got.
func (s *Store) release() error {
	var errs []error
	if s.watch != nil {
		errs = append(errs, s.watch.close())
	}
	if s.journal != nil {
		errs = append(errs, s.journal.close())
	}
	if s.root != nil {
		errs = append(errs, s.root.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if s.data != nil {
		errs = append(errs, s.data.Close())
	}
	return errors.Join(errs...)
}

// run is the store's goroutine.
func (s *Store) run() {
	timer := s.clock.NewTimer(time.Hour)
	defer timer.Stop()
	scan := s.clock.NewTicker(s.cfg.ScanPeriod)
	defer scan.Stop()
	report := s.clock.NewTicker(s.cfg.ReportPeriod)
	defer report.Stop()
	var wake chan struct{}
	if s.watch != nil {
		wake = s.watch.wake
	}
	for {
		s.arm(timer)
		select {
		case <-s.closing:
			s.refuseQueued()
			return
		case job := <-s.sets:
			s.finish(job)
		case <-wake:
			s.takeEvents()
		case <-timer.C():
			s.settleNow()
		case list := <-s.scans:
			s.takeScan(list)
		case done := <-s.reloads:
			s.reload()
			close(done)
		case <-scan.C():
			s.startScan()
		case <-report.C():
			s.problems.remind()
		}
		s.compactJournal()
	}
}

// arm sets the timer for what is settling.
func (s *Store) arm(timer clock.Timer) {
	if next := s.deadline(); !next.IsZero() {
		timer.Reset(next.Sub(s.clock.Now()))
	} else {
		timer.Stop()
	}
}

// compactJournal rewrites the journal when most of it is garbage.
func (s *Store) compactJournal() {
	if !s.journal.wantsCompaction(s.liveBytes) {
		return
	}
	records := make([]record, 0, len(s.entries))
	for name, e := range s.entries {
		if e.known() {
			records = append(records, e.records(name)...)
		}
	}
	if err := s.journal.compact(records); err != nil {
		s.problems.set(OfJournal, journalName, err.Error())
		return
	}
	s.journaled(nil)
}

// absolute is dir without symlinks in front of its last element, which stays
// what it is: it may be a link that is swapped.
func absolute(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(abs)), nil
}
