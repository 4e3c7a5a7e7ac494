package confstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/confstore/commits"
	"confcenter/confstore/log"
	"confcenter/confstore/place"
	"confcenter/confstore/revisions"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/health"
	"confcenter/internal/jsontext"
	"confcenter/kv"
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
		s.owner.Go(func() { c.Run(s.closing) })
	}
	s.owner.Go(func() { s.publisher.revisions.Run(s.closing) })
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
	problems := health.NewProblems(cfg.Log, cfg.Clock.Now)
	s.publisher.limits = snapshot.NewLimits(cfg.InlineBytes, cfg.IndexBytes, cfg.Caches)
	s.publisher.snapshot.Store(snapshot.Empty())
	s.troubles = troubles{cfg: &s.cfg, dir: filepath.Clean(cfg.Dir)}
	s.syncer = syncer{cfg: &s.cfg, wake: make(chan struct{}, 1), closing: make(chan struct{})}
	s.directory = directory{cfg: &s.cfg, problems: problems, troubles: &s.troubles, path: filepath.Clean(cfg.Dir), blind: make(map[string]struct{}), room: room{pool: cfg.Documents, now: &s.publisher.snapshot}}
	s.intake = intake{
		publisher: &s.publisher, cfg: &s.cfg, dir: &s.directory, placer: &s.writer.placer, found: s.writer.found, scans: make(chan *listing), closing: s.closing,
		files: make(map[string]*file), settle: settling{cfg: &s.cfg, names: map[string]struct{}{}, dirs: map[string]struct{}{}, waiting: map[string]wait{}}, tree: newTree(),
	}
	s.queue = queue{cfg: &s.cfg, jobs: make(chan *setJob, cfg.QueueLength), held: make(chan *setJob, 1)}
	s.writer = writer{
		publisher: &s.publisher, cfg: &s.cfg, dir: &s.directory, in: &s.intake, queue: &s.queue,
		placer: placer{dir: &s.directory, syncer: &s.syncer, owed: make(map[string]*owedFile)}, unsaved: make(map[string]*log.By),
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
	s.cfg.DataDir, s.troubles.dir = data, s.directory.path
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
	marks, err := place.Open(s.data, s.cfg.Machine.Boot)
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
		s.publisher.commits = commits.New(commits.Config{
			Dir: s.directory.path, Log: log, Clock: s.cfg.Clock, Wait: s.cfg.CommitWait, Patience: s.cfg.GitPatience, Most: s.cfg.MaxFiles, Report: s.cfg.Log,
		})
		if err := s.publisher.commits.Recall(context.Background()); err != nil {
			return err
		}
	}
	if err := s.load(readings); err != nil {
		return err
	}
	s.publisher.revisions = revisions.New(log, &s.publisher.exact, s.cfg.Caches.Limit()/2)
	return nil
}

// load publishes the differences between directory and log. There are no subscribers yet.
func (s *Store) load(readings []reading) error {
	defer s.directory.room.done(readings)
	edits := s.intake.take(readings, s.cfg.Clock.Now(), true)
	planner := s.writer.planner()
	if len(planner.Prev.Names()) > 0 {
		// The last run may have served some of it already, with versions that it could not record.
		planner.Floor = snapshot.Seconds(planner.Now, planner.Now)
	}
	p, err := planner.Plan(edits, true)
	if err != nil {
		return err
	}
	if removed := removals(edits); removed > 0 && removed == len(s.intake.files) {
		s.cfg.Log.Warn().Str("dir", s.directory.path).Int("documents", removed).Msg("the configuration directory is empty, so all documents count as removed; is it the right one, is it mounted?")
	}
	s.writer.carryOut([]step{{plan: p}}) // a full disk must not keep what is on it from being served
	s.intake.noteRoom()
	s.cfg.Log.Info().Str("dir", s.directory.path).Int("documents", len(s.Snapshot().Names())).Int("changed", len(edits)).Msg("configuration loaded")
	return nil
}

func removals(edits []snapshot.Edit) (n int) {
	for _, e := range edits {
		if e.Text == nil {
			n++
		}
	}
	return n
}

// asideDir is where, in the data directory, contents go that a crash has left in place of newer
// ones.
const asideDir = "aside"

// start works out what is served at first: what the log knows, with the files that are in place,
// and what people have changed since.
type start struct {
	*Store
	found    place.Start
	files    map[string]*reading
	known    map[string]log.Document
	placed   bool // a file was put in place, which links may lead to
	restored bool // from a backup: it is right, and the files are not
}

