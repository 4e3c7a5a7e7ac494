package confstore

import (
	"errors"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/confstore/revisions"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/internal/health"
)

// Store is an open directory of documents. Make it with Open.
type Store struct {
	// set at open
	cfg       Config
	data      atomicfile.Root
	publisher publisher
	directory directory
	intake    intake
	queue     queue
	writer    writer
	syncer    syncer
	troubles  troubles
	reloads   chan chan struct{}
	closing   chan struct{}
	owner     sync.WaitGroup
	closeOnce sync.Once

	dead bool // store's goroutine only: it has panicked, so only the snapshot can be trusted
}

// Snapshot is the newest snapshot. It is one atomic load and may be called from
// any goroutine, also after Close.
func (s *Store) Snapshot() *snapshot.Snapshot { return s.publisher.snapshot.Load() }

// Epoch identifies the history of versions: random text that is created with the log
// and never changes. Versions of different epochs cannot be compared.
func (s *Store) Epoch() string { return s.writer.log.Epoch() }

// Revisions are the documents for those who follow their contents revision by revision.
func (s *Store) Revisions() *revisions.Store { return s.publisher.revisions }

// Problems returns the current problems, sorted by name. The caller owns the slice.
func (s *Store) Problems() []health.Problem { return s.directory.problems.All() }

// Subscribe calls fn for every batch from now on, in order, on the store's goroutine: after
// the snapshot is readable and before the writer is answered. fn must only post: nothing else
// changes while it runs, and it must not call Reload, Close or Subscribe. Once cancel has
// returned fn is not called again. cancel waits for a call in progress, so fn must not call
// it either.
func (s *Store) Subscribe(fn func(*snapshot.Batch)) (cancel func()) {
	return s.publisher.seen.Add(func(v sight) {
		if v.batch != nil {
			fn(v.batch)
		}
	})
}

// Follow calls fn with the names of files for which anything shown to people has changed: own
// or resolved contents or version, the list of bases, whether the file is broken and why.
// Unlike Subscribe it also reports changes that do not concern programs. The snapshot is the
// newest; names are sorted and shared. The rules of Subscribe apply to fn and cancel.
func (s *Store) Follow(fn func(now *snapshot.Snapshot, names []string)) (cancel func()) {
	return s.publisher.seen.Add(func(v sight) { fn(v.now, v.names) })
}

// Faults returns the files that were never valid, sorted by name; for a file that was valid
// once see snapshot.Node.Broken. The caller owns the slice.
func (s *Store) Faults() []Fault { return s.publisher.allFaults() }

// NeverGood returns the file of that name, which may omit ".json", if it is there and was never valid;
// else nil. It is cheap and may be called from any goroutine.
func (s *Store) NeverGood(name []byte) *Broken { return s.publisher.neverGood(name) }

// Set queues a write. Requests are carried out one after the other, in order; those that wait
// together share the disk's time. done is called on the store's goroutine after the change is
// durable and published, or with the error that prevented it; it must only post. codes.Busy in
// done means that the version is more than two days ahead of the clock, as after many writes in
// a second; the text says when to try again. If Set itself returns an error (codes.BadName,
// codes.Busy, codes.Closed), done is never called.
//
// A disk that does not answer does not keep done waiting: after Config.SetTimeout it is called
// with codes.Storage if the request had not been begun and will not be, and else with
// codes.Timeout: whether it will be carried out is not known. It is then called on another
// goroutine.
func (s *Store) Set(req SetRequest, done func(SetResult, error)) error {
	return s.queue.put(newSet(req, done))
}

// Reload reads all files again and returns when the changes are published. It waits neither
// for quiet nor for removed files to come back.
func (s *Store) Reload() {
	done := make(chan struct{})
	select {
	case s.reloads <- done:
		<-done
	case <-s.closing:
	}
}

// Close finishes the current write, refuses those that wait with codes.Closed and releases the
// lock. Snapshots stay readable. Only the first call does anything. If a disk holds it up for
// longer than Config.SetTimeout it fails, and what is left ends when the disk answers.
func (s *Store) Close() (err error) {
	s.closeOnce.Do(func() {
		s.queue.close()
		close(s.closing)
		closed := make(chan error, 1)
		go func() { // waited for, but not for ever
			s.owner.Wait()
			s.intake.scanners.Wait()
			closed <- s.release()
		}()
		timer := s.cfg.Clock.NewTimer(s.cfg.SetTimeout)
		defer timer.Stop()
		select {
		case err = <-closed:
		case <-timer.C():
			s.queue.giveUpAll()
			err = codes.Errorf(codes.Timeout, "the configuration store cannot be closed: a disk has not answered for %s", s.cfg.SetTimeout)
			if t := s.Trouble(); t != nil {
				err = codes.Errorf(codes.Timeout, "the configuration store cannot be closed: %w (%s)", t.Err, t.Dir)
			}
		}
	})
	return err
}

// release releases what Open has acquired, as far as it got.
func (s *Store) release() error {
	var errs []error
	if s.directory.watch != nil {
		errs = append(errs, s.directory.watch.Close())
	}
	if s.syncer.marks != nil {
		errs = append(errs, s.syncer.end())
	}
	if s.directory.root != nil {
		errs = append(errs, s.directory.root.Close())
	}
	if s.data != nil {
		errs = append(errs, s.data.Close())
	}
	return errors.Join(errs...)
}

// timers wake the store's goroutine.
type timers struct {
	settle, retry clock.Timer
	scan, report  clock.Ticker
}

