package disk

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/kv"
)

// ListArchive lists archived entries, as in kv.Archive; limits are given.
func (d *Disk) ListArchive(l kv.List) (kv.Page, error) {
	if err := d.usable(); err != nil {
		return kv.Page{}, err
	}
	defer d.life.RUnlock()
	from := l.Prefix
	if l.After != "" && l.After >= from {
		from = l.After + "\x00"
		if !strings.HasPrefix(from, l.Prefix) { // behind them all
			return kv.Page{Revision: kv.Revision(d.newest.Load())}, nil
		}
	}
	d.mu.Lock()
	newest, pending := kv.Revision(d.newest.Load()), d.pending
	d.mu.Unlock()
	// Taken behind pending: a group that moves into tables in between is then seen twice, not missed.
	snap := d.db.NewSnapshot()
	defer snap.Close()
	page := archivePage{Page: kv.Page{Revision: newest}, list: l, waiting: unmaterialised(pending, l, from)}
	it, err := snap.NewIter(&pebble.IterOptions{
		LowerBound: nameKey(nil, archiveKind, l.NS, from),
		UpperBound: append(nameKey(nil, archiveKind, l.NS, l.Prefix), 0xFF), // no name in UTF-8 has it
	})
	if err != nil {
		return kv.Page{}, damaged("archived entry", err)
	}
	defer it.Close()
	for ok := it.First(); ok && !page.More; ok = it.Next() {
		_, key, named := splitName(it.Key()[1:])
		value, err := it.ValueAndErr()
		if err == nil && !named {
			err = errKey
		}
		if err == nil {
			err = page.row(key, value)
		}
		if err != nil {
			return kv.Page{}, damaged("archived entry", err)
		}
	}
	if err := it.Error(); err != nil {
		return kv.Page{}, damaged("archived entry", err)
	}
	for len(page.waiting) > 0 && !page.More {
		page.next()
	}
	page.Count = int64(len(page.Entries))
	return page.Page, nil
}

// unmaterialised is what becomes of archived keys by groups that are in no tables yet, in the
// order of the keys.
func unmaterialised(pending []appended, l kv.List, from string) []*kv.Entry {
	newest := map[string]*kv.Entry{}
	for _, g := range pending {
		for i := range g.commits {
			events := g.commits[i].Archive // sorted by name: a change of many documents has many
			first := sort.Search(len(events), func(k int) bool {
				e := events[k].Entry
				return e.NS > l.NS || e.NS == l.NS && e.Key >= from
			})
			for _, event := range events[first:] {
				if e := event.Entry; e.NS == l.NS && strings.HasPrefix(e.Key, l.Prefix) {
					newest[e.Key] = e
					continue
				}
				break
			}
		}
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b *kv.Entry) int { return cmp.Compare(a.Key, b.Key) })
}

// archivePage is a page under way.
type archivePage struct {
	kv.Page
	list    kv.List
	size    int
	waiting []*kv.Entry // of unmaterialised, behind those in the page
}

// row takes the next row of the tables.
func (p *archivePage) row(key, value []byte) error {
	for len(p.waiting) > 0 && p.waiting[0].Key < string(key) && !p.More {
		p.next()
	}
	if len(p.waiting) > 0 && p.waiting[0].Key == string(key) {
		p.next()
		return nil
	}
	if p.full() {
		return nil
	}
	e := &kv.Entry{NS: p.list.NS, Key: string(key)}
	if err := decodeEntry(e, value); err != nil {
		return err
	}
	p.add(e)
	return nil
}

// next takes the first of those that wait.
func (p *archivePage) next() {
	e := p.waiting[0]
	if e.Deleted() || !p.full() {
		p.waiting = p.waiting[1:]
	}
	if !e.Deleted() && !p.More {
		p.add(e)
	}
}

func (p *archivePage) add(e *kv.Entry) {
	p.Entries = append(p.Entries, e)
	p.size += e.Size()
}

// full notes that there is more than the page takes, if so.
func (p *archivePage) full() bool {
	p.More = len(p.Entries) >= p.list.Limit || len(p.Entries) > 0 && p.size >= p.list.MaxBytes
	return p.More
}

// stray moves an archived entry to the others. A version that knew of no archives has put it among
// the current entries, when it was started on what this one had left in the log.
func (t *tableSet) stray(e *kv.Entry) {
	t.small(nameKey(nil, archiveKind, e.NS, e.Key), appendEntry(nil, e))
	t.removeSmall(nameKey(nil, currentKind, e.NS, e.Key))
}
