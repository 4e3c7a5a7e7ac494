package confstore

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
)

// Store is an open directory of documents. Make it with Open.
type Store struct {
	// set at open
	cfg       Config
	data      atomicfile.Root
	lock      io.Closer
	epoch     string
	publisher publisher
	recorder  recorder
	directory directory
	intake    intake
	writer    writer
	reloads   chan chan struct{}
	closing   chan struct{}
	owner     sync.WaitGroup
	closeOnce sync.Once
}

// Snapshot is the newest snapshot. It is one atomic load and may be called from
// any goroutine, also after Close.
func (s *Store) Snapshot() *Snapshot { return s.publisher.snapshot.Load() }

// Epoch identifies the history of versions: random text that is made with the
// journal and kept for its life. Versions of another epoch say nothing.
func (s *Store) Epoch() string { return s.epoch }

// Problems is what is wrong now, sorted by name. The slice is the caller's.
func (s *Store) Problems() []Problem { return s.recorder.problems.all() }

// Subscribe has fn called for every batch from now on, in order, on the store's
// goroutine: after the snapshot is readable and before the writer is answered. fn
// must only post; while it runs nothing else changes, and it must not call Reload,
// Close or Subscribe. When cancel returns fn is not called again; it waits for a call
// under way, so that fn must not call it either.
func (s *Store) Subscribe(fn func(*Batch)) (cancel func()) { return s.publisher.batches.add(fn) }

// Follow has fn called with the names of files of which something is now
// different that a person would be shown: own or resolved contents or version,
// list of bases, whether the file is broken and why. Other than Subscribe it also
// tells of what programs are not to be bothered with. The snapshot is the newest;
// names are sorted and shared. For fn and cancel holds what Subscribe says.
func (s *Store) Follow(fn func(now *Snapshot, names []string)) (cancel func()) {
	return s.publisher.seen.add(func(v sight) { fn(v.now, v.names) })
}

// Faults are the files that were never good, sorted by name. Of a file that was
// good once Node.Broken tells. The slice is the caller's.
func (s *Store) Faults() []Fault { return s.publisher.allFaults() }

// Fault is why the file of that name was never good, "" if it was or if there is
// none.
func (s *Store) Fault(name string) string { return s.publisher.fault(name) }

// Set queues a write. Requests are carried out one after the other in the order
// they came; those that wait share the disk's time. done is called on the store's
// goroutine, after the change is durable and published, or with the reason why there
// is none; it must only post. codes.Busy there means that the version runs more than
// a day ahead of the clock, as after many writes in a second; the text says when to
// try again. If Set itself returns an error (codes.BadName, codes.Busy, codes.Closed)
// done is never called.
func (s *Store) Set(req SetRequest, done func(SetResult, error)) error {
	return s.writer.put(req, done)
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

// ReadFile is the file as it is on the disk at this moment, whether or not it is
// good and whether or not it was taken in already. codes.BadName, codes.NotFound,
// codes.TooLarge, codes.Storage. It may be called from any goroutine.
func (s *Store) ReadFile(name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	root, err := s.cfg.FS.OpenRoot(s.directory.path)
	if err != nil {
		return nil, &codes.Error{Code: codes.Storage, Text: "the configuration directory cannot be opened", Err: err}
	}
	defer root.Close()
	data, info, err := atomicfile.ReadFile(root, name, s.cfg.MaxFileBytes)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), info != nil && info.IsDir():
		return nil, codes.Errorf(codes.NotFound, "there is no file %q", name)
	case errors.Is(err, atomicfile.ErrTooLarge):
		return nil, codes.Errorf(codes.TooLarge, "%s is larger than the limit of %d bytes", name, s.cfg.MaxFileBytes)
	}
	return nil, &codes.Error{Code: codes.Storage, Text: name + " cannot be read: " + cause(err), Err: err}
}

// Close finishes the write it is at, refuses those that wait with codes.Closed
// and gives the lock back. Snapshots stay readable. Only the first call does
// anything.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		s.writer.close()
		close(s.closing)
		s.owner.Wait()
		s.intake.scanners.Wait()
		err = s.release()
	})
	return err
}

// release gives back what Open took, as far as it got.
func (s *Store) release() error {
	var errs []error
	if s.directory.watch != nil {
		errs = append(errs, s.directory.watch.close())
	}
	if s.recorder.ledger != nil {
		errs = append(errs, s.recorder.ledger.Close())
	}
	if s.directory.root != nil {
		errs = append(errs, s.directory.root.Close())
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
	timer := s.cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	scan := s.cfg.Clock.NewTicker(s.cfg.ScanPeriod)
	defer scan.Stop()
	report := s.cfg.Clock.NewTicker(s.cfg.ReportPeriod)
	defer report.Stop()
	in := &s.intake
	var wake chan struct{}
	if s.directory.watch != nil {
		wake = s.directory.watch.wake
	}
	for {
		s.arm(timer)
		select {
		case <-s.closing:
			s.writer.refuseQueued()
			return
		case job := <-s.writer.next():
			s.writer.serve(job)
		case <-wake:
			in.takeEvents()
		case <-timer.C():
			in.settleNow()
		case list := <-in.scans:
			in.takeScan(list)
		case done := <-s.reloads:
			in.reload()
			close(done)
		case <-scan.C():
			in.startScan()
		case <-report.C():
			s.recorder.problems.remind()
		}
		s.recorder.tidy()
	}
}

// arm sets the timer for what is settling.
func (s *Store) arm(timer clock.Timer) {
	if next := s.intake.settle.deadline(); !next.IsZero() {
		timer.Reset(next.Sub(s.cfg.Clock.Now()))
	} else {
		timer.Stop()
	}
}
