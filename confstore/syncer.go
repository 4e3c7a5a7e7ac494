package confstore

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"confcenter/confstore/placement"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/kv"
)

// syncer makes files that are in place durable, in the background, and marks how far that has
// got: the log has their contents, so no one has to wait. Its goroutine runs from start to end.
type syncer struct {
	// set at open
	fs      atomicfile.FS
	dir     string
	clock   clock.Clock
	log     zerolog.Logger
	marks   *placement.Marks // of its goroutine
	wake    chan struct{}    // capacity 1
	closing chan struct{}
	running sync.WaitGroup

	failed bool // of its goroutine: what is on the disk is not known, so nothing is marked any more

	mu sync.Mutex

	// guarded by mu
	placed  []placedFile
	through kv.Revision // all files of versions through it are in place
}

// placedFile is the file of a version that is in place.
type placedFile struct {
	name  string
	rev   kv.Revision
	state string // of its repository, if it was found on disk; "": not known
}

// start begins marks for this boot of the machine, so that a process that comes after this one
// knows what it finds however early this one is killed, and then makes files durable.
func (s *syncer) start() {
	if !s.marks.Again() {
		if err := s.marks.Advance(s.marks.Synced()); err != nil {
			s.log.Warn().Err(err).Msg("what files are in place cannot be marked yet; a start after a crash takes what it finds for edits")
		}
	}
	s.running.Go(s.run)
}

// add has files made durable that are in place: those of a change together, since none of them
// counts as durable before all do. bound is the revision from which on there are files that are not
// in place; 0: there are none.
func (s *syncer) add(files []placedFile, bound kv.Revision) {
	if len(files) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed = append(s.placed, files...)
	for _, f := range files {
		through := f.rev
		if bound > 0 {
			through = min(through, bound-1)
		}
		s.through = max(s.through, through)
	}
	clock.Nudge(s.wake)
}

// end makes durable what is left, and waits.
func (s *syncer) end() error {
	close(s.closing)
	s.running.Wait()
	return s.marks.Close()
}

func (s *syncer) run() {
	timer := s.clock.NewTimer(syncDelay)
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			s.sync(s.take())
			return
		case <-s.wake:
		}
		files, through := s.take()
		s.mark(files)
		timer.Stop()
		timer.Reset(syncDelay)
		select {
		case <-s.closing:
		case <-timer.C():
		}
		s.sync(files, through)
	}
}

// syncDelay is how long files are gathered before they are made durable together.
const syncDelay = 100 * time.Millisecond

func (s *syncer) take() ([]placedFile, kv.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := s.placed
	s.placed = nil
	return files, s.through
}

// mark says, to a process that comes after this one, which files are in place.
func (s *syncer) mark(files []placedFile) {
	root, err := s.fs.OpenRoot(s.dir)
	if err != nil {
		return
	}
	defer root.Close()
	for _, f := range files {
		var id placement.Identity
		if info, err := root.Stat(f.name); err == nil {
			sig := signatureOf(info)
			id = placement.Identity{Inode: sig.ino, Size: sig.size, Mtime: sig.mtime, Change: sig.ctime}
		}
		if err := s.marks.Place(f.name, f.rev, id); err != nil {
			s.log.Warn().Err(err).Msg("what files are in place cannot be marked; the next start compares them")
			return
		}
	}
}

// sync makes files durable, and says so. If it cannot be done, the next start compares them with
// the log.
func (s *syncer) sync(files []placedFile, through kv.Revision) {
	if len(files) == 0 || s.failed {
		return
	}
	names, dirs := map[string]struct{}{}, map[string]struct{}{}
	for _, f := range files {
		names[f.name], dirs[path.Dir(f.name)] = struct{}{}, struct{}{}
	}
	root, err := s.fs.OpenRoot(s.dir)
	if err == nil {
		err = errors.Join(all(names, func(name string) error { return syncFile(root, name) }), all(dirs, func(dir string) error { return unlessGone(root.SyncDir(dir)) }), root.Close())
	}
	if err == nil {
		err = s.marks.Advance(through)
	}
	if s.failed = err != nil; s.failed {
		s.log.Warn().Err(err).Msg("files of configurations cannot be made durable; the state store has them, and the next start compares them")
	}
}

// all calls fn for all names, several at a time.
func all(names map[string]struct{}, fn func(string) error) error {
	list := slices.Collect(maps.Keys(names))
	errs := make([]error, len(list))
	each(len(list), maxFlushes, func(i int) { errs[i] = fn(list[i]) })
	return errors.Join(errs...)
}

func syncFile(root atomicfile.Root, name string) error {
	f, err := root.OpenFile(name, syscall.O_RDONLY, 0)
	if err != nil {
		return unlessGone(err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// unlessGone is err, unless what was to be made durable has been removed since.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}
