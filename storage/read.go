package storage

import (
	"context"
	"slices"
	"sync"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
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

// GetAll reads a page of an owner's fields. It may wait for the database.
func (s *Storage) GetAll(ctx context.Context, o Owner, ask Ask) (Page, error) {
	if err := o.Check(); err != nil {
		return Page{}, err
	}
	at, err := s.stateOf(ctx, o, ask.Revision)
	if err != nil {
		return Page{}, err
	}
	page, err := s.page(at, o, ask)
	s.pages.done(at, err == nil && page.More)
	return page, err
}

// stateOf is the state to read a page from.
func (s *Storage) stateOf(ctx context.Context, o Owner, rev kv.Revision) (state keptState, err error) {
	if rev != 0 {
		return s.pages.again(rev, o)
	}
	rows, err := s.whole(ctx, o) // before the view: what was written since is in the view
	if err != nil {
		return state, err
	}
	return keptState{View: s.store.View(), owner: o, rows: rows}, nil
}

// page merges what the state has in memory with the rows beside it.
func (s *Storage) page(at keptState, o Owner, ask Ask) (Page, error) {
	page, size := Page{Revision: at.Revision()}, 0
	l := kv.List{NS: o.Namespace(), Prefix: o.Key() + ":", Limit: ask.Limit}
	if l.Limit <= 0 || l.Limit > kv.MaxList {
		l.Limit = kv.MaxList
	}
	if ask.After != "" {
		l.After = FieldName{Owner: o, Name: ask.After}.Key()
	}
	most := l.Limit
	add := func(f Field) (full bool) {
		if page.More = len(page.Fields) == most || size >= kv.MaxPage; !page.More {
			page.Fields = append(page.Fields, f)
			size += len(f.Name) + len(f.Value)
		}
		return page.More
	}
	rows, base := at.rows.sorted(), s.base.now.Load()
	for len(rows) > 0 && rows[0].Key() <= l.After {
		rows = rows[1:]
	}
	for {
		got, err := at.List(l)
		if err != nil {
			return Page{}, err
		}
		for _, e := range got.Entries {
			for len(rows) > 0 && rows[0].Key() < e.Key {
				if add(rowField(rows[0])) {
					return page, nil
				}
				rows = rows[1:]
			}
			if len(rows) > 0 && rows[0].Key() == e.Key {
				rows = rows[1:]
			}
			if name, ok := field.ParseName(e.Key[len(l.Prefix):]); ok && live(e) && add(fieldOf(e, name, base)) {
				return page, nil
			}
			l.After = e.Key
		}
		if !got.More {
			break
		}
	}
	for _, row := range rows {
		if add(rowField(row)) {
			return page, nil
		}
	}
	return page, nil
}

// maxPages is how many states are kept for those who are in the middle of an owner's pages,
// and pageTime how many seconds they have for the next one.
const (
	maxPages = 64
	pageTime = 30
)

// pages keeps the states that somebody may ask for another page of.
type pages struct {
	clock clock.Clock  // set at open
	pool  *memory.Pool // for rows of the database; set at open

	mu   sync.Mutex
	kept []keptState // oldest first; guarded by mu
	held int64       // what their rows take, at most half of the pool; guarded by mu
}

type keptState struct {
	kv.View
	owner Owner
	rows  *rowSet // what the database has beside it; may be nil
	since int64   // in s since 1970
}

func (k *keptState) size() int64 {
	if k.rows == nil {
		return 0
	}
	return k.rows.size
}

// again returns a state for the caller alone, until it is done with it.
func (p *pages) again(rev kv.Revision, o Owner) (keptState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range p.kept {
		if k.Revision() == rev && k.owner == o {
			p.kept = slices.Delete(p.kept, i, i+1)
			p.hold(-k.size())
			return k, nil
		}
	}
	return keptState{}, codes.Errorf(codes.Compacted, "the state of revision %d is no longer kept for further pages; begin again without it", rev)
}

// done keeps the state if there is more to ask of it, and ends those that nobody came back
// for.
func (p *pages) done(k keptState, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.since = p.clock.Now().Unix()
	if more && p.held+k.size() <= p.pool.Limit()/2 {
		p.hold(k.size())
		p.kept = append(p.kept, k)
	} else {
		k.Close()
	}
	for len(p.kept) > 0 && (len(p.kept) > maxPages || k.since-p.kept[0].since > pageTime) {
		p.endLocked()
	}
}

func (p *pages) endLocked() {
	p.hold(-p.kept[0].size())
	p.kept[0].Close()
	p.kept = slices.Delete(p.kept, 0, 1)
}

func (p *pages) hold(n int64) {
	p.held += n
	p.pool.Add(n)
}

func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.kept) > 0 {
		p.endLocked()
	}
}
