package confstore

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/meta"
)

// Open takes the exclusive lock on cfg.DataDir, brings back what the journal
// remembers, finishes a write that was interrupted, takes in what was edited
// meanwhile and begins to watch. It fails if the directory does not exist, if
// another process holds the lock, or if the journal is damaged.
func Open(cfg Config) (*Store, error) {
	s, err := prepare(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.owner.Go(s.run)
	return s, nil
}

// prepare checks the configuration and makes a Store that holds nothing yet.
func prepare(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.DataDir == "" {
		return nil, codes.Errorf(codes.BadRequest, "the configuration directory and the data directory must be named")
	}
	s := &Store{
		cfg: cfg, log: cfg.Log, clock: cfg.Clock,
		problems: newProblems(cfg.Log, cfg.Clock.Now),
		sets:     make(chan setJob, cfg.QueueLength),
		reloads:  make(chan chan struct{}),
		scans:    make(chan *listing),
		closing:  make(chan struct{}),
		entries:  make(map[string]*entry),
		settle:   newSettling(),
		linked:   make(map[string]struct{}), linkedDirs: make(map[string]struct{}), dirs: make(map[string]struct{}),
	}
	s.limits.inline, s.limits.index, s.limits.cache = cfg.InlineBytes, cfg.IndexBytes, newCache(cfg.CacheBytes)
	s.rules, _ = parseRules(nil)
	s.snapshot.Store(&Snapshot{})
	s.dir = filepath.Clean(cfg.Dir)
	if cfg.FS != atomicfile.OS() {
		return s, checkApart(s.dir, filepath.Clean(cfg.DataDir))
	}
	return s, s.prepareOS()
}

// prepareOS is for what only the machine's own file system has: symlinks in
// front of the directory, and a data directory that is yet to be made.
func (s *Store) prepareOS() error {
	var err error
	if s.dir, err = absolute(s.cfg.Dir); err != nil {
		return missingDir(s.cfg.Dir, err)
	}
	real, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return missingDir(s.cfg.Dir, err)
	}
	data, err := filepath.Abs(s.cfg.DataDir)
	if err != nil {
		return err
	}
	if err := checkApart(real, resolved(data)); err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	s.cfg.DataDir = data
	return nil
}

func missingDir(dir string, err error) error {
	return codes.Errorf(codes.NotFound, "the configuration directory %s cannot be opened, make it or name another: %w", dir, err)
}

// resolved follows the symlinks in a path whose last elements may not exist yet.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

func checkApart(dir, data string) error {
	if data == dir || strings.HasPrefix(data, strings.TrimSuffix(dir, "/")+"/") {
		return codes.Errorf(codes.BadRequest, "the data directory %s is inside the configuration directory %s; name one outside", data, dir)
	}
	return nil
}