// run is the store's goroutine.
func (s *Store) run() {
	c := s.cfg.Clock
	t := &timers{settle: c.NewTimer(time.Hour), retry: c.NewTimer(s.cfg.RetryPeriod), scan: c.NewTicker(s.cfg.ScanPeriod), report: c.NewTicker(s.cfg.ReportPeriod)}
	defer t.settle.Stop()
	defer t.retry.Stop()
	defer t.scan.Stop()
	defer t.report.Stop()
	for s.guarded(t) {
	}
}

// guarded is turn, but that a panic ends writing and looking for edits, not the process: nothing
// but the snapshots can be trusted then.
func (s *Store) guarded(t *timers) (more bool) {
	defer func() {
		s.troubles.turn.Store(0)
		if what := recover(); what != nil {
			s.dead, more = true, true
			s.writer.stop(s.troubles.panicked(what))
			s.queue.abandon()
		}
	}()
	if s.dead {
		return s.idle()
	}
	return s.turn(t)
}

// turn waits for something to do and does it. It is false when the store is closing.
func (s *Store) turn(t *timers) bool {
	s.arm(t.settle)
	in := &s.intake
	select {
	case <-s.closing:
		s.queue.refuse(errClosed)
		return false
	case job := <-s.queue.next():
		s.began()
		s.writer.serve(job)
	case <-s.directory.wake():
		s.began()
		in.takeEvents()
	case <-t.settle.C():
		s.began()
		in.settleNow()
	case list := <-in.scans:
		s.began()
		in.takeScan(list)
	case done := <-s.reloads:
		defer close(done)
		s.began()
		in.reload()
	case <-t.scan.C():
		s.began()
		in.startScan()
	case <-t.report.C():
		s.directory.problems.Remind()
	case <-t.retry.C():
		s.began()
		t.retry.Reset(s.cfg.RetryPeriod)
		s.writer.retry()
		in.retryPlacing()
	}
	return true
}

// idle is turn after a panic: every caller gets an answer.
func (s *Store) idle() bool {
	select {
	case <-s.closing:
		s.queue.refuse(errClosed)
		return false
	case job := <-s.queue.held:
		s.queue.answer(job, &step{}, errPanicked)
	case job := <-s.queue.jobs:
		s.queue.answer(job, &step{}, errPanicked)
	case done := <-s.reloads:
		close(done)
	}
	return true
}

func (s *Store) began() { s.troubles.turn.Store(s.cfg.Clock.Now().UnixNano()) }

// arm sets the timer for the next change that settles.
func (s *Store) arm(timer clock.Timer) {
	if next := s.intake.settle.deadline(); !next.IsZero() {
		timer.Reset(next.Sub(s.cfg.Clock.Now()))
	} else {
		timer.Stop()
	}
}

// Stats describes a store. The tags are for internal/metric.
//
// wide: a list of numbers.
type Stats struct {
	Files        int    `metric:"config_files" help:"Configuration files, broken ones included."`
	Broken       int    `metric:"config_broken_files" help:"Configuration files that cannot be served as they are now."`
	Deleted      int    `metric:"config_deleted_files" help:"Names of which only the tombstone is left."`
	Bytes        int64  `metric:"config_bytes" help:"Contents of the files that are served."`
	Seq          uint64 `metric:"config_sequence" help:"Number of the newest change; it goes on rising across restarts."`
	Problems     int    `metric:"config_problems" help:"What someone should look at, broken files included."`
	Unwatched    int64  `metric:"config_unwatched_directories" help:"Directories whose changes are found only by scans, because file events are not to be had for them."`
	Pending      int    `metric:"config_pending_writes" help:"Writes that wait."`
	PendingBytes int64  `metric:"config_pending_bytes" help:"Contents of the writes that wait."`
	Recent       int64  `metric:"config_recent_bytes" help:"The newest changes, kept for watches on documents."`
	Untold       int64  `metric:"config_untold_bytes" help:"Changes that watches on documents have not been told yet."`
	Lapses       uint64 `metric:"config_untold_lapses_total" help:"How often watches on documents were not told of changes because that was too much: they read them back, or begin again."`
	GitAsked     uint64 `metric:"config_git_questions_total" help:"How often git was asked with which commits files came that were found on disk."`
	GitFailed    uint64 `metric:"config_git_failures_total" help:"Questions to git that it did not answer within its limit, or not at all, and versions of which it was not asked because too many were waiting: they are the changes of the files' owners."`
	Uncommitted  int64  `metric:"config_git_waiting" help:"Versions found on disk with which a commit may have come, or may come yet."`
	Panics       uint64 `metric:"config_panics_total" help:"Panics of the configuration store, which takes no changes after one until a restart."`
}

// Stats may be called from any goroutine. It is cheap, except for the first call after a
// change, which looks at every file.
func (s *Store) Stats() Stats {
	now := s.Snapshot()
	count := now.Count()
	stats := Stats{Files: count.Files, Deleted: count.Deleted, Bytes: count.Bytes, Seq: now.Seq()}
	s.publisher.mu.Lock()
	stats.Files += len(s.publisher.faults)
	s.publisher.mu.Unlock()
	problems := s.Problems()
	stats.Problems = len(problems)
	for _, p := range problems {
		if p.Kind == OfFile {
			stats.Broken++
		}
	}
	stats.Unwatched = s.directory.unwatched.Load()
	stats.Pending, stats.PendingBytes = len(s.queue.jobs), s.queue.queued.Load()
	kept := s.Revisions().Numbers()
	stats.Recent, stats.Untold, stats.Lapses = kept.Recent, kept.Untold, kept.Lapses
	if c := s.publisher.commits; c != nil {
		n := c.Numbers()
		stats.GitAsked, stats.GitFailed, stats.Uncommitted = n.Asked, n.Failures, n.Waiting
	}
	stats.Panics = s.troubles.panics.Load()
	return stats
}
