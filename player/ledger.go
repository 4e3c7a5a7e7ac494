package player

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/player/field"
)

// ledger knows what the database has not got: of each dirty table the cursor and what was
// changed behind it, and what the database refused. All of it can be made again from the
// entries of the store, which it follows.
type ledger struct {
	// set at open
	store kv.Store
	clock clock.Clock
	names *regions
	most  int // notes

	mu sync.Mutex

	// guarded by mu
	tables  []table
	notes   map[string]*note // what was refused, by key in Landing
	loading []*kv.Batch      // what came while the entries were read; nil afterwards
	loaded  bool
	seen    kv.Revision // everything up to it is here
	back    []again     // for cursors that move back
}

// table is one dirty table.
type table struct {
	cursor kv.Revision
	marks  []mark // changes behind the cursor, oldest first
	dead   int    // of marks: changed again since, or landed
	saving kv.Revision
	landed uint64
	last   int64 // in ms since 1970
	rates  rates
	given  map[string]bool // names of tables in batches since they were known

	refused, dropped int64 // notes
	due              dues  // notes that are not dropped
}

// mark says that a field was changed. One that was changed again since then has no region.
type mark struct {
	mod     kv.Revision
	region  *region
	key     string
	created int64 // when the field was made that the database has not got yet, in ms since 1970, as far as that is known
}

const (
	cursorPrefix = "cursor/"
	layoutKey    = "layout"
)

// owner is the owner that a key of a region belongs to.
func (r *region) owner(key string) (o field.Owner, ok bool) {
	n := field.OwnerLen(key)
	if n < 0 {
		return o, false
	}
	o = field.Owner{App: r.app, Region: r.region}
	o.Logic, o.ID, ok = field.ParseKey(key[:n])
	return o, ok
}

func (d *ledger) home(r *region, key string) *table {
	if len(d.tables) == 1 {
		return &d.tables[0]
	}
	o, _ := r.owner(key)
	return &d.tables[o.Home(len(d.tables))]
}

// follow is given to the store.
func (d *ledger) follow(batch *kv.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.loaded {
		d.loading = append(d.loading, batch)
		return
	}
	d.apply(batch)
}

func (d *ledger) apply(batch *kv.Batch) {
	for i := range batch.Changes {
		c := &batch.Changes[i]
		if c.Revision <= d.seen {
			continue
		}
		for k := range c.Events {
			d.event(c, &c.Events[k])
		}
		d.seen = c.Revision
	}
}

func (d *ledger) event(c *kv.Change, e *kv.Event) {
	ns, key := e.Entry.NS, e.Entry.Key
	if ns == field.Landing {
		switch {
		case strings.HasPrefix(key, notePrefix):
			d.note(e.Entry)
		case strings.HasPrefix(key, cursorPrefix):
			d.moved(e.Entry)
		case key == layoutKey:
			d.divide(max(1, int(intOf(e.Entry))))
			for i := range c.Events { // which came before
				if strings.HasPrefix(c.Events[i].Entry.Key, cursorPrefix) {
					d.moved(c.Events[i].Entry)
				}
			}
		}
		return
	}
	if r := d.names.of(ns); r != nil && !e.Entry.Deleted() {
		t := d.home(r, key)
		created := e.Entry.Updated
		if n := d.notes[noteKey(r.table(), key)]; n != nil {
			created = n.created
		}
		t.add(mark{e.Entry.Mod, r, key, created}, e.Prev)
	}
}

// intOf is the number in one of our own entries; 0 if there is none.
func intOf(e *kv.Entry) int64 {
	if e == nil || e.Deleted() {
		return 0
	}
	n, _ := e.Value.Int()
	return n
}

// add adds a change. The field's earlier mark, if it has one, is dead now.
func (t *table) add(m mark, prev *kv.Entry) {
	if prev != nil && prev.Mod > t.cursor {
		if created, there := t.kill(prev.Mod, m.region, m.key); there {
			m.created = created
		}
	}
	t.marks = append(t.marks, m)
	const few = 1024
	if t.dead > few && t.dead > len(t.marks)/2 {
		t.marks = slices.DeleteFunc(t.marks, func(m mark) bool { return m.region == nil })
		t.dead = 0
	}
}

func (t *table) kill(mod kv.Revision, r *region, key string) (created int64, there bool) {
	i, _ := slices.BinarySearchFunc(t.marks, mod, func(m mark, mod kv.Revision) int { return cmp.Compare(m.mod, mod) })
	for ; i < len(t.marks) && t.marks[i].mod == mod; i++ {
		if m := &t.marks[i]; m.region != nil && m.region.ns == r.ns && m.key == key {
			m.region, m.key = nil, ""
			t.dead++
			return m.created, true
		}
	}
	return 0, false
}