func (s *Store) open() error {
	var err error
	if s.data, err = s.cfg.FS.OpenRoot(s.cfg.DataDir); err != nil {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	if s.lock, err = s.takeLock(); err != nil {
		if errors.Is(err, atomicfile.ErrLocked) {
			return codes.Errorf(codes.Busy, "the data directory %s is in use by another server: stop it or name another directory", s.cfg.DataDir)
		}
		return codes.Errorf(codes.Storage, "data directory %s: lock: %w", s.cfg.DataDir, err)
	}
	if err := s.openRoot(); err != nil {
		return err
	}
	var old *replayed
	if s.journal, old, err = openJournal(s.data, s.cfg.NewEpoch); err != nil {
		return err
	}
	s.epoch = old.epochText()
	if old.torn > 0 {
		s.log.Warn().Int64("bytes", old.torn).Msg("the end of the journal was not completely written, as after a power cut; it was cut off")
	}
	s.recall(old)
	if err := s.finishIntents(old); err != nil {
		return err
	}
	return s.load()
}

// lockPoll is how often a lock that is taken is tried again.
const lockPoll = 20 * time.Millisecond

func (s *Store) takeLock() (io.Closer, error) {
	timer := s.clock.NewTimer(lockPoll)
	defer timer.Stop()
	for end := s.clock.Now().Add(s.cfg.LockWait); ; {
		lock, err := s.data.Lock(lockName)
		if !errors.Is(err, atomicfile.ErrLocked) || !s.clock.Now().Before(end) {
			return lock, err
		}
		<-timer.C()
		timer.Reset(lockPoll)
	}
}

func (s *Store) openRoot() error {
	root, err := s.cfg.FS.OpenRoot(s.dir)
	if err != nil {
		return missingDir(s.cfg.Dir, err)
	}
	s.root = root
	info, err := root.Stat(".")
	if err != nil {
		return missingDir(s.cfg.Dir, err)
	}
	s.rootID = idOf(info)
	if s.cfg.NoEvents {
		return nil
	}
	if s.watch, err = newWatcher(s.dir); err != nil {
		s.problems.set(OfWatch, ".", "file events are not available, changes are found only by the scan: "+err.Error())
		return nil
	}
	if err := s.watch.watchParent(); err != nil {
		s.problems.set(OfWatch, "..", "the directory above cannot be watched, so a replaced directory is found only by the scan: "+cause(err))
	}
	s.gitLock = s.findGitLock()
	return nil
}

// recall makes the state of the last run what the edits since are compared with.
func (s *Store) recall(old *replayed) {
	s.seq = old.seq
	for name, k := range old.names {
		if k.put.kind == 0 || nameFault(name) != "" { // older versions took in files of any name while they ran
			continue
		}
		doc := &document{served: k.put.served, given: k.put.given, seq: k.put.seq, deleted: k.put.deleted, text: k.put.text}
		if doc.deleted {
			doc.text = []byte("{}")
		}
		e := s.entry(name)
		e.doc, e.seq, e.floor, e.list = doc, k.put.seq, k.list.floor, k.list.list
		e.onDisk = !doc.deleted // if it is not, it was removed meanwhile
		s.liveBytes += e.size(name)
	}
	if e := s.entries[meta.FileName]; e.live() {
		if rules, err := parseRules(e.doc.text); err == nil {
			s.rules = rules
		}
	}
	s.recallLists(old)
	b := newBuilder(s.snapshot.Load())
	b.next.seq, b.next.meta = s.seq, s.rules.meta
	for name := range s.entries {
		b.put(s.newNode(name, nil))
	}
	for _, name := range s.rules.meta.Names() {
		if s.entries[name] == nil {
			b.put(s.newNode(name, nil))
		}
	}
	s.snapshot.Store(b.finish())
}

// recallLists says when documents got their lists of bases. The journal does not
// know, but not after _meta.json was changed last.
func (s *Store) recallLists(old *replayed) {
	rules := s.entries[meta.FileName]
	if !rules.known() {
		return
	}
	for name, k := range old.names {
		if e := s.entries[name]; e != nil && k.list.kind != 0 {
			e.listSeq = rules.doc.seq
		}
	}
}

// finishIntents carries out what the last run had recorded and not finished: the
// file is still what it was before. Whatever else is there is somebody's edit.
func (s *Store) finishIntents(old *replayed) error {
	for name, k := range old.names {
		if k.intent == nil {
			continue
		}
		now := s.read(s.root, name)
		if now.missing != k.intent.absent || now.raw != k.intent.previous || now.isDir {
			s.journal.markDone(k.intent.seq)
			continue
		}
		s.log.Info().Str("name", name).Msg("finishing a write that was interrupted")
		var err error
		if k.intent.deleted {
			err = s.removeFile(name)
		} else {
			err = s.replaceFile(k.intent, now)
		}
		if err != nil {
			return storageError(name, "finish an interrupted write", err)
		}
		s.journal.markDone(k.intent.seq)
	}
	return nil
}

func (s *Store) removeFile(name string) error {
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.root.SyncDir(dirOf(name))
}

func (s *Store) replaceFile(r *record, before reading) error {
	if err := atomicfile.MkdirAll(s.root, dirOf(r.name), 0o755); err != nil {
		return err
	}
	data := r.text
	if !r.exact {
		data = s.fileText(r.text, before)
	}
	return atomicfile.Write(s.root, r.name, data, s.fileAttr(r.name, r.given))
}

// load reads the directory. Directories are watched before they are listed, so
// that what changes meanwhile is seen by one or the other.
func (s *Store) load() error {
	w := &walker{root: s.root, enter: s.watchDir, maxFiles: 2 * s.cfg.MaxFiles}
	list := w.walk(".")
	for _, temp := range list.temps {
		if err := s.root.Remove(temp); err != nil {
			s.log.Warn().Str("name", temp).Msg("a temporary file of an interrupted write cannot be removed: " + cause(err))
		}
	}
	s.problems.replace(OfDirectory, list.problems)
	s.noteListing(list)
	names := make([]string, 0, len(list.files))
	listed := make(map[string]bool, len(list.files))
	for _, f := range list.files {
		names, listed[f.name] = append(names, f.name), true
	}
	for name := range s.entries {
		if !listed[name] {
			names = append(names, name)
		}
	}
	return s.takeLoaded(s.loaded(names))
}

// loaded reads names and says how they differ from what the journal remembers.
func (s *Store) loaded(names []string) []edit {
	var edits []edit
	now := s.clock.Now()
	for _, r := range s.readAll(s.root, names) {
		if ed, ok := s.takeReading(r, now, true); ok {
			edits = append(edits, ed)
		} else if e := s.entries[r.name]; e.live() {
			// Not the journal's bytes, which would keep all of it in memory.
			if r.text == nil {
				r.text = bytes.Clone(e.doc.text)
			}
			e.doc.text = r.text
		}
	}
	return edits
}

// takeLoaded publishes what the directory has that the journal has not. Nobody is
// subscribed yet.
func (s *Store) takeLoaded(edits []edit) error {
	p, err := s.plan(edits, true)
	if err != nil {
		return err
	}
	err = s.journal.append(p.records())
	if removed := removals(edits); removed > 0 && removed == len(s.entries) {
		s.log.Warn().Str("dir", s.dir).Int("documents", removed).Msg("the configuration directory is empty, so all documents count as removed; is it the right one, is it mounted?")
	}
	s.journaled(err) // a full disk must not keep what is on it from being served
	s.publish(p, err != nil)
	s.log.Info().Str("dir", s.dir).Int("documents", len(s.snapshot.Load().Names())).Int("changed", len(edits)).Msg("configuration loaded")
	return nil
}

func removals(edits []edit) (n int) {
	for _, e := range edits {
		if e.text == nil {
			n++
		}
	}
	return n
}
