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

	"confcenter/confstore/log"
	"confcenter/confstore/place"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/internal/parallel"
	"confcenter/kv"
)

// placer puts the files of committed versions in place. One that cannot be put there is served
// nonetheless, and tried again. Only the store's goroutine uses it.
type placer struct {
	// set at open
	dir    *directory
	syncer *syncer

	owed map[string]*owedFile // store's goroutine only: files that are not in place, by name
}

// owedFile is a version whose file has to be put in place.
type owedFile struct {
	version log.Version         // with its file
	before  reading             // what is there when it is to be placed
	pending *atomicfile.Pending // nil: not made yet, or not needed
	with    string              // the name of the file that it comes in place with, to which it is a link; "": it is a file
}

// inPlace notes that files are in place.
func (p *placer) inPlace(files ...place.File) {
	for _, f := range files {
		p.forgive(f.Name)
	}
	p.syncer.add(files, p.bound())
}

// forgive puts nothing in place of a file any more.
func (p *placer) forgive(name string) {
	if o := p.owed[name]; o != nil {
		o.discard()
		p.dir.problems.Set(OfFile, name, "")
		delete(p.owed, name)
	}
}

// bound is the revision from which on files are not in place; 0: all are.
func (p *placer) bound() (first kv.Revision) {
	for _, o := range p.owed {
		if first == 0 || o.version.Revision < first {
			first = o.version.Revision
		}
	}
	return first
}

// place puts the files of versions in place. Until all are, none of them counts
// as the last one that is missing. A file that was changed since it was read is someone's edit, and
// stays for retry to look at: overtaken. Those that are in place are for inPlace.
func (p *placer) place(list ...*owedFile) (placed []place.File, overtaken bool) {
	for _, o := range list {
		p.owed[o.version.Name] = o
	}
	done := func(o *owedFile) {
		delete(p.owed, o.version.Name)
		placed = append(placed, place.File{Name: o.version.Name, Revision: o.version.Revision})
	}
	for _, o := range list {
		switch {
		case o.with != "":
		case p.dir.changedSince(&o.before):
			overtaken = true
		default:
			err := p.put(o)
			if o.before = (reading{}); err != nil {
				p.trouble(o.version.Name, err)
				continue
			}
			p.dir.problems.Set(OfFile, o.version.Name, "")
			done(o)
		}
	}
	for _, o := range list {
		if o.with != "" && p.owed[o.with] == nil {
			done(o)
		}
	}
	return placed, overtaken
}

// stale reports whether a file is not an edit, but what a version that is owed replaces.
func (p *placer) stale(r reading) bool {
	o := p.owed[r.name]
	return o != nil && r.raw == o.version.Replaces && r.missing == (o.version.Replaces == log.Digest{}) && !r.isDir
}

// meant is what a file is as soon as what is owed can be put in place.
func (p *placer) meant(r reading) reading {
	if p.stale(r) {
		v := &p.owed[r.name].version
		r.missing, r.fault, r.raw = v.Deleted, "", v.Hash
	}
	return r
}

// retry tries to put files in place. It returns the names of those that were changed meanwhile.
func (p *placer) retry() (edited []string) {
	for name, o := range p.owed {
		now := p.dir.look(name)
		switch {
		case now.missing == o.version.Deleted && now.raw == o.version.Hash:
			p.inPlace(place.File{Name: name, Revision: o.version.Revision})
		case p.stale(now):
			o.before = now
			placed, _ := p.place(o)
			p.inPlace(placed...)
		default:
			p.forgive(name)
			edited = append(edited, name)
		}
	}
	return edited
}

// trouble reports why a file cannot be put in place.
func (p *placer) trouble(name string, err error) {
	p.dir.problems.Set(OfFile, name, storageError(name, "cannot replace in the configuration directory", err).Error()+"; its new version is served, and the file is written when it can be")
}

func (o *owedFile) discard() {
	if o.pending != nil {
		_ = o.pending.Discard() // a start removes what is left
	}
}

