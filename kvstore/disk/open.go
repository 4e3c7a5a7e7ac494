package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/kv"
	"confcenter/kvstore"
)

const databaseDir = "db" // below Config.Dir

// OpenLog opens the store in cfg.Dir, or creates it, passes its contents to load, and returns
// its newest revision, above which the next one must be. It fails with codes.Storage and
// the reason: a newer format, a directory in use by another process, damage, lost writes.
func OpenLog(cfg Config, load kvstore.Loader) (*Disk, kv.Revision, error) {
	d := &database{cfg: cfg.withDefaults()}
	l := &log{
		database: d,
		sickness: sickness{failed: make(chan struct{})},
		gate:     gate{database: d, soon: make(chan struct{}, 1), lookAfter: d.cfg.lookAfter()},
		wake:     make(chan struct{}, 1),
		ring:     ring{limit: d.cfg.RingBytes},
	}
	d.fence = newFence(d.cfg.FS, d.cfg.Clock, l)
	d.fence.idle = d.cfg.ReadOnly
	d.cfg.FS = d.fence
	l.room.L = &l.mu
	k := newKeeper(l)
	newest, err := k.open(withDefaults(load))
	if err != nil {
		d.fence.release()
		_ = l.release()
		return nil, 0, err
	}
	d.opened.Store(true)
	l.newest.Store(int64(newest))
	l.ring.floor = newest
	k.raise()
	l.floors.tokens.Store(int64(k.done.tokenFloor))
	l.gate.measure()
	if d.cfg.ReadOnly {
		_ = l.fail(syscall.EROFS)
	} else {
		k.begin()
	}
	return &Disk{log: l, keeper: k}, newest, nil
}

func (k *keeper) open(load kvstore.Loader) (_ kv.Revision, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = codes.Errorf(codes.Storage, "the store cannot be opened: the database gave up: %v", what)
		}
	}()
	fsys, dir := k.cfg.FS, k.cfg.Dir
	path := fsys.PathJoin(dir, databaseDir)
	if !k.cfg.ReadOnly {
		if err := k.take(path); err != nil {
			return 0, err
		}
	}
	markPath := fsys.PathJoin(dir, markName)
	state, known, err := readMark(fsys, markPath)
	if err != nil {
		return 0, refused(err)
	}
	if err := k.agree(path, markPath, &state, known); err != nil {
		return 0, err
	}
	err = k.openDatabase(path, state.born)
	if errors.Is(err, pebble.ErrDBDoesNotExist) && k.cfg.AcceptLoss && !k.cfg.ReadOnly {
		state.born = false
		err = k.openDatabase(path, false)
	}
	if err != nil {
		return 0, refused(err)
	}
	if !state.born {
		if err := k.bear(); err != nil {
			return 0, refused(err)
		}
	}
	newest, err := k.recover(load)
	if err != nil {
		return 0, err
	}
	if newest < state.revision {
		if !k.cfg.AcceptLoss {
			return 0, codes.Errorf(codes.Storage, "acknowledged writes are lost: the store ends at revision %d, but %d was durable. %s", newest, state.revision, lossRemedy)
		}
		if err := k.acceptLoss(state.revision); err != nil {
			return 0, err
		}
	}
	newest = max(newest, k.done.revision)
	if err := k.identify(); err != nil {
		return 0, err
	}
	if k.cfg.ReadOnly {
		return newest, nil
	}
	if err := k.broken(); err != nil {
		return 0, err
	}
	if err := k.mark.set(true, newest); err != nil {
		return 0, refused(err)
	}
	return newest, nil
}

// take makes the directories, and makes sure that no one else uses them.
func (d *database) take(path string) (err error) {
	if err := makeDirs(d.cfg.FS, d.cfg.Dir, path); err != nil {
		return err
	}
	if d.lock, err = pebble.LockDirectory(path, d.cfg.FS); err != nil {
		if atomicfile.IsReadOnly(err) {
			return refused(err)
		}
		return codes.Errorf(codes.Storage, "the data directory is in use by another process: %w", err)
	}
	return nil
}

const lossRemedy = "Restore the data directory from a copy, or start once with --kv-accept-loss to go on with what is left"

func refused(err error) error {
	if err == nil || codes.Of(err) == codes.Storage {
		return err
	}
	return codes.Errorf(codes.Storage, "the store cannot be opened: %w", err)
}

