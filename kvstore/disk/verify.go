package disk

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/codes"
	"confcenter/kv"
)

// Verified is what Verify has found.
type Verified struct {
	Revision kv.Revision // the newest there is
	Rows     int64
	Faults   []string // what is damaged; none: nothing is
}

// mostFaults is how many faults are described of each kind of row.
const mostFaults = 5

// Verify reads everything in the store of cfg.Dir, which no one has open, and writes nothing: each
// block of each file against its checksum, each row, the log, and the mark. entry, if it is not
// nil, gets all current entries, as those of an Inspector. It fails if there is no store that can
// be looked at.
func Verify(cfg Config, entry func(*kv.Entry) error) (v Verified, err error) {
	cfg.ReadOnly = true
	d := &database{cfg: cfg.withDefaults()}
	l := &log{database: d, sickness: sickness{failed: make(chan struct{})}}
	l.room.L = &l.mu
	d.fence = newFence(d.cfg.FS, d.cfg.Clock, l)
	d.fence.idle = true
	d.cfg.FS = d.fence
	defer func() {
		if what := recover(); what != nil {
			err = codes.Errorf(codes.Storage, "the store cannot be opened: the database gave up: %v", what)
		}
		d.fence.release()
		if l.db != nil {
			_ = l.db.Close()
		}
	}()
	path := d.cfg.FS.PathJoin(d.cfg.Dir, databaseDir)
	markPath := d.cfg.FS.PathJoin(d.cfg.Dir, markName)
	state, known, err := readMark(d.cfg.FS, markPath)
	if err != nil {
		return v, refused(err)
	}
	if !known {
		v.Faults = append(v.Faults, fmt.Sprintf("%s is missing or damaged: it is not known whether acknowledged writes are lost", markName))
	}
	if err := l.openDatabase(path, true); err != nil {
		return v, refused(err)
	}
	i := Inspector{Entry: entry}
	v.inspect(l.db, &i)
	if v.Revision = i.Revision(); known && v.Revision < state.revision {
		v.Faults = append(v.Faults, fmt.Sprintf("acknowledged writes are lost: the store ends at revision %d, but %d was durable", v.Revision, state.revision))
	}
	return v, nil
}

// inspect reads all rows. What cannot be read of one kind does not hide another.
func (v *Verified) inspect(db *pebble.DB, i *Inspector) {
	for kind := range 256 {
		faults := 0
		fault := func(err error) {
			if faults++; faults <= mostFaults {
				v.Faults = append(v.Faults, err.Error())
			}
		}
		d := database{db: db}
		upper := []byte{byte(kind) + 1}
		if kind == 255 {
			upper = nil
		}
		err := d.scan([]byte{byte(kind)}, upper, func(key, value []byte) error {
			v.Rows++
			if err := i.Row(key, value); err != nil {
				fault(err)
			}
			return nil
		})
		if err != nil {
			fault(fmt.Errorf("rows of kind %q: %w", rune(kind), err))
		}
		if faults > mostFaults {
			v.Faults = append(v.Faults, fmt.Sprintf("and %d more rows of kind %q", faults-mostFaults, rune(kind)))
		}
	}
	if err := i.End(); err != nil {
		v.Faults = append(v.Faults, err.Error())
	}
	if err := db.CheckLevels(nil); err != nil {
		v.Faults = append(v.Faults, "the database's own check: "+err.Error())
	}
}
