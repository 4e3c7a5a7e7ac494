package confstore

import (
	"errors"
	"sync"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// Store is an open directory of documents. Make it with Open.
type Store struct {
	// set at open
	cfg       Config
	data      atomicfile.Root
	publisher publisher
	recorder  recorder
	directory directory
	placer    placer
	syncer    syncer
	intake    intake
	writer    writer
	troubles  troubles
	reloads   chan chan struct{}
	closing   chan struct{}
	owner     sync.WaitGroup
	closeOnce sync.Once

	dead bool // store's goroutine only: it has panicked, so only the snapshot can be trusted
}

// Snapshot is the newest snapshot. It is one atomic load and may be called from
// any goroutine, also after Close.
func (s *Store) Snapshot() *Snapshot { return s.publisher.snapshot.Load() }

// Epoch identifies the history of versions: random text that is created with the log
// and never changes. Versions of different epochs cannot be compared.
func (s *Store) Epoch() string { return s.recorder.log.Epoch() }

// Revisions are the documents for those who follow their contents revision by revision.
func (s *Store) Revisions() *Revisions { return s.publisher.revisions }

// Problems returns the current problems, sorted by name. The caller owns the slice.
func (s *Store) Problems() []Problem { return s.recorder.problems.all() }

// Subscribe calls fn for every batch from now on, in order, on the store's goroutine: after
// the snapshot is readable and before the writer is answered. fn must only post: nothing else
// changes while it runs, and it must not call Reload, Close or Subscribe. Once cancel has
// returned fn is not called again. cancel waits for a call in progress, so fn must not call
// it either.
func (s *Store) Subscribe(fn func(*Batch)) (cancel func()) {
	return s.publisher.seen.add(func(v sight) {
		if v.batch != nil {
			fn(v.batch)
		}
	})
}

// Follow calls fn with the names of files for which anything shown to people has changed: own
// or resolved contents or version, the list of bases, whether the file is broken and why.
// Unlike Subscribe it also reports changes that do not concern programs. The snapshot is the
// newest; names are sorted and shared. The rules of Subscribe apply to fn and cancel.
func (s *Store) Follow(fn func(now *Snapshot, names []string)) (cancel func()) {
	return s.publisher.seen.add(func(v sight) { fn(v.now, v.names) })
}

// Faults returns the files that were never valid, sorted by name; for a file that was valid
// once see Node.Broken. The caller owns the slice.
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
	return s.writer.put(newSet(req, done))
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
		s.writer.close()
		close(s.closing)
		s.publisher.revisions.close()
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
			s.writer.giveUpAll()
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
		errs = append(errs, s.directory.watch.close())
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