// moved moves a cursor, and drops what it has passed.
func (d *ledger) moved(e *kv.Entry) {
	i, ok := tableOf(e.Key)
	if !ok || i >= len(d.tables) {
		return
	}
	t := &d.tables[i]
	before := t.cursor
	if t.cursor = kv.Revision(intOf(e)); t.cursor < before {
		d.goBack(i)
		return
	}
	n := 0
	for ; n < len(t.marks) && t.marks[n].mod <= t.cursor; n++ {
		if t.marks[n].region == nil {
			t.dead--
		}
	}
	t.drop(n)
}

// drop drops the first marks. Room is given back when append makes new room.
func (t *table) drop(n int) {
	clear(t.marks[:n])
	if t.marks = t.marks[n:]; len(t.marks) == 0 {
		t.marks = nil
	}
}

func (t *table) dirty() int64 { return int64(len(t.marks) - t.dead) }

// reached is up to where everything is landed or noted, for a table all of whose changes up to
// seen are known.
func (t *table) reached(seen kv.Revision) kv.Revision {
	for i := range t.marks {
		if t.marks[i].region != nil {
			return t.marks[i].mod - 1
		}
	}
	return max(t.cursor, seen)
}

// divide puts what is dirty into so many dirty tables.
func (d *ledger) divide(n int) {
	if n < 1 || n == len(d.tables) {
		return
	}
	var all []mark
	for i := range d.tables {
		all = append(all, slices.DeleteFunc(d.tables[i].marks, func(m mark) bool { return m.region == nil })...)
	}
	slices.SortStableFunc(all, func(a, b mark) int { return cmp.Compare(a.mod, b.mod) })
	d.tables = make([]table, n)
	for _, m := range all {
		t := d.home(m.region, m.key)
		t.marks = append(t.marks, m)
	}
	for _, n := range d.notes {
		d.tally(n, 1)
	}
}

// load reads what the store has, and then what came meanwhile.
func (d *ledger) load() error {
	v := d.store.View()
	defer v.Close()
	layout, err := v.Get(field.Landing, layoutKey)
	if err != nil {
		return err
	}
	d.tables = make([]table, max(1, intOf(layout)))
	d.notes = map[string]*note{}
	if err := each(v, field.Landing, "", func(e *kv.Entry) {
		if i, ok := tableOf(e.Key); ok && i < len(d.tables) {
			d.tables[i].cursor = kv.Revision(intOf(e))
		}
		if strings.HasPrefix(e.Key, notePrefix) {
			d.note(e)
		}
	}); err != nil {
		return err
	}
	for _, r := range d.names.all(d.store) {
		if err := each(v, r.ns, "", func(e *kv.Entry) {
			if t := d.home(r, e.Key); e.Mod > t.cursor {
				t.marks = append(t.marks, mark{e.Mod, r, e.Key, e.Updated})
			}
		}); err != nil {
			return err
		}
	}
	for i := range d.tables {
		slices.SortFunc(d.tables[i].marks, inOrder)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen, d.loaded = v.Revision(), true
	for _, batch := range d.loading {
		d.apply(batch)
	}
	d.loading = nil
	return nil
}

func inOrder(a, b mark) int { return cmp.Or(cmp.Compare(a.mod, b.mod), cmp.Compare(a.key, b.key)) }

// each calls fn for all entries of a namespace.
func each(v kv.View, ns, prefix string, fn func(*kv.Entry)) error {
	for l := (kv.List{NS: ns, Prefix: prefix}); ; {
		page, err := v.List(l)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			fn(e)
		}
		if !page.More {
			return nil
		}
		l.After = page.Entries[len(page.Entries)-1].Key
	}
}

// all lists the regions that have fields in memory.
func (all *regions) all(store kv.Store) (list []*region) {
	after := field.Prefix
	for {
		const some = 1000
		page, more := store.Namespaces(after, some)
		for _, ns := range page {
			if !strings.HasPrefix(ns.Name, field.Prefix) {
				return list
			}
			if r := all.of(ns.Name); r != nil {
				list = append(list, r)
			}
			after = ns.Name
		}
		if !more {
			return list
		}
	}
}

// Regions lists the pairs of App and Region that have fields in memory.
func (s *Storage) Regions() (list []field.Owner) {
	for _, r := range s.names.all(s.store) {
		list = append(list, field.Owner{App: r.app, Region: r.region})
	}
	return list
}
