package storage

import (
	"sync"

	"confcenter/kv"
	"confcenter/storage/field"
)

// lookup has room for the names of one read.
type lookup struct {
	ns, keys []byte
	owner    int // how much of keys is the owner's key
	reads    []kv.Read
	bucket   []byte
	maybe    bool // the database may have more of the owner
}

var lookups = sync.Pool{New: func() any { return new(lookup) }}

// begin writes the names of the owner.
func (l *lookup) begin(o *Owner) {
	l.ns = field.AppendTable(append(l.ns[:0], Prefix...), o.App, o.Region)
	l.keys = field.AppendOwner(l.keys[:0], *o)
	l.owner = len(l.keys)
}

// read looks the fields up, all at one revision.
func (l *lookup) read(store kv.Store, names []string) {
	l.reads = l.reads[:0]
	for _, name := range names {
		from := len(l.keys)
		l.keys = field.AppendName(append(l.keys, l.keys[:l.owner]...), name)
		l.reads = append(l.reads, kv.Read{NS: l.ns, Key: l.keys[from:]})
	}
	if len(l.reads) == 1 {
		l.reads[0].Entry, _ = store.Get(l.ns, l.reads[0].Key)
		return
	}
	store.GetEach(l.reads)
}

// done gives the room back, and lets go of the entries.
func (l *lookup) done() {
	clear(l.reads)
	const few = 64 << 10
	if cap(l.keys) <= few {
		lookups.Put(l)
	}
}

// Get appends those of the fields that there are, all of one state, to dst. It reads memory,
// without waiting: it may be called on an event loop. ok is false if one of them may be in the
// database only: then Load has to be called instead, which waits.
func (s *Storage) Get(o Owner, names []string, dst []Field) (fields []Field, ok bool) {
	return s.get(&o, names, dst, nil, nil)
}

// get is Get with rows that were read from the database. It adds to missing, if that is not
// nil, what is lacking.
func (s *Storage) get(o *Owner, names []string, dst []Field, rows *rowSet, missing *[]string) (fields []Field, ok bool) {
	l := lookups.Get().(*lookup)
	defer l.done()
	l.begin(o)
	if s.cold != nil {
		s.cold.use(hashOf(l.ns, l.keys))
	}
	l.read(s.store, names)
	before, base, looked := len(dst), s.base.now.Load(), s.cold == nil
	ok = true
	for i := range l.reads {
		e := l.reads[i].Entry
		switch {
		case live(e):
			dst = append(dst, fieldOf(e, names[i], base))
			continue
		case e != nil:
			continue
		case !looked:
			looked = true
			l.maybe = s.cold.maybe(l.ns, hashOf(l.ns, l.keys[:l.owner]))
		}
		if s.cold == nil || !l.maybe {
			continue
		}
		row, known := rows.row(names[i])
		if !known {
			row, known = s.cold.cache.row(string(l.ns)+"/"+string(l.keys[:l.owner]), names[i])
		}
		if known {
			if row != nil && !row.Removed {
				dst = append(dst, rowField(row))
			}
			continue
		}
		ok = false
		if missing == nil {
			break
		}
		*missing = append(*missing, names[i])
	}
	if !ok {
		return dst[:before], false
	}
	return dst, true
}
