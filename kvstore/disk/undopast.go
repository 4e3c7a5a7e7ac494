package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/kv"
	"confcenter/kvstore"
)

// Where the log does not reach, history does, as long as there are no keys that have none. It
// tells what was current, and of archived entries and leases what has come since; what has gone
// since is known of neither. Of an archived entry that does not matter: it is gone on purpose.

// reach returns the oldest revision that history knows of all keys; false: there are keys of which
// it knows nothing.
func (u *undoing) reach() (oldest undone, ok bool, err error) {
	const lower, upper = "@", "A" // all namespaces that are reserved are between
	reserved := u.reserved
	err = u.k.database.scan([]byte{currentKind, lower[0]}, []byte{currentKind, upper[0]}, func(key, _ []byte) error {
		ns, _, _ := splitName(key[1:])
		reserved = reserved || kv.Reserved(string(ns))
		return nil
	})
	oldest.at = max(u.tables.historyFloor, 1)
	if err == nil {
		err = u.k.database.scan([]byte{cutKind}, []byte{cutKind + 1}, func(key, value []byte) error {
			cut, n := binary.Uvarint(value)
			ns, name, ok := splitName(key[1:])
			if n <= 0 || !ok {
				return errKey
			}
			if u.stays(string(ns), string(name)) {
				return nil
			}
			oldest.at = max(oldest.at, kv.Revision(cut))
			return nil
		})
	}
	if err != nil {
		return oldest, false, damaged("cuts", err)
	}
	return oldest, !reserved, nil
}

// at finds the newest revision that was made until a time, in ms since 1970; 0: none was.
func (u *undoing) at(time int64) (rev kv.Revision, err error) {
	err = u.scan(func(c *kvstore.Commit, _ []kv.Revision) {
		if c.Time <= time {
			rev = c.Revision
		}
	})
	if rev > 0 || err != nil {
		return rev, err
	}
	err = u.entries(0, func(_ byte, e *kv.Entry) {
		if e.Updated <= time {
			rev = max(rev, e.Mod)
		}
	})
	return rev, err
}

// entries calls fn for all entries, and for those that were superseded after a revision, with the
// kind of the row.
func (u *undoing) entries(after kv.Revision, fn func(kind byte, e *kv.Entry)) error {
	for _, kind := range [...]byte{archiveKind, currentKind} {
		load := entryLoader(func(e *kv.Entry) { fn(kind, e) })
		if err := u.k.database.scan([]byte{kind}, []byte{kind + 1}, load); err != nil {
			return damaged("entries", err)
		}
	}
	for _, p := range u.k.parts {
		if p.last <= after {
			continue
		}
		start := numberKey(nil, historyKind, int64(p.start))
		err := u.k.database.scan(start, numberKey(nil, historyKind, int64(p.start)+1), func(key, value []byte) error {
			ns, rest, ok := splitName(key[len(start):])
			name, _, named := bytes.Cut(rest, []byte{0})
			if !ok || !named {
				return errKey
			}
			e := &kv.Entry{NS: string(ns), Key: string(name)}
			if err := decodeEntry(e, value); err != nil {
				return err
			}
			fn(historyKind, e)
			return nil
		})
		if err != nil {
			return damaged("history", err)
		}
	}
	return nil
}

// recall collects what has changed after a revision that history reaches.
func (u *undoing) recall(rev kv.Revision) error {
	u.first, u.leases = map[name]undone{}, map[kv.LeaseID]kvstore.LeaseChange{}
	best := map[name]*kv.Entry{} // of the superseded ones the newest that is not later
	err := u.entries(rev, func(kind byte, e *kv.Entry) {
		id := name{e.NS, e.Key}
		switch {
		case u.stays(e.NS, e.Key):
		case e.Mod > rev:
			u.first[id] = undone{}
		case kind == historyKind && (best[id] == nil || best[id].Mod < e.Mod):
			best[id] = e
		}
	})
	if err != nil {
		return err
	}
	for id, e := range best {
		now, err := current(u.k.db, id.ns, id.key)
		switch {
		case err != nil:
			return err
		case now != nil && now.Mod <= rev: // which has superseded e
		case e.Deleted():
			u.first[id] = undone{}
		default:
			u.first[id] = undone{entry: e}
			if err := u.lease(e.Lease); err != nil {
				return err
			}
		}
	}
	err = u.k.database.scan(numberKey(nil, leaseKind, int64(rev)+1), []byte{leaseKind + 1}, func(key, _ []byte) error {
		id, ok := splitNumber(key)
		if !ok {
			return errKey
		}
		u.leases[kv.LeaseID(id)] = kvstore.LeaseChange{ID: kv.LeaseID(id), Ended: true}
		return nil
	})
	return damaged("leases", err)
}

// unknownLease is how long a lease gets whose length is not known any more.
const unknownLease = time.Minute

// lease brings back a lease that has ended since.
func (u *undoing) lease(id kv.LeaseID) error {
	if id == 0 {
		return nil
	}
	_, closer, err := u.k.db.Get(numberKey(nil, leaseKind, int64(id)))
	if errors.Is(err, pebble.ErrNotFound) {
		u.leases[id] = kvstore.LeaseChange{ID: id, TTL: unknownLease}
		return nil
	}
	if err != nil {
		return damaged("leases", err)
	}
	return closer.Close()
}
