package disk

import (
	"bytes"
	"slices"
	"sort"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore"
)

// undoing takes a store that is being restored back to an earlier revision. Everything is in
// tables, and the log is there as it was copied: it tells which keys have changed since, and of
// each what was before; that is in the log as well, or in history.
type undoing struct {
	// set at its beginning
	k      *keeper
	tables meta // as they were copied
	newest kv.Revision
	stays  func(ns, key string) bool
	ended  func(ns, key string) bool

	first    map[name]undone // of each key that has changed since
	leases   map[kv.LeaseID]kvstore.LeaseChange
	reserved bool // there are such keys among them
}

// undone is the first change of a key that is undone.
type undone struct {
	at    kv.Revision
	time  int64
	prev  kv.Revision // that made what was before; 0: nothing was, or the key is archived
	entry *kv.Entry   // what was before; nil: nothing, or it has not been found
}

func newUndoing(k *keeper, tables meta, newest kv.Revision, to Point) *undoing {
	u := &undoing{k: k, tables: tables, newest: newest, stays: to.Stays, ended: to.Ended, first: map[name]undone{}, leases: map[kv.LeaseID]kvstore.LeaseChange{}}
	never := func(string, string) bool { return false }
	if u.stays == nil {
		u.stays = never
	}
	if u.ended == nil {
		u.ended = never
	}
	return u
}

// point undoes what came after a Point, and returns its revision.
func (u *undoing) point(to Point) (rev kv.Revision, err error) {
	if rev = to.Revision; rev == 0 {
		if rev, err = u.at(to.Time); err != nil {
			return 0, err
		}
	}
	if rev > u.newest {
		return 0, future(rev, u.newest)
	}
	oldest, err := u.logged(rev)
	if err != nil {
		return 0, err
	}
	if oldest.at > rev {
		past, ok, err := u.reach()
		if err != nil {
			return 0, err
		}
		if ok && past.at < oldest.at {
			oldest = past
		}
		if oldest.at > rev {
			return 0, oldest.refusal(rev)
		}
		if err := u.recall(rev); err != nil {
			return 0, err
		}
	}
	return rev, u.write(rev)
}

// logged collects what has changed after a revision, and returns the oldest one for which the log
// knows, perhaps with history, all that was before.
func (u *undoing) logged(rev kv.Revision) (oldest undone, err error) {
	oldest = undone{at: max(u.tables.logFloor, 1)}
	if err := u.collect(max(rev, oldest.at)); err != nil {
		return oldest, err
	}
	for id, one := range u.first {
		if one.prev == 0 || one.entry != nil {
			continue
		}
		if one.entry, err = u.superseded(id, one); err != nil {
			return oldest, err
		}
		if one.entry == nil && one.at > oldest.at {
			oldest = one
		}
		u.first[id] = one
	}
	return oldest, nil
}

// refusal says that a revision is not possible, but the one of u is.
func (u undone) refusal(rev kv.Revision) error {
	of := ""
	if u.time > 0 {
		of = " of " + time.UnixMilli(u.time).UTC().Format(time.RFC3339)
	}
	return codes.Errorf(codes.Compacted, "revision %d is no longer known in this backup; the oldest possible one is %d%s", rev, u.at, of)
}

// scan calls fn for each transaction in the log, oldest first, with the revisions before its
// events.
func (u *undoing) scan(fn func(c *kvstore.Commit, prevs []kv.Revision)) error {
	from := numberKey(nil, logKind, 0)
	err := u.k.database.scan(from, []byte{logKind + 1}, func(_, value []byte) error {
		g, err := decodeGroup(value)
		if err != nil {
			return err
		}
		events := 0
		for i := range g.commits {
			c := &g.commits[i]
			if c.Revision > u.tables.logFloor {
				fn(c, g.prevs[events:events+len(c.Events)])
			}
			events += len(c.Events)
		}
		return nil
	})
	return damaged("log", err)
}

