package disk

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/kv"
	"confcenter/kvstore"
)

// Rows yields the rows of a Copy, all of them and in order, until yield fails.
type Rows func(yield func(key, value []byte) error) error

// Point says as of when a store is restored; the zero Point: as of the newest revision.
type Point struct {
	Revision kv.Revision // as of it; 0: see Time
	Time     int64       // as of the newest revision not later, in ms since 1970; 0: of the newest one
	// Stays, if it is set, names entries that are right as of any revision, and are left alone.
	Stays func(ns, key string) bool
	// Ended, if it is set, names entries that have come to an end for good when there is none at the
	// newest revision: they are not brought back.
	Ended func(ns, key string) bool
	// Drop is what is not restored, as of any revision.
	Drop []Keys
}

// Keys are those of a namespace that begin with a prefix.
type Keys struct{ NS, Prefix string }

// newest reports whether nothing is to be undone.
func (p Point) newest() bool { return p.Revision == 0 && p.Time == 0 }

// Restored says what Restore has made.
type Restored struct {
	Revision kv.Revision // the store is as it was then
	Next     kv.Revision // the first transaction will have one above it
}

// Restore makes a store in cfg.Dir of the rows of a Copy that was begun at a time, in ms since
// 1970. There must be none in the directory; after an error the caller removes what is in it.
// The rows have passed an Inspector.
//
// The store has all that was copied, but for the log, and request tokens as far as they belong to
// it. Its revisions go on above all that the store it was copied from can have had since, so that
// no one who knows that store takes one revision for another. As of an earlier Point it also has no
// older versions of keys.
//
// codes.Compacted: what was current at that Point is no longer known; the text names the oldest
// possible one.
func Restore(cfg Config, rows Rows, copied int64, to Point) (r Restored, err error) {
	cfg = cfg.keepingAll()
	tables, err := fill(cfg, rows, to)
	if err != nil {
		return r, err
	}
	d, newest, err := OpenLog(cfg, kvstore.Loader{})
	if err != nil {
		return r, err
	}
	d.fence.release()
	k := d.keeper
	k.end() // nothing else makes tables
	defer func() {
		k.stop = make(chan struct{})
		if closed := d.Close(); err == nil {
			err = closed
		}
	}()
	if err := k.materialise(); err != nil {
		return r, refused(err)
	}
	r.Revision = newest
	if !to.newest() {
		u := newUndoing(k, tables, newest, to)
		if r.Revision, err = u.point(to); err != nil {
			return r, err
		}
	}
	if err := k.drop(to.Drop); err != nil {
		return r, err
	}
	r.Next = newest + ahead(copied, k.cfg.Clock.Now())
	return r, k.moveOn(r)
}

// drop removes current entries.
func (k *keeper) drop(list []Keys) error {
	set := k.newTables()
	defer set.discard()
	slices.SortFunc(list, func(a, b Keys) int { return cmp.Or(cmp.Compare(a.NS, b.NS), cmp.Compare(a.Prefix, b.Prefix)) })
	for _, keys := range list {
		from := nameKey(nil, currentKind, keys.NS, keys.Prefix)
		err := k.database.scan(from, append(slices.Clone(from), 0xFF), func(key, _ []byte) error { // no name in UTF-8 has it
			return set.remove(&set.current, slices.Clone(key))
		})
		if err != nil {
			return refused(err)
		}
	}
	return refused(set.add())
}

// keepingAll is the configuration of a store that drops nothing and waits for nothing.
func (c Config) keepingAll() Config {
	c.LogBytes, c.HistoryBytes, c.HistoryVersions = math.MaxInt64, math.MaxInt64, math.MaxInt
	c.LogAge, c.HistoryAge, c.TokenAge = math.MaxInt64, math.MaxInt64, math.MaxInt64
	c.ReserveBytes, c.QuotaBytes = 1, 0
	return c
}

