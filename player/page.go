package player

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/player/field"
)

// GetAll reads a page of an owner's fields. It may wait for the database.
func (s *Storage) GetAll(ctx context.Context, o field.Owner, ask field.Ask) (field.Page, error) {
	if err := o.Check(); err != nil {
		return field.Page{}, err
	}
	var at *snapshot
	var err error
	if ask.Revision != 0 {
		at, err = s.pages.again(ask.Revision, o)
	} else {
		at, err = s.snapshot(ctx, o)
	}
	if err != nil {
		return field.Page{}, err
	}
	page := at.page(ask)
	if page.More {
		s.pages.keep(at)
	}
	return page, nil
}

// snapshot is all live fields of an owner at one revision. It shares their values, and needs no
// View: nothing leaves memory that an open View may still read.
type snapshot struct {
	owner    field.Owner
	revision kv.Revision
	base     int64
	fields   []placed // in the order of their keys
	size     int64    // of what it holds beside the entries in memory

	since int64 // guarded by the mutex of pages: when it was asked for last, in s since 1970
}

// placed is a field, which is an entry or else a row.
type placed struct {
	key   string
	entry *kv.Entry
	row   *field.Row
}

func (s *Storage) snapshot(ctx context.Context, o field.Owner) (*snapshot, error) {
	known, err := s.whole(ctx, o) // before the view: what was written since is in the view
	if err != nil {
		return nil, err
	}
	rows := known.sorted()
	v := s.store.View()
	defer v.Close()
	at := &snapshot{owner: o, revision: v.Revision(), base: s.base.now.Load()}
	if known != nil {
		at.size = known.size
	}
	for l := (kv.List{NS: o.Namespace(), Prefix: o.Key() + ":"}); ; {
		got, err := v.List(l)
		if err != nil {
			return nil, err
		}
		for _, e := range got.Entries {
			for len(rows) > 0 && rows[0].key < e.Key {
				at.fields, rows = append(at.fields, rows[0]), rows[1:]
			}
			if len(rows) > 0 && rows[0].key == e.Key {
				rows = rows[1:]
			}
			if live(e) {
				at.fields = append(at.fields, placed{key: e.Key, entry: e})
			}
			l.After = e.Key
		}
		if !got.More {
			break
		}
	}
	at.fields = append(at.fields, rows...)
	at.size += int64(cap(at.fields)) * int64(reflect.TypeFor[placed]().Size())
	return at, nil
}

func (at *snapshot) page(ask field.Ask) field.Page {
	page, size, most := field.Page{Revision: at.revision}, 0, ask.Limit
	if most <= 0 || most > kv.MaxList {
		most = kv.MaxList
	}
	owner := at.owner.Key() + ":"
	from := 0
	if ask.After != "" {
		after := field.Ref{Owner: at.owner, Name: ask.After}.Key()
		i, there := slices.BinarySearchFunc(at.fields, after, func(p placed, key string) int { return cmp.Compare(p.key, key) })
		if from = i; there {
			from++
		}
	}
	for _, p := range at.fields[from:] {
		if page.More = len(page.Fields) == most; page.More {
			return page
		}
		f := field.Field{}
		if p.entry == nil {
			f = rowField(p.row)
		} else {
			name, ok := field.ParseName(p.key[len(owner):])
			if !ok {
				continue
			}
			f = fieldOf(p.entry, name, at.base)
		}
		size += f.Size()
		if page.More = size > kv.MaxPage && len(page.Fields) > 0; page.More {
			return page
		}
		page.Fields = append(page.Fields, f)
	}
	return page
}

// maxPages is how many snapshots are kept for those who are in the middle of an owner's pages,
// and pageTime how many seconds they have for the next one.
const (
	maxPages = 256
	pageTime = 30
)

// pages keeps the snapshots of which a client may ask for another page.
type pages struct {
	clock clock.Clock  // set at open
	pool  *memory.Pool // set at open

	mu   sync.Mutex
	kept []*snapshot // the one asked for last is the last; guarded by mu
	held int64       // what they take, at most half of the pool; guarded by mu

	met, metBytes uint64 // how often one of the limits ended a client's pages; guarded by mu
}

// weight is what a snapshot counts: one that is larger than all that may be kept is kept if it
// is the only one, so that any owner can be read to its end.
func (p *pages) weight(at *snapshot) int64 { return min(at.size, p.pool.Limit()/2) }

// again returns a snapshot for the caller alone, who may keep it again.
func (p *pages) again(rev kv.Revision, o field.Owner) (*snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, at := range p.kept {
		if at.revision == rev && at.owner == o {
			p.dropLocked(i)
			return at, nil
		}
	}
	return nil, codes.Errorf(codes.Compacted, "the state of revision %d is no longer kept for further pages; begin again without it", rev)
}

// keep keeps a snapshot, unless there is no room, and drops those that no client came back for.
func (p *pages) keep(at *snapshot) {
	p.expire()
	p.mu.Lock()
	defer p.mu.Unlock()
	at.since = p.clock.Steady().Unix()
	if n := p.weight(at); p.held+n <= p.pool.Limit()/2 {
		p.held += n
		p.pool.Add(n)
		p.kept = append(p.kept, at)
	} else {
		p.metBytes++
	}
	if len(p.kept) > maxPages {
		p.met++
		p.dropLocked(0)
	}
}

// expire drops the snapshots that no client came back for.
func (p *pages) expire() {
	now := p.clock.Steady().Unix()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.kept) > 0 && now-p.kept[0].since > pageTime {
		p.dropLocked(0)
	}
}

func (p *pages) dropLocked(i int) {
	n := p.weight(p.kept[i])
	p.held -= n
	p.pool.Give(n)
	p.kept = slices.Delete(p.kept, i, i+1)
}

func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.kept) > 0 {
		p.dropLocked(0)
	}
}
