package disk

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/codes"
	"confcenter/kv"
)

func compacted(rev, floor kv.Revision) error {
	return codes.Errorf(codes.Compacted, "revision %d is no longer kept: versions are complete from revision %d on", rev, floor)
}

func future(rev, newest kv.Revision) error {
	return codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest is %d", rev, newest)
}

// GetAt returns the key as of rev, as in kv.Store.
func (d *Disk) GetAt(ns, key string, rev kv.Revision) (*kv.Entry, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	defer d.life.RUnlock()
	if newest := kv.Revision(d.newest.Load()); rev > newest {
		return nil, future(rev, newest)
	}
	if floor := kv.Revision(d.floors.history.Load()); rev < floor {
		return nil, compacted(rev, floor)
	}
	for _, g := range d.gaps {
		if rev > g.from && rev < g.to {
			return nil, codes.Errorf(codes.Compacted, "revision %d is not known: the store was restored from a backup of revision %d, and has gone on from revision %d", rev, g.from, g.to)
		}
	}
	v := d.versionsOf(ns, key)
	defer v.close()
	var found *kv.Entry
	err := v.each(rev+1, func(e *kv.Entry) bool {
		found = e
		return false
	})
	if err != nil {
		return nil, err
	}
	// The floor may have risen, and rows below it may have gone, meanwhile.
	floor, err := v.floor()
	if err != nil {
		return nil, err
	}
	if rev < floor {
		return nil, compacted(rev, floor)
	}
	if found == nil || found.Deleted() {
		return nil, nil
	}
	return found, nil
}

// Versions lists the versions of a key, newest first, as History in kv.Store. A page also
// ends after the entry that reaches kv.MaxPage bytes. Of the versions before the floor only
// the one that was current there is listed.
func (d *Disk) Versions(ns, key string, before kv.Revision, limit int) (kv.Versions, error) {
	if err := d.usable(); err != nil {
		return kv.Versions{}, err
	}
	defer d.life.RUnlock()
	if limit <= 0 || limit > kv.MaxHistory {
		limit = kv.MaxHistory
	}
	if before <= 0 {
		before = kv.Revision(d.newest.Load()) + 1
	}
	v := d.versionsOf(ns, key)
	defer v.close()
	floor, err := v.floor()
	if err != nil {
		return kv.Versions{}, err
	}
	page := kv.Versions{Floor: floor}
	size := 0
	err = v.each(before, func(e *kv.Entry) bool {
		if e.Mod < floor && e.Deleted() {
			return false
		}
		if len(page.Entries) == limit || size >= kv.MaxPage {
			page.More = true
			return false
		}
		page.Entries = append(page.Entries, e)
		size += e.Size()
		return e.Mod > floor
	})
	if err != nil {
		return kv.Versions{}, err
	}
	return page, nil
}

// versions are all stored versions of one key, at one moment.
type versions struct {
	d       *Disk
	ns, key string
	pending []appended
	parts   []part
	snap    *pebble.Snapshot
}

// versionsOf takes the pending groups before the snapshot: a group that moves into tables
// in between is then seen twice, not missed.
func (d *Disk) versionsOf(ns, key string) *versions {
	d.mu.Lock()
	pending, parts := d.pending, d.parts
	d.mu.Unlock()
	return &versions{d: d, ns: ns, key: key, pending: pending, parts: parts, snap: d.db.NewSnapshot()}
}

func (v *versions) close() { _ = v.snap.Close() }

// floor returns the revision from which the key's versions are complete. It is read after
// the snapshot was taken, so anything that the snapshot misses is below it.
func (v *versions) floor() (kv.Revision, error) {
	floor := kv.Revision(v.d.floors.history.Load())
	row, closer, err := v.snap.Get(nameKey(nil, cutKind, v.ns, v.key))
	if errors.Is(err, pebble.ErrNotFound) {
		return floor, nil
	}
	if err != nil {
		return 0, damaged("cuts", err)
	}
	defer closer.Close()
	cut, n := binary.Uvarint(row)
	if n <= 0 {
		return 0, damaged("cuts", errKey)
	}
	return max(floor, kv.Revision(cut)), nil
}

// each calls fn with the versions older than before, newest first, including deletions,
// until it returns false.
func (v *versions) each(before kv.Revision, fn func(*kv.Entry) bool) error {
	for i := len(v.pending) - 1; i >= 0; i-- {
		commits := v.pending[i].commits
		for j := len(commits) - 1; j >= 0; j-- {
			if commits[j].Revision >= before {
				continue
			}
			if e := find(commits[j].Events, v.ns, v.key); e != nil {
				before = e.Mod
				if !fn(e) {
					return nil
				}
			}
		}
	}
	e, err := current(v.snap, v.ns, v.key)
	if err != nil {
		return err
	}
	if e != nil && e.Mod < before && !fn(e) {
		return nil
	}
	return v.stored(before, fn)
}

func find(events []kv.Event, ns, key string) *kv.Entry {
	for i := range events {
		if e := events[i].Entry; e.Key == key && e.NS == ns {
			return e
		}
	}
	return nil
}

// stored searches the parts one by one, newest first: versions are superseded in the order
// in which they were made.
func (v *versions) stored(before kv.Revision, fn func(*kv.Entry) bool) error {
	if before <= 0 || len(v.parts) == 0 {
		return nil
	}
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{historyKind}, UpperBound: []byte{historyKind + 1}})
	if err != nil {
		return damaged("history", err)
	}
	defer it.Close()
	for i := len(v.parts) - 1; i >= 0; i-- {
		row := historyKey(nil, v.parts[i].start, v.ns, v.key, before-1)
		prefix := row[:len(row)-8]
		for ok := it.SeekGE(row); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				return damaged("history", err)
			}
			e := &kv.Entry{NS: v.ns, Key: v.key}
			if err := decodeEntry(e, value); err != nil {
				return damaged("history", err)
			}
			if !fn(e) {
				return nil
			}
		}
		if err := it.Error(); err != nil {
			return damaged("history", err)
		}
	}
	return nil
}

// current is a key's entry in the tables; nil if it is absent there.
func current(from pebble.Reader, ns, key string) (*kv.Entry, error) {
	return entryAt(from, nameKey(nil, currentKind, ns, key), ns, key)
}

func entryAt(from pebble.Reader, row []byte, ns, key string) (*kv.Entry, error) {
	value, closer, err := from.Get(row)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged("entry", err)
	}
	defer closer.Close()
	e := &kv.Entry{NS: ns, Key: key}
	if err := decodeEntry(e, value); err != nil {
		return nil, damaged("entry", err)
	}
	return e, nil
}
