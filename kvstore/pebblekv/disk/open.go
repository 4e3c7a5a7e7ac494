package disk

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/replica"
)

const databaseDir = "db" // below Config.Dir

// Open opens the store in cfg.Dir, or makes it, tells load what it holds, and
// returns its newest revision, which the next must be above. It refuses with
// codes.Storage and says why: a newer format, a directory in use by another
// process, damage, lost writes.
func Open(cfg Config, load replica.Loader) (*Disk, kv.Revision, error) {
	d := &Disk{
		cfg:  cfg.withDefaults(),
		stop: make(chan struct{}),
		wake: make(chan struct{}, 1),

		squeeze: make(chan stays),
	}
	d.room.L = &d.mu
	d.gate.soon = make(chan struct{}, 1)
	d.gate.lookAfter = d.cfg.lookAfter()
	d.ring.limit = d.cfg.RingBytes
	newest, err := d.open(withDefaults(load))
	if err != nil {
		_ = d.release()
		return nil, 0, err
	}
	d.newest.Store(int64(newest))
	d.ring.floor = newest
	d.logFloor.Store(int64(d.done.logFloor))
	d.historyFloor.Store(int64(d.done.historyFloor))
	d.tokenFloor.Store(int64(d.done.tokenFloor))
	d.measure()
	d.begin()
	return d, newest, nil
}

func (d *Disk) open(load replica.Loader) (kv.Revision, error) {
	fsys, dir := d.cfg.FS, d.cfg.Dir
	path := fsys.PathJoin(dir, databaseDir)
	if err := makeDirs(fsys, dir, path); err != nil {
		return 0, err
	}
	var err error
	if d.lock, err = pebble.LockDirectory(path, fsys); err != nil {
		return 0, codes.Errorf(codes.Storage, "the data directory is in use by another process: %w", err)
	}
	markPath := fsys.PathJoin(dir, markName)
	state, known, err := readMark(fsys, markPath)
	if err != nil {
		return 0, refused(err)
	}
	if err := d.agree(path, markPath, &state, known); err != nil {
		return 0, err
	}
	if err := d.openDatabase(path, state.born); err != nil {
		return 0, refused(err)
	}
	if !state.born {
		if err := d.bear(); err != nil {
			return 0, refused(err)
		}
	}
	newest, err := d.recover(load)
	if err != nil {
		return 0, err
	}
	if newest < state.revision {
		if !d.cfg.AcceptLoss {
			return 0, codes.Errorf(codes.Storage, "acknowledged writes are lost: the store ends at revision %d, but %d was durable. %s", newest, state.revision, lossRemedy)
		}
		if err := d.acceptLoss(state.revision); err != nil {
			return 0, err
		}
	}
	newest = max(newest, d.done.revision)
	if err := d.mark.set(true, newest); err != nil {
		return 0, refused(err)
	}
	return newest, nil
}

const lossRemedy = "Restore the data directory from a copy, or start once with --kv-accept-loss to go on with what is left"

func refused(err error) error {
	if codes.Of(err) == codes.Storage {
		return err
	}
	return codes.Errorf(codes.Storage, "the store cannot be opened: %w", err)
}

// makeDirs makes both directories durable before anything is put into them.
func makeDirs(fsys vfs.FS, dir, path string) error {
	if err := fsys.MkdirAll(path, 0o750); err != nil {
		return codes.Errorf(codes.Storage, "the data directory cannot be made: %w", err)
	}
	if err := syncDir(fsys, fsys.PathDir(dir)); err != nil {
		return refused(err)
	}
	if err := syncDir(fsys, dir); err != nil {
		return refused(err)
	}
	return nil
}

// agree decides from mark and directory whether there is a store. It comes before
// the database is opened, because that would take a directory without its marker
// file for a new one and clear it.
func (d *Disk) agree(path, markPath string, state *markState, known bool) (err error) {
	fsys := d.cfg.FS
	if known {
		d.mark, err = openMark(fsys, markPath, *state)
		if err != nil {
			return refused(err)
		}
		return nil
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

func emptyDatabase(fsys vfs.FS, path string) (bool, error) {
	names, err := fsys.List(path)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if name != "LOCK" {
			return false, nil
		}
	}
	return true, nil
}

func (d *Disk) openDatabase(path string, born bool) error {
	d.options = d.databaseOptions(born)
	cache := pebble.NewCache(d.cfg.CacheBytes)
	defer cache.Unref()
	d.options.Cache = cache
	db, err := pebble.Open(path, d.options)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return codes.Errorf(codes.Storage, "the database is gone: its directory has no marker of a manifest, but %s knows of it. %s", markName, lossRemedy)
	}
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	d.db = db
	d.tables = d.options.MakeWriterOptions(0, db.TableFormat())
	return nil
}

// databaseOptions are for a database that is read from end to end once and hardly
// ever after: few large files and blocks, no filters, no compression of what is
// going to be read at the next start, and merging as late as possible, because it
// shares a processor with the server.
func (d *Disk) databaseOptions(born bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          orderedFS{d.cfg.FS},
		Lock:                        d.lock,
		Logger:                      logger{d},
		EventListener:               d.listener(),
		ErrorIfNotExists:            born,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                uint64(d.cfg.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       24, // is counted double: 12 tables above each other
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               512 << 20,
		MaxManifestFileSize:         4 << 20,
		MaxOpenFiles:                500,
		BytesPerSync:                1 << 20,
	}
	o.TargetFileSizes[0] = 16 << 20
	for i := 1; i < len(o.TargetFileSizes); i++ {
		o.TargetFileSizes[i] = 32 << 20
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = d.cfg.BlockBytes
		o.Levels[i].IndexBlockSize = 2 * d.cfg.BlockBytes
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return block.NoCompression }
	}
	o.Experimental.ReadSamplingMultiplier = -1
	return o
}

// bear puts the first rows into a new database. That the mark knows of it comes
// last, so an interrupted beginning begins again.
func (d *Disk) bear() error {
	set := d.newTables()
	defer set.discard()
	set.small(metaKey, meta{}.encode())
	if err := set.add(); err != nil {
		return err
	}
	return d.mark.set(true, 0)
}