// makeDirs makes both directories durable before anything is put into them.
func makeDirs(fsys vfs.FS, dir, path string) error {
	if err := fsys.MkdirAll(path, 0o750); err != nil {
		return codes.Errorf(codes.Storage, "the data directory cannot be created: %w", err)
	}
	if err := syncDir(fsys, fsys.PathDir(dir)); err != nil {
		return refused(err)
	}
	return refused(syncDir(fsys, dir))
}

// agree decides from mark and directory whether there is a store. It runs before the
// database is opened, because Pebble would take a directory without its marker file for a
// new one and clear it.
func (d *database) agree(path, markPath string, state *markState, known bool) (err error) {
	fsys := d.cfg.FS
	switch {
	case d.cfg.ReadOnly && known && state.born:
		return nil
	case d.cfg.ReadOnly:
		return codes.Errorf(codes.Storage, "there is no store in %s, and none can be made: %w", d.cfg.Dir, syscall.EROFS)
	case known:
		d.mark, err = openMark(fsys, markPath, *state)
		return refused(err)
	}
	empty, err := emptyDatabase(fsys, path)
	if err != nil {
		return refused(err)
	}
	if !empty && !d.cfg.AcceptLoss {
		return codes.Errorf(codes.Storage, "%s beside the database is missing or damaged, so it is not known whether acknowledged writes are lost. %s", markName, lossRemedy)
	}
	state.born = !empty
	if d.mark, err = createMark(fsys, d.cfg.Dir, markPath, *state); err != nil {
		return refused(err)
	}
	return nil
}

// New reports whether there is no store in a directory: Open would make one. It is true also
// if what a store consists of has been removed from there.
func New(fsys vfs.FS, dir string) bool {
	fsys = cmp.Or(fsys, vfs.Default)
	_, known, err := readMark(fsys, fsys.PathJoin(dir, markName))
	if known || err != nil {
		return false
	}
	empty, err := emptyDatabase(fsys, fsys.PathJoin(dir, databaseDir))
	return empty && err == nil || errors.Is(err, fs.ErrNotExist)
}

func emptyDatabase(fsys vfs.FS, path string) (bool, error) {
	names, err := fsys.List(path)
	return err == nil && !slices.ContainsFunc(names, func(name string) bool { return name != "LOCK" }), err
}

func (l *log) openDatabase(path string, born bool) error {
	options := l.databaseOptions(born)
	cache := pebble.NewCache(l.cfg.CacheBytes)
	defer cache.Unref()
	options.Cache = cache
	db, err := pebble.Open(path, options)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return codes.Errorf(codes.Storage, "the database is gone: its directory has no marker of a manifest, but %s knows of it (%w). %s", markName, err, lossRemedy)
	}
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	l.db = db
	l.tables = options.MakeWriterOptions(0, db.TableFormat())
	return nil
}

// databaseOptions are for a database that is read from end to end once and hardly
// ever after: few large files and blocks, no filters, no compression of what is
// going to be read at the next start, and merging as late as possible, because it
// shares a processor with the server.
func (l *log) databaseOptions(born bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          orderedFS{l.cfg.FS},
		Lock:                        l.lock,
		Logger:                      logger{l, &sparing{}},
		EventListener:               l.listener(),
		ErrorIfNotExists:            born,
		ReadOnly:                    l.cfg.ReadOnly,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                uint64(l.cfg.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       24, // is counted double: 12 tables above each other
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               512 << 20,
		MaxManifestFileSize:         4 << 20,
		MaxOpenFiles:                200,
		BytesPerSync:                bytesPerSync,
	}
	o.TargetFileSizes[0] = 16 << 20
	for i := 1; i < len(o.TargetFileSizes); i++ {
		o.TargetFileSizes[i] = 32 << 20
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = l.cfg.BlockBytes
		o.Levels[i].IndexBlockSize = 2 * l.cfg.BlockBytes
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return block.NoCompression }
	}
	o.Experimental.ReadSamplingMultiplier = -1
	return o
}

// bear puts the first rows into a new database. The mark is set last, so an interrupted
// creation starts over.
func (d *database) bear() error {
	set := d.newTables()
	defer set.discard()
	set.small(metaKey, meta{}.encode())
	if err := set.add(); err != nil {
		return err
	}
	return d.mark.set(true, d.mark.revision())
}
