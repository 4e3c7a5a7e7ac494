package player

import (
	"bytes"
	"sync"

	"confcenter/kv"
	"confcenter/player/field"
)

// Get is one get of fields by name, as a request has it, and its result.
type Get struct {
	App, Region, Logic, ID []byte // not kept
	Names                  [][]byte

	Fields []field.Field // those that there are, all of one state; its room is used again
	// Cold: one of them may be in the database only. Then Load has to be called instead.
	Cold bool
	Err  error // of Owner.Check
}

// Owner is whose fields it asks for.
func (g *Get) Owner() field.Owner {
	return field.Owner{App: string(g.App), Region: string(g.Region), Logic: string(g.Logic), ID: string(g.ID)}
}

// GetEach answers some dozens of gets. It reads memory, without waiting: it may be called on an
// event loop. Together they are faster than one by one, as with kv.Store.GetEach.
func (s *Storage) GetEach(gets []Get) {
	l := lookups.Get().(*lookup)
	defer l.done()
	for i := range gets {
		g := &gets[i]
		var before *Get
		if i > 0 {
			before = &gets[i-1]
		}
		g.Err = l.add(g, before)
		s.use(&l.asked[i])
	}
	l.read(s.store)
	base := s.base.now.Load()
	for i := range gets {
		g := &gets[i]
		fields, ok := found(s, l, &l.asked[i], g.Names, g.Fields[:0], base, nil, nil)
		g.Fields, g.Cold = fields, !ok
	}
}

// lookup has room for the names of reads.
type lookup struct {
	room   []byte // namespaces and keys
	reads  []kv.Read
	asked  []asked
	bucket []byte
	sum    byte // of Prefetch
}

// asked is what is asked of one owner.
type asked struct {
	ns, owner []byte // owner is its key
	hash      uint64 // if there is a database
	from, to  int    // in reads
}

var lookups = sync.Pool{New: func() any { return new(lookup) }}

// add adds a get; before is the one added last, whose table it may share.
func (l *lookup) add(g, before *Get) error {
	if err := field.CheckParts(g.App, g.Region, g.Logic, g.ID); err != nil {
		l.asked = append(l.asked, asked{from: len(l.reads), to: len(l.reads)})
		return err
	}
	var ns []byte
	if before != nil && bytes.Equal(before.App, g.App) && bytes.Equal(before.Region, g.Region) {
		ns = l.asked[len(l.asked)-1].ns
	}
	a := ask(l, ns, g.App, g.Region, g.Logic, g.ID)
	if len(a.ns)-len(field.Prefix) > field.MaxTable || len(a.owner) > field.MaxColumn {
		return g.Owner().Check()
	}
	addNames(l, a, g.Names)
	return nil
}

// ask begins what is asked of an owner; ns is its namespace, if that is known.
func ask[T field.Text](l *lookup, ns []byte, app, region, logic, id T) *asked {
	if ns == nil {
		from := len(l.room)
		l.room = field.AppendTable(append(l.room, field.Prefix...), app, region)
		ns = l.room[from:len(l.room):len(l.room)]
	}
	from := len(l.room)
	l.room = field.AppendOwner(l.room, logic, id)
	l.asked = append(l.asked, asked{ns: ns, owner: l.room[from:len(l.room):len(l.room)], from: len(l.reads), to: len(l.reads)})
	return &l.asked[len(l.asked)-1]
}

// addNames adds the names of the fields that are asked for.
func addNames[T field.Text](l *lookup, a *asked, names []T) {
	for _, name := range names {
		from := len(l.room)
		l.room = field.AppendName(append(l.room, a.owner...), name)
		l.reads = append(l.reads, kv.Read{NS: a.ns, Key: l.room[from:len(l.room):len(l.room)]})
	}
	a.to = len(l.reads)
}

// use marks the owner as used, before its fields are looked at.
func (s *Storage) use(a *asked) {
	if s.cold != nil {
		a.hash = hashOf(a.ns, a.owner)
		s.cold.use(a.hash)
	}
}

// read looks up what is asked, all at one revision.
func (l *lookup) read(store kv.Store) {
	if len(l.reads) == 1 {
		l.reads[0].Entry, _ = store.Get(l.reads[0].NS, l.reads[0].Key)
		return
	}
	store.GetEach(l.reads)
	l.sum += kv.Prefetch(l.reads)
}

// done gives the room back, and lets go of the entries.
func (l *lookup) done() {
	clear(l.reads)
	l.room, l.reads, l.asked = l.room[:0], l.reads[:0], l.asked[:0]
	const few = 64 << 10
	if cap(l.room) <= few {
		lookups.Put(l)
	}
}

// get is GetEach for one owner, with rows that were read from the database. It adds to missing
// what is lacking.
func (s *Storage) get(o *field.Owner, names []string, rows *rowSet, missing *[]string) (fields []field.Field, ok bool) {
	l := lookups.Get().(*lookup)
	defer l.done()
	a := ask(l, nil, o.App, o.Region, o.Logic, o.ID)
	s.use(a)
	addNames(l, a, names)
	l.read(s.store)
	return found(s, l, a, names, nil, s.base.now.Load(), rows, missing)
}

// found appends to dst those fields that there are. If memory does not know of all of them, it
// appends none, and ok is false.
func found[T field.Text](s *Storage, l *lookup, a *asked, names []T, dst []field.Field, base int64, rows *rowSet, missing *[]string) (fields []field.Field, ok bool) {
	before, looked, maybe := len(dst), s.cold == nil, false
	ok = true
	for i := range l.reads[a.from:a.to] {
		e := l.reads[a.from+i].Entry
		switch {
		case live(e):
			dst = append(dst, fieldOf(e, nameIn(e, a, names[i]), base))
			continue
		case e != nil:
			continue
		case !looked:
			looked = true
			maybe = s.cold.maybe(a.ns, a.hash)
		}
		if !maybe {
			continue
		}
		name := string(names[i])
		if (field.Owner{}).CheckField(a.owner, name) != nil {
			continue // no field is called so, and a database might not take the question
		}
		row, known := rows.row(name)
		if !known {
			row, known = s.cold.cache.row(string(a.ns)+"/"+string(a.owner), name)
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
		*missing = append(*missing, name)
	}
	if !ok {
		return dst[:before], false
	}
	return dst, true
}

// nameIn is the name of an entry's field. Unless it has escapes there, it is a part of the
// entry's key, and costs nothing.
func nameIn[T field.Text](e *kv.Entry, a *asked, name T) string {
	if in := e.Key[len(a.owner)+1:]; in == string(name) {
		return in
	}
	return string(name)
}