// recall restores the last run's state and puts in place what it could not. The readings are
// those of all files by then.
func (s *Store) recall(marks *place.Marks, restored bool) ([]reading, error) {
	ctx := context.Background()
	docs, newest, err := s.writer.log.Behind(0)
	if err != nil {
		return nil, err
	}
	docs = slices.DeleteFunc(docs, func(d log.Document) bool { return nameFault(d.Name) != "" })
	names, known := s.intake.list(), make(map[string]log.Document, len(docs))
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
	}
	for _, d := range docs {
		known[d.Name] = d
		if !listed[d.Name] {
			names = append(names, d.Name)
		}
	}
	if restored {
		if names, err = s.removeStrangers(names, known); err != nil {
			return nil, err
		}
	}
	s.directory.room.recalled, s.directory.first = known, len(known) == 0
	readings := s.directory.readAll(names)
	s.directory.first = false
	st := &start{Store: s, files: make(map[string]*reading, len(readings)), known: known, restored: restored}
	st.found = place.Start{Again: marks.Again() && s.cfg.Machine.Boot != "", Boot: s.cfg.Machine.Since, Synced: marks.Synced()}
	for i := range readings {
		st.files[readings[i].name] = &readings[i]
	}
	list := make([]snapshot.Recalled, len(docs))
	for _, links := range [...]bool{false, true} { // to what is in place then
		for i, d := range docs {
			if _, is := s.intake.tree.linked[d.Name]; is != links {
				continue
			}
			if links && st.placed {
				st.read(st.files[d.Name])
			}
			st.found.Placed = marks.Placed(d.Name, d.Revision)
			if list[i], err = st.document(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	s.directory.room.recalled = nil
	if first := s.writer.placer.bound(); first > 0 { // found later than some that are in place
		s.syncer.through = min(s.syncer.through, first-1)
	}
	// Sequences go on above what the last run may have served without recording it.
	seq := max(newest, uint64(s.cfg.Clock.Now().UnixMicro()))
	s.writer.recall(snapshot.Recall(list, seq, s.publisher.limits))
	s.intake.recall()
	return readings, nil
}

// document is what a start knows of a document. Its file is put in place if it is not.
func (st *start) document(ctx context.Context, d log.Document) (snapshot.Recalled, error) {
	r := st.files[d.Name]
	if !d.Deleted && r.raw == d.Hash && r.text != nil {
		if d.Revision > st.found.Synced {
			st.writer.placer.inPlace(place.File{Name: d.Name, Revision: d.Revision})
		}
		return snapshot.Recalled{Document: d, Text: r.text}, nil
	}
	if d.Deleted && r.missing {
		return snapshot.Recalled{Document: d}, nil
	}
	v, err := st.writer.log.Version(ctx, d.Name, d.N)
	if err != nil {
		return snapshot.Recalled{}, err
	}
	known := snapshot.Recalled{Document: d}
	if !d.Deleted {
		known.Text = jsontext.Compact(v.File)
	}
	if st.restored && !r.isDir {
		err := st.place(v, r, !r.missing)
		if errors.Is(err, errUnreadable) { // so it stays, and is reported as a broken one
			err = nil
		}
		return known, err
	}
	verdict, err := place.Judge(
		place.Found{Missing: r.missing, Broken: r.fault != "", Digest: r.raw, Changed: r.changed},
		place.Known{Revision: d.Revision, Deleted: d.Deleted, Hash: d.Hash, Replaces: v.Replaces, Since: func(rev kv.Revision) ([]log.Digest, error) {
			return st.digests(ctx, d, rev)
		}}, st.found)
	if err == nil && (verdict == place.Place || verdict == place.PlaceAside) && !r.isDir {
		err = st.place(v, r, verdict == place.PlaceAside)
	}
	return known, err
}

// digests are those of the version that was current at a revision, and of those after it.
func (st *start) digests(ctx context.Context, d log.Document, rev kv.Revision) (list []log.Digest, err error) {
	const page = 100
	for before := int64(0); ; {
		versions, err := st.writer.log.Versions(ctx, d.Name, before, page)
		if err != nil || len(versions) == 0 {
			return list, err
		}
		for _, v := range versions {
			list = append(list, v.Hash)
			if before = v.N; v.Revision <= rev {
				return list, nil
			}
		}
		if before == 1 {
			return list, nil
		}
	}
}

// place puts a version in place that the last run could not, or that a crash took away.
func (st *start) place(v log.Version, r *reading, aside bool) error {
	with := st.writer.placer.comesWith(&v, func(name string) bool {
		d := st.known[name]
		return d.Revision == v.Revision && d.Hash == v.Hash
	})
	if with != "" {
		if st.writer.placer.owed[with] != nil {
			st.writer.placer.owed[v.Name] = &owedFile{version: v, with: with}
		}
		return nil
	}
	log := st.cfg.Log.Info().Str("name", v.Name).Int64("revision", int64(v.Revision))
	if aside {
		kept, err := st.setAside(v)
		if err != nil {
			return err
		}
		log = log.Str("found", kept)
	}
	what := "putting the newest version of a document in place, which was interrupted"
	if st.restored {
		what = "putting a document in place from the backup that was restored"
	}
	log.Msg(what)
	placed, _ := st.writer.placer.place(&owedFile{version: v, before: *r})
	st.writer.placer.inPlace(placed...)
	st.placed = true
	st.read(r)
	return nil
}

// read reads a file again.
func (st *start) read(r *reading) {
	st.directory.room.done([]reading{*r})
	*r = st.directory.read(r.name, true)
}

// setAside keeps the bytes of the file that a version replaces in the data directory, and returns
// where.
func (st *start) setAside(v log.Version) (string, error) {
	kept, err := st.keepAside(v.Name, v.Revision, time.Unix(int64(v.Given), 0))
	if errors.Is(err, errUnreadable) && !st.restored {
		return "", nil
	}
	if err != nil {
		return "", codes.Errorf(codes.Storage, "what was found of %s cannot be set aside in the data directory: %w", v.Name, err)
	}
	return kept, nil
}

var errUnreadable = errors.New("it cannot be read")

// keepAside copies a file to the data directory, and returns where.
func (s *Store) keepAside(name string, rev kv.Revision, given time.Time) (string, error) {
	data, _, err := atomicfile.ReadFile(s.directory.root, name, s.cfg.MaxFileBytes)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnreadable, err)
	}
	kept := fmt.Sprintf("%s/%d-%s", asideDir, rev, log.DigestOf(data).String()[:8])
	return kept, writeAside(s.data, kept, data, given)
}

