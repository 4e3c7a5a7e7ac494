package player

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"strings"
	"sync"

	"confcenter/internal/memory"
	"confcenter/player/field"
)

// rowSet is what is known of an owner's rows.
type rowSet struct {
	rows map[string]*field.Row // nil: the database has none
	all  bool                  // the database has no others
	size int64
}

// row returns a row, nil if there is none, and whether that is known.
func (r *rowSet) row(name string) (row *field.Row, known bool) {
	if r == nil {
		return nil, false
	}
	row, known = r.rows[name]
	return row, known || r.all
}

// sorted is all live rows in the order of their keys.
func (r *rowSet) sorted() (rows []placed) {
	if r == nil {
		return nil
	}
	for _, row := range r.rows {
		if row != nil && !row.Removed {
			rows = append(rows, placed{key: row.Key(), row: row})
		}
	}
	slices.SortFunc(rows, func(a, b placed) int { return cmp.Compare(a.key, b.key) })
	return rows
}

func (r *rowSet) clone() *rowSet {
	other := *r
	other.rows = maps.Clone(r.rows)
	return &other
}

// add adds what a query has found.
func (r *rowSet) add(name string, row *field.Row) {
	if r.rows == nil {
		r.rows = map[string]*field.Row{}
	}
	if old, known := r.rows[name]; known {
		r.size -= sizeOf(name, old)
	}
	r.rows[name] = row
	r.size += sizeOf(name, row)
}

func sizeOf(name string, row *field.Row) int64 {
	n := memory.EntryCost + len(name)
	if row != nil {
		n += len(row.Value)
	}
	return int64(n)
}

// cache keeps what was loaded of owners, those used last.
type cache struct {
	pool *memory.Pool // set at open

	mu     sync.Mutex
	owners map[string]*list.Element // of *cached; guarded by mu
	order  list.List                // used last first; guarded by mu

	dropped uint64 // owners for which there was no room any more; guarded by mu
}

type cached struct {
	id   string
	rows *rowSet
	told int64 // to the pool
}

func newCache(pool *memory.Pool) *cache {
	return &cache{pool: pool, owners: map[string]*list.Element{}}
}

func (c *cache) row(id string, name string) (*field.Row, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.owners[id]
	if at == nil {
		return nil, false
	}
	c.order.MoveToFront(at)
	return at.Value.(*cached).rows.row(name)
}

// whole is a copy of what is known of an owner, if that is all.
func (c *cache) whole(id string) *rowSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.owners[id]
	if at == nil || !at.Value.(*cached).rows.all {
		return nil
	}
	c.order.MoveToFront(at)
	return at.Value.(*cached).rows.clone()
}

// add adds what was found of an owner, and forgets those used longest ago while there is no
// room.
func (c *cache) add(id string, found *rowSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.owners[id]
	if at == nil {
		at = c.order.PushFront(&cached{id: id, rows: &rowSet{}})
		c.owners[id] = at
	}
	one := at.Value.(*cached)
	one.rows.all = one.rows.all || found.all
	for name, row := range found.rows {
		one.rows.add(name, row)
	}
	now := one.rows.size + memory.OwnerCost + int64(len(id))
	c.pool.Add(now - one.told)
	one.told = now
	for c.pool.Over() && c.order.Len() > 0 {
		c.dropped++
		c.forgetLocked(c.order.Back())
	}
}

// forget forgets an owner.
func (c *cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.owners[id]; at != nil {
		c.forgetLocked(at)
	}
}

// forgetAll forgets all owners of a namespace.
func (c *cache) forgetAll(ns string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, at := range c.owners {
		if strings.HasPrefix(id, ns+"/") {
			c.forgetLocked(at)
		}
	}
}

func (c *cache) forgetLocked(at *list.Element) {
	one := c.order.Remove(at).(*cached)
	delete(c.owners, one.id)
	c.pool.Give(one.told)
}

// empty gives all room back.
func (c *cache) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.forgetLocked(c.order.Back())
	}
}