// collect finds what has changed after a revision, and what the log has of what was before.
func (u *undoing) collect(rev kv.Revision) error {
	err := u.scan(func(c *kvstore.Commit, prevs []kv.Revision) {
		if c.Revision <= rev {
			return
		}
		note := func(e *kv.Entry, prev kv.Revision) {
			id := name{e.NS, e.Key}
			u.reserved = u.reserved || kv.Reserved(e.NS)
			if _, known := u.first[id]; !known && !u.stays(e.NS, e.Key) {
				u.first[id] = undone{at: c.Revision, time: c.Time, prev: prev}
			}
		}
		for i := range c.Events {
			note(c.Events[i].Entry, prevs[i])
		}
		for i := range c.Archive {
			note(c.Archive[i].Entry, 0)
		}
		for _, l := range c.Leases {
			if _, known := u.leases[l.ID]; !known { // perhaps the log knows better
				u.leases[l.ID] = kvstore.LeaseChange{ID: l.ID, TTL: unknownLease, Ended: kv.Revision(l.ID) > rev}
			}
		}
	})
	if err != nil {
		return err
	}
	return u.scan(func(c *kvstore.Commit, _ []kv.Revision) {
		if c.Revision > rev {
			return
		}
		for i := range c.Events {
			u.before(c.Events[i].Entry)
		}
		for i := range c.Archive {
			u.before(c.Archive[i].Entry)
		}
		for _, l := range c.Leases {
			if _, undone := u.leases[l.ID]; undone {
				u.leases[l.ID] = l
			}
		}
	})
}

// before takes an entry that may be the one before the first change that is undone.
func (u *undoing) before(e *kv.Entry) {
	id := name{e.NS, e.Key}
	one, known := u.first[id]
	if !known || one.prev != e.Mod && !kv.Archived(e.NS) {
		return
	}
	if one.entry = e; e.Deleted() {
		one.entry = nil
	}
	u.first[id] = one
}

// superseded finds in history what was before a change.
func (u *undoing) superseded(id name, one undone) (*kv.Entry, error) {
	parts := u.k.parts
	i := sort.Search(len(parts), func(i int) bool { return parts[i].last >= one.at })
	if i == len(parts) {
		return nil, nil
	}
	return entryAt(u.k.db, historyKey(nil, parts[i].start, id.ns, id.key, one.prev), id.ns, id.key)
}

// write makes the tables what they were at a revision.
func (u *undoing) write(rev kv.Revision) error {
	type row struct {
		key []byte
		undone
	}
	rows := make([]row, 0, len(u.first))
	for id, one := range u.first {
		kind := byte(currentKind)
		if kv.Archived(id.ns) {
			kind = archiveKind
		}
		if one.entry != nil && kind == currentKind && u.ended(id.ns, id.key) {
			now, err := current(u.k.db, id.ns, id.key)
			if err != nil {
				return err
			}
			if now == nil || now.Deleted() {
				continue
			}
		}
		rows = append(rows, row{nameKey(nil, kind, id.ns, id.key), one})
	}
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare(a.key, b.key) })
	set := u.k.newTables()
	defer set.discard()
	for _, one := range rows {
		to := &set.current
		if one.key[0] == archiveKind {
			to = &set.archive
		}
		err := error(nil)
		if one.entry == nil {
			err = set.remove(to, one.key)
		} else {
			err = set.set(to, one.key, appendEntry(nil, one.entry))
		}
		if err != nil {
			return refused(err)
		}
	}
	for id, l := range u.leases {
		if key := numberKey(nil, leaseKind, int64(id)); l.Ended {
			set.removeSmall(key)
		} else {
			set.small(key, appendLeaseRow(nil, l))
		}
	}
	err := u.k.database.scan(numberKey(nil, tokenKind, int64(rev)+1), []byte{tokenKind + 1}, func(key, _ []byte) error {
		set.removeSmall(slices.Clone(key))
		return nil
	})
	if err == nil {
		err = set.add()
	}
	return refused(err)
}