// RestoredMark is a file in the data directory that says that its state store was restored from a
// backup. The first Open that finds it makes the configuration directory what the backup says:
// files that differ, and documents that it does not know, are set aside in the data directory.
// Clients may know of what came after the backup, so the epoch is a new one, and everything is
// served as a new version. Then the mark goes.
const RestoredMark = "config.restored"

// isRestored reports whether there is a mark.
func (s *Store) isRestored() (bool, error) {
	_, err := s.data.Lstat(RestoredMark)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil, nil
	}
	return false, codes.Errorf(codes.Storage, "data directory: %w", err)
}

// forgetRestore removes the mark once everything is in place.
func (s *Store) forgetRestore() error {
	err := s.data.Remove(RestoredMark)
	if err == nil {
		err = s.data.SyncDir(".")
	}
	if err != nil {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	return nil
}

// removeStrangers sets aside documents that a backup does not know, and returns the names of the
// others.
func (s *Store) removeStrangers(names []string, known map[string]log.Document) ([]string, error) {
	var err error
	names = slices.DeleteFunc(names, func(name string) bool {
		if known[name].N > 0 || err != nil {
			return false
		}
		var kept string
		if kept, err = s.keepAside(name, 0, time.Time{}); err == nil {
			err = s.directory.root.Remove(name)
		}
		if err != nil {
			err = codes.Errorf(codes.Storage, "%s is not in the backup that was restored, and cannot be removed: %w; empty the configuration directory", name, err)
			return false
		}
		s.cfg.Log.Warn().Str("name", name).Str("found", kept).Msg("a document is not in the backup that was restored: its file is set aside in the data directory")
		return true
	})
	return names, err
}

// journalName is where builds before the state store had documents kept their versions.
const journalName = "config.journal"

// openLog opens the log. What only a journal knows would fall silently, so that one is refused.
func (s *Store) openLog(restored bool) (*log.Log, error) {
	if _, err := s.data.Lstat(journalName); err == nil {
		return nil, codes.Errorf(codes.Storage, "the data directory has a %s, of a build before versions of files were in the state store, which this one cannot read: start the server once with a build that takes it over, or move it away, and all files are new to the server, in a new epoch", journalName)
	}
	epoch := ""
	if restored {
		epoch = s.cfg.State.Identity()
	}
	log, err := log.Open(context.Background(), s.cfg.State, epoch)
	if err == nil && restored {
		now := s.cfg.Clock.Now()
		err = log.Reissue(context.Background(), snapshot.Seconds(now, now)) // it begins a new life
	}
	return log, err
}
