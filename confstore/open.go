package confstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"confcenter/codes"
	"confcenter/confstore/doclog"
	"confcenter/confstore/placement"
	"confcenter/internal/atomicfile"
)

// Open recalls from cfg.State what was served, puts in place what a stop has kept from it, takes in
// edits made meanwhile and starts to watch. It fails if the directory does not exist, or if what the
// state store has of the documents is damaged. No one else may use cfg.DataDir at the same time:
// the caller sees to that.
func Open(cfg Config) (*Store, error) {
	s, err := prepare(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.owner.Go(s.run)
	s.owner.Go(s.watch)
	if c := s.publisher.commits; c != nil {
		s.owner.Go(func() { c.run(s.closing) })
	}
	s.owner.Go(s.publisher.revisions.run)
	return s, nil
}

// prepare checks the configuration and makes a Store that holds nothing yet.
func prepare(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.DataDir == "" {
		return nil, codes.Errorf(codes.BadRequest, "the configuration directory and the data directory must be named")
	}
	if cfg.State == nil {
		return nil, codes.Errorf(codes.BadRequest, "a state store must be given, in which the configurations are remembered")
	}
	s := &Store{cfg: cfg, reloads: make(chan chan struct{}), closing: make(chan struct{})}
	problems := newProblems(cfg.Log, cfg.Clock.Now)
	s.publisher.limits.inline, s.publisher.limits.index, s.publisher.limits.cache = cfg.InlineBytes, cfg.IndexBytes, newCache(cfg.Caches)
	s.publisher.snapshot.Store(emptySnapshot())
	s.troubles = troubles{clock: cfg.Clock, log: cfg.Log, dir: filepath.Clean(cfg.Dir), data: cfg.DataDir, state: cfg.State, patience: 3 * cfg.DiskPatience}
	s.syncer = syncer{fs: cfg.FS, clock: cfg.Clock, log: cfg.Log, wake: make(chan struct{}, 1), closing: make(chan struct{})}
	s.directory = directory{cfg: &s.cfg, problems: problems, troubles: &s.troubles, path: filepath.Clean(cfg.Dir), blind: make(map[string]struct{}), room: room{pool: cfg.Documents, now: &s.publisher.snapshot}}
	s.intake = intake{
		cfg: &s.cfg, dir: &s.directory, w: &s.writer, scans: make(chan *listing), closing: s.closing,
		files: make(map[string]*file), settle: settling{cfg: &s.cfg, names: map[string]struct{}{}, dirs: map[string]struct{}{}, waiting: map[string]wait{}}, tree: newTree(),
	}
	s.queue = queue{cfg: &s.cfg, jobs: make(chan *setJob, cfg.QueueLength), held: make(chan *setJob, 1)}
	s.writer = writer{
		publisher: &s.publisher, cfg: &s.cfg, dir: &s.directory, in: &s.intake, queue: &s.queue,
		placer: placer{dir: &s.directory, syncer: &s.syncer, owed: make(map[string]*owedFile)}, unsaved: make(map[string]*doclog.By),
	}
	if cfg.FS != atomicfile.OS() {
		return s, checkApart(s.directory.path, filepath.Clean(cfg.DataDir))
	}
	return s, s.prepareOS()
}

// prepareOS handles what only the machine's own file system has: symlinks in front of the
// directory, and a data directory that has to be created.
func (s *Store) prepareOS() error {
	var err error
	if s.directory.path, err = absolute(s.cfg.Dir); err != nil {
		return missingDir(s.cfg.Dir, err)
	}
	data, err := Apart(s.cfg.Dir, s.cfg.DataDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	s.cfg.DataDir, s.troubles.dir, s.troubles.data = data, s.directory.path, data
	return nil
}

// absolute returns dir without symlinks in front of its last element. That element stays as it is,
// because it may be a link that gets swapped.
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

// Apart returns the absolute path of a data directory. It fails, as Open does, if the directory of
// the documents does not exist or the data directory is in it.
func Apart(dir, data string) (string, error) {
	path, err := absolute(dir)
	if err != nil {
		return "", missingDir(dir, err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", missingDir(dir, err)
	}
	if data, err = filepath.Abs(data); err != nil {
		return "", err
	}
	return data, checkApart(path, resolved(data))
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
	s.writer.data, s.syncer.dir = s.data, s.directory.path
	if err := s.directory.open(); err != nil {
		return err
	}
	marks, err := placement.Open(s.data, s.cfg.Machine.Boot)
	if err != nil {
		return err
	}
	restored, err := s.isRestored()
	if err != nil {
		return err
	}
	log, err := s.openLog(restored)
	if err != nil {
		return err
	}
	s.writer.log = log
	s.syncer.marks = marks
	s.directory.gitWorks(nil)
	readings, err := s.recall(marks, restored)
	if err != nil {
		return err
	}
	if restored {
		if err := s.forgetRestore(); err != nil {
			return err
		}
	}
	s.syncer.start()
	if s.cfg.FS == atomicfile.OS() {
		s.publisher.commits = newCommits(&s.cfg, s.directory.path, log)
		if err := s.publisher.commits.recall(context.Background()); err != nil {
			return err
		}
	}
	if err := s.load(readings); err != nil {
		return err
	}
	s.publisher.revisions = newRevisions(&s.publisher, log)
	return nil
}

// load publishes the differences between directory and log. There are no subscribers yet.
func (s *Store) load(readings []reading) error {
	defer s.directory.room.done(readings)
	edits := s.intake.take(readings, s.cfg.Clock.Now(), true)
	s.directory.sign(edits)
	planner := s.writer.planner()
	if len(planner.prev.names) > 0 {
		// The last run may have served some of it already, with versions that it could not record.
		planner.floor = seconds(planner.now, planner.now)
	}
	p, err := planner.plan(edits, true)
	if err != nil {
		return err
	}
	if removed := removals(edits); removed > 0 && removed == len(s.intake.files) {
		s.cfg.Log.Warn().Str("dir", s.directory.path).Int("documents", removed).Msg("the configuration directory is empty, so all documents count as removed; is it the right one, is it mounted?")
	}
	s.writer.carryOut([]step{{plan: p.apply(&s.publisher.limits)}}) // a full disk must not keep what is on it from being served
	s.intake.noteRoom()
	s.cfg.Log.Info().Str("dir", s.directory.path).Int("documents", len(s.Snapshot().Names())).Int("changed", len(edits)).Msg("configuration loaded")
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
