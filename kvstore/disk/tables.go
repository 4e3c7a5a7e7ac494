package disk

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/kv"
)

// tableSet collects rows and adds them to the database as tables, all in one step. Compared
// with writing rows one by one this bypasses the database's log and memory and saves a
// merge, and acknowledged writes do not queue behind it.
//
// There is a table for small rows, one each for archived and current entries, one for
// history and one for what is dropped of that, so that a table's keys lie together.
// Entries and history must be given in order.
type tableSet struct {
	to      *database
	rows    []smallRow
	archive table
	current table
	history table
	dropped table
	paths   []string // finished

	tokensBelow kv.Revision // tokens up to it are removed; 0: none
}

type smallRow struct {
	key, value []byte
	remove     bool
}

// table is one file that is being written; w is nil as long as it has no rows.
type table struct {
	name string
	w    *sstable.Writer
}

func (d *database) newTables() *tableSet {
	return &tableSet{to: d, archive: table{name: "archive.table"}, current: table{name: "current.table"}, history: table{name: "history.table"}, dropped: table{name: "dropped.table"}}
}

// small sets a row of one of the small kinds; key and value are kept.
func (t *tableSet) small(key, value []byte) {
	t.rows = append(t.rows, smallRow{key: key, value: value})
}

func (t *tableSet) removeSmall(key []byte) {
	t.rows = append(t.rows, smallRow{key: key, remove: true})
}

func (t *tableSet) set(to *table, key, value []byte) error {
	if err := t.open(to); err != nil {
		return err
	}
	return to.w.Set(key, value)
}

func (t *tableSet) remove(from *table, key []byte) error {
	if err := t.open(from); err != nil {
		return err
	}
	return from.w.Delete(key)
}

// bytesPerSync is how much of a table is written before the disk is given it. All of it
// at the end would hold up the log, which shares the disk.
const bytesPerSync = 1 << 20

func (t *tableSet) path(to *table) string { return t.to.cfg.FS.PathJoin(t.to.cfg.Dir, to.name) }

func (t *tableSet) open(to *table) error {
	if to.w != nil {
		return nil
	}
	file, err := t.to.cfg.FS.Create(t.path(to), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating a table: %w", err)
	}
	file = vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: bytesPerSync})
	to.w = sstable.NewWriter(objstorageprovider.NewFileWritable(file), t.to.tables)
	return nil
}

// finish makes the file durable.
func (t *tableSet) finish(one *table) error {
	if one.w == nil {
		return nil
	}
	err := one.w.Close()
	one.w = nil
	t.paths = append(t.paths, t.path(one))
	if err != nil {
		return fmt.Errorf("writing a table: %w", err)
	}
	return nil
}

// drop removes the parts of history from first to last. It has a table of its own:
// one that reached from the oldest part to the newest would be merged with all of
// history.
func (t *tableSet) drop(first, last kv.Revision) error {
	if err := t.open(&t.dropped); err != nil {
		return err
	}
	return t.dropped.w.DeleteRange(numberKey(nil, historyKind, int64(first)), numberKey(nil, historyKind, int64(last)+1))
}

// add makes all rows part of the database, durably, or none of them.
func (t *tableSet) add() error {
	slices.SortFunc(t.rows, func(a, b smallRow) int { return bytes.Compare(a.key, b.key) })
	rest := table{name: "small.table"}
	for _, row := range t.rows {
		var err error
		if row.remove {
			err = t.remove(&rest, row.key)
		} else {
			err = t.set(&rest, row.key, row.value)
		}
		if err != nil {
			_ = t.finish(&rest)
			return err
		}
	}
	if t.tokensBelow > 0 {
		if err := t.removeTokens(&rest); err != nil {
			_ = t.finish(&rest)
			return err
		}
	}
	for _, one := range []*table{&rest, &t.archive, &t.current, &t.dropped, &t.history} {
		if err := t.finish(one); err != nil {
			return err
		}
	}
	if err := t.to.db.Ingest(context.Background(), t.paths); err != nil {
		return fmt.Errorf("adding tables: %w", err)
	}
	t.paths = nil
	return nil
}

func (t *tableSet) removeTokens(rest *table) error {
	if err := t.open(rest); err != nil {
		return err
	}
	return rest.w.DeleteRange(numberKey(nil, tokenKind, 0), numberKey(nil, tokenKind, int64(t.tokensBelow)+1))
}

// discard removes the files that add has not taken. It may always be called.
func (t *tableSet) discard() {
	_ = t.finish(&t.archive)
	_ = t.finish(&t.current)
	_ = t.finish(&t.history)
	_ = t.finish(&t.dropped)
	for _, path := range t.paths {
		_ = t.to.cfg.FS.Remove(path)
	}
	t.paths = nil
}