// put makes the file what its version says.
func (p *placer) put(o *owedFile) error {
	v := &o.version
	if v.Deleted {
		if err := p.dir.root.Remove(v.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if o.pending == nil {
		var err error
		if o.pending, err = p.dir.prepare(v.Name, v.File, v.Given, o.before); err != nil {
			return err
		}
	}
	return o.pending.Rename()
}

// bytesOf are the bytes of the file that a node is served from: those on the disk, unless they
// have changed again.
func (p *placer) bytesOf(n *snapshot.Node) []byte {
	if n.Deleted() {
		return nil
	}
	now := p.dir.look(n.Name())
	if now.raw == n.Hash() && now.data != nil {
		return now.data
	}
	return ownLayout.Append(nil, n.Text())
}

// syncer makes files that are in place durable, in the background, and marks how far that has
// got: the log has their contents, so no one has to wait. Its goroutine runs from start to end.
type syncer struct {
	// set at open
	cfg     *Config
	dir     string
	marks   *place.Marks  // of its goroutine
	wake    chan struct{} // capacity 1
	closing chan struct{}
	running sync.WaitGroup

	failed bool // of its goroutine: what is on the disk is not known, so nothing is marked any more

	mu sync.Mutex

	// guarded by mu
	placed  []place.File
	through kv.Revision // all files of versions through it are in place
}

// start begins marks for this boot of the machine, so that a process that comes after this one
// knows what it finds however early this one is killed, and then makes files durable.
func (s *syncer) start() {
	if !s.marks.Again() {
		if err := s.marks.Advance(s.marks.Synced()); err != nil {
			s.cfg.Log.Warn().Err(err).Msg("what files are in place cannot be marked yet; a start after a crash takes what it finds for edits")
		}
	}
	s.running.Go(s.run)
}

// add has files made durable that are in place: those of a change together, since none of them
// counts as durable before all do. bound is the revision from which on there are files that are not
// in place; 0: there are none.
func (s *syncer) add(files []place.File, bound kv.Revision) {
	if len(files) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed = append(s.placed, files...)
	for _, f := range files {
		through := f.Revision
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
	timer := s.cfg.Clock.NewTimer(syncDelay)
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

func (s *syncer) take() ([]place.File, kv.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := s.placed
	s.placed = nil
	return files, s.through
}

// mark says, to a process that comes after this one, which files are in place.
func (s *syncer) mark(files []place.File) {
	root, err := s.cfg.FS.OpenRoot(s.dir)
	if err != nil {
		return
	}
	defer root.Close()
	for _, f := range files {
		var id place.Identity
		if info, err := root.Stat(f.Name); err == nil {
			sig := signatureOf(info)
			id = place.Identity{Inode: sig.ino, Size: sig.size, Mtime: sig.mtime, Change: sig.ctime}
		}
		if err := s.marks.Place(f.Name, f.Revision, id); err != nil {
			s.cfg.Log.Warn().Err(err).Msg("what files are in place cannot be marked; the next start compares them")
			return
		}
	}
}

// sync makes files durable, and says so. If it cannot be done, the next start compares them with
// the log.
func (s *syncer) sync(files []place.File, through kv.Revision) {
	if len(files) == 0 || s.failed {
		return
	}
	names, dirs := map[string]struct{}{}, map[string]struct{}{}
	for _, f := range files {
		names[f.Name], dirs[path.Dir(f.Name)] = struct{}{}, struct{}{}
	}
	root, err := s.cfg.FS.OpenRoot(s.dir)
	if err == nil {
		err = errors.Join(all(names, func(name string) error { return syncFile(root, name) }), all(dirs, func(dir string) error { return unlessGone(root.SyncDir(dir)) }), root.Close())
	}
	if err == nil {
		err = s.marks.Advance(through)
	}
	if s.failed = err != nil; s.failed {
		s.cfg.Log.Warn().Err(err).Msg("files of configurations cannot be made durable; the state store has them, and the next start compares them")
	}
}

// all calls fn for all names, several at a time.
func all(names map[string]struct{}, fn func(string) error) error {
	list := slices.Collect(maps.Keys(names))
	errs := make([]error, len(list))
	parallel.Each(len(list), maxFlushes, func(i int) { errs[i] = fn(list[i]) })
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
