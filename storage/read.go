package storage

import (
	"context"
	"sync"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
)

// lookup has room for the names of one read.
type lookup struct {
	ns, keys []byte
	owner    int // how much of keys is the owner's key
	reads    []kv.Read
}

var lookups = sync.Pool{New: func() any { return new(lookup) }}

// begin writes the names of the owner.
func (l *lookup) begin(o *Owner) {
	l.ns = appendTable(append(l.ns[:0], Prefix...), o.App, o.Region)
	l.keys = appendOwner(l.keys[:0], *o)
	l.owner = len(l.keys)
}

// read looks the fields up, all at one revision.
func (l *lookup) read(store kv.Store, names []string) {
	l.reads = l.reads[:0]
	for _, name := range names {
		from := len(l.keys)
		l.keys = appendField(append(l.keys, l.keys[:l.owner]...), name)
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
	l := lookups.Get().(*lookup)
	defer l.done()
	l.begin(&o)
	l.read(s.store, names)
	base := s.base.now.Load()
	for i := range l.reads {
		e := l.reads[i].Entry
		if live(e) {
			dst = append(dst, fieldOf(e, names[i], base))
		}
	}
	return dst, true
}

// Load is Get for fields that may have to be read from the database. Many who ask for fields
// of one owner cost one query.
func (s *Storage) Load(_ context.Context, o Owner, names []string) ([]Field, error) {
	fields, _ := s.Get(o, names, nil)
	return fields, nil
}

// GetAll reads a page of an owner's fields. It may wait for the database.
func (s *Storage) GetAll(_ context.Context, o Owner, ask Ask) (Page, error) {
	if err := o.Check(); err != nil {
		return Page{}, err
	}
	v, err := s.pages.view(ask.Revision)
	if err != nil {
		return Page{}, err
	}
	page, err := s.page(v, o, ask)
	s.pages.done(v, err == nil && page.More)
	return page, err
}

func (s *Storage) page(v kv.View, o Owner, ask Ask) (Page, error) {
	page := Page{Revision: v.Revision()}
	owner, base := o.Key()+":", s.base.now.Load()
	l := kv.List{NS: o.Namespace(), Prefix: owner, Limit: ask.Limit}
	if ask.After != "" {
		l.After = string(appendField([]byte(owner[:len(owner)-1]), ask.After))
	}
	if l.Limit <= 0 || l.Limit > kv.MaxList {
		l.Limit = kv.MaxList
	}
	for size := 0; ; {
		got, err := v.List(l)
		if err != nil {
			return Page{}, err
		}
		for _, e := range got.Entries {
			name, ok := parseName(e.Key[len(owner):])
			if !ok || !live(e) {
				continue
			}
			if len(page.Fields) == l.Limit || size >= kv.MaxPage {
				page.More = true
				return page, nil
			}
			page.Fields = append(page.Fields, fieldOf(e, name, base))
			size += e.Size()
		}
		if !got.More {
			return page, nil
		}
		l.After = got.Entries[len(got.Entries)-1].Key
	}
}

// maxPages is how many states are kept for those who are in the middle of an owner's pages,
// and pageTime how many seconds they have for the next one.
const (
	maxPages = 64
	pageTime = 30
)

// pages keeps the states that somebody may ask for another page of.
type pages struct {
	store kv.Store    // set at open
	clock clock.Clock // set at open

	mu   sync.Mutex
	kept []keptView // oldest first; guarded by mu
}

type keptView struct {
	kv.View
	since int64 // in s since 1970
}

// view returns a state for the caller alone, until it is done with it.
func (p *pages) view(rev kv.Revision) (kv.View, error) {
	if rev == 0 {
		return p.store.View(), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range p.kept {
		if k.Revision() == rev {
			p.kept = append(p.kept[:i], p.kept[i+1:]...)
			return k.View, nil
		}
	}
	return nil, codes.Errorf(codes.Compacted, "the state of revision %d is no longer kept for further pages; begin again without it", rev)
}

// done keeps the state if there is more to ask of it, and ends those that nobody came back
// for.
func (p *pages) done(v kv.View, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now().Unix()
	if more {
		p.kept = append(p.kept, keptView{v, now})
	} else {
		v.Close()
	}
	for len(p.kept) > 0 && (len(p.kept) > maxPages || now-p.kept[0].since > pageTime) {
		p.kept[0].Close()
		p.kept = p.kept[1:]
	}
}

func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kept {
		k.Close()
	}
	p.kept = nil
}