// ahead is by how much revisions are raised: revisions rise by less than one in a microsecond, and
// clocks differ by less than an hour.
func ahead(copied int64, now time.Time) kv.Revision {
	return kv.Revision(max(now.Sub(time.UnixMilli(copied)), 0).Microseconds() + time.Hour.Microseconds())
}

// restoredBytes is about how long a table of restored rows is.
const restoredBytes = 32 << 20

// fill makes an empty store and puts the rows into it. It returns what the tables are.
func fill(cfg Config, rows Rows, to Point) (tables meta, err error) {
	d, _, err := OpenLog(cfg, kvstore.Loader{})
	if err != nil {
		return tables, err
	}
	d.fence.release()
	f := &filling{database: d.database, set: d.newTables(), to: to}
	err = rows(f.row)
	if err == nil {
		err = f.end()
	}
	f.set.discard()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return f.tables, err
}

// filling writes rows into an empty store.
type filling struct {
	*database
	set    *tableSet
	to     Point
	tables meta
	kind   byte
	table  table
	bytes  int
	count  int // of tables
}

func (f *filling) row(key, value []byte) (err error) {
	if key[0] == metaKind {
		if f.tables, err = decodeMeta(value); err != nil {
			return err
		}
	}
	switch key[0] {
	case identKind:
		return nil // what is restored is another store: the one before may have gone on
	case logKind:
		return f.logged(key, value)
	}
	if f.bytes >= restoredBytes || key[0] != f.kind {
		if err := f.set.finish(&f.table); err != nil {
			return err
		}
		f.count++
		f.table, f.bytes, f.kind = table{name: fmt.Sprintf("restored%06d.table", f.count)}, 0, key[0]
	}
	f.bytes += len(key) + len(value)
	return f.set.set(&f.table, key, value)
}

// logged writes a record of the log, if it is needed: behind the tables, or to undo what came
// after a Point.
func (f *filling) logged(key, value []byte) error {
	g, err := decodeGroup(value)
	if err != nil {
		return err
	}
	if f.to.newest() && g.last() <= f.tables.revision {
		return nil
	}
	return f.db.Set(key, value, pebble.NoSync)
}

// end makes everything durable.
func (f *filling) end() error {
	if err := f.set.finish(&f.table); err != nil {
		return err
	}
	if err := f.db.Ingest(context.Background(), f.set.paths); err != nil {
		return fmt.Errorf("adding tables: %w", err)
	}
	f.set.paths = nil
	return f.db.Flush()
}

// moveOn has the revisions go on above r.Next, and forgets how they came about.
func (k *keeper) moveOn(r Restored) error {
	set := k.newTables()
	defer set.discard()
	undone := r.Revision < k.done.revision
	if undone {
		k.done.historyFloor, k.parts = r.Next, nil
	} else {
		set.small(numberKey(nil, gapKind, int64(r.Revision)), gap{r.Revision, r.Next}.encode())
	}
	k.done.revision, k.done.logFloor = r.Next, r.Next
	for i := range k.epochs {
		e := &k.epochs[i]
		e.log = 0
		set.small(numberKey(nil, epochKind, int64(e.last)), e.encode())
	}
	set.small(metaKey, k.done.encode())
	if err := set.add(); err != nil {
		return refused(err)
	}
	if undone {
		for _, kind := range [...]byte{cutKind, partKind, historyKind} {
			if err := k.db.DeleteRange([]byte{kind}, []byte{kind + 1}, pebble.NoSync); err != nil {
				return refused(err)
			}
		}
	}
	if err := k.db.DeleteRange([]byte{logKind}, []byte{logKind + 1}, pebble.Sync); err != nil {
		return refused(err)
	}
	if err := k.db.Flush(); err != nil {
		return refused(err)
	}
	if err := k.mark.set(true, r.Next); err != nil {
		return refused(err)
	}
	k.newest.Store(int64(r.Next))
	return nil
}
