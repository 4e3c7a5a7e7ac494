package storage

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/storage/field"
)

// maxOwners is how many owners one list has at most.
const maxOwners = 1000

// Owners lists at most limit owners (0 or more than 1000: 1000) that have a field, of one kind
// or (logic is "") of all, in the order of their Key, after that one. It may wait for the
// database.
func (s *Storage) Owners(ctx context.Context, app, region, logic, after string, limit int) (list []Owner, more bool, err error) {
	if err := (Owner{App: app, Region: region, Logic: cmp.Or(logic, "l"), ID: "o"}).Check(); err != nil {
		return nil, false, err
	}
	if !utf8.ValidString(after) || strings.IndexByte(after, 0) >= 0 {
		return nil, false, codes.Errorf(codes.BadKey, "after %.64q is no owner's key", after)
	}
	if limit <= 0 || limit > maxOwners {
		limit = maxOwners
	}
	v := s.store.View()
	defer v.Close()
	here := &roll{view: v, ns: Owner{App: app, Region: region}.Namespace(), logic: logic, last: after, from: after}
	there := &query{s: s, ctx: ctx, app: app, region: region, logic: logic, after: after}
	for len(list) <= limit {
		key, err := lesser(here, there)
		if key == "" || err != nil {
			return list, false, err
		}
		o := Owner{App: app, Region: region}
		var ok bool
		if o.Logic, o.ID, ok = field.ParseKey(key); ok && (logic == "" || o.Logic == logic) {
			list = append(list, o)
		}
	}
	return list[:limit], true, nil
}

// lesser takes the next owner of both.
func lesser(here *roll, there *query) (string, error) {
	a, err := here.peek()
	if err != nil {
		return "", err
	}
	b, err := there.peek(here)
	if err != nil {
		return "", err
	}
	if b != "" && (a == "" || b <= a) {
		there.pop()
	}
	if a != "" && (b == "" || a <= b) {
		here.pop()
		return a, nil
	}
	return b, nil
}

// Count counts what Owners lists.
func (s *Storage) Count(ctx context.Context, app, region, logic string) (n int64, err error) {
	after := ""
	for {
		list, more, err := s.Owners(ctx, app, region, logic, after, maxOwners)
		if err != nil {
			return 0, err
		}
		n += int64(len(list))
		if !more {
			return n, nil
		}
		after = list[len(list)-1].Key()
	}
}

// roll is the owners in memory that have a live field, in the order of their keys. That is not
// the order of their fields: "a:10:x" comes before "a:1:x", as a colon comes behind the
// digits.
type roll struct {
	view  kv.View
	ns    string
	logic string
	last  string // what was returned last
	from  string // fields behind this one have not been looked at
	next  []string
}

func (r *roll) pop() { r.last, r.next = r.next[0], r.next[1:] }

func (r *roll) peek() (string, error) {
	for len(r.next) == 0 {
		page, err := r.view.List(kv.List{NS: r.ns, After: r.from, Limit: 1})
		if err != nil || len(page.Entries) == 0 {
			return "", err
		}
		key := page.Entries[0].Key
		n := field.OwnerLen(key)
		if n < 0 {
			r.from = key
			continue
		}
		owner := key[:n]
		r.from = owner + ";" // behind all its fields: the next byte after the colon
		if err := r.gather(owner); err != nil {
			return "", err
		}
	}
	return r.next[0], nil
}

// gather adds an owner, and before it those whose keys begin it: their fields come later.
func (r *roll) gather(owner string) error {
	colon := strings.LastIndexByte(owner, ':')
	for n := colon + 2; n <= len(owner); n++ {
		if owner[:n] <= r.last || n < len(owner) && owner[n] > ':' {
			continue
		}
		alive, err := r.alive(owner[:n])
		if err != nil {
			return err
		}
		if alive {
			r.next = append(r.next, owner[:n])
		}
	}
	return nil
}

// alive reports whether an owner has a live field in memory.
func (r *roll) alive(owner string) (bool, error) {
	const some = 16
	for l := (kv.List{NS: r.ns, Prefix: owner + ":", Limit: some}); ; {
		page, err := r.view.List(l)
		if err != nil {
			return false, err
		}
		for _, e := range page.Entries {
			if live(e) {
				return true, nil
			}
		}
		if !page.More {
			return false, nil
		}
		l.After = page.Entries[len(page.Entries)-1].Key
	}
}

// query is the owners that have a live row in the database.
type query struct {
	s                  *Storage
	ctx                context.Context
	app, region, logic string
	after              string
	next               []string
	ended              bool
}

func (q *query) pop() { q.next = q.next[1:] }

// peek passes over those whose live rows have all been removed in memory meanwhile.
func (q *query) peek(here *roll) (string, error) {
	for {
		if len(q.next) == 0 && (q.ended || q.s.backing == nil) {
			return "", nil
		}
		if len(q.next) == 0 {
			var err error
			if q.next, err = q.s.backing.Owners(q.ctx, q.app, q.region, q.logic, q.after, maxOwners); err != nil {
				return "", codes.Errorf(codes.Unreachable, "the owners in the database cannot be listed: %w", err)
			}
			if q.ended = len(q.next) < maxOwners; len(q.next) == 0 {
				return "", nil
			}
			q.after = q.next[len(q.next)-1]
		}
		gone, err := q.gone(here, q.next[0])
		if err != nil || !gone {
			return q.next[0], err
		}
		q.pop()
	}
}

// gone reports whether memory has removed all live rows of an owner.
func (q *query) gone(here *roll, owner string) (bool, error) {
	page, err := here.view.List(kv.List{NS: here.ns, Prefix: owner + ":", Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return false, err
	}
	if alive, err := here.alive(owner); err != nil || alive {
		return false, err
	}
	o, ok := field.ParseOwner(here.ns[len(Prefix):], owner)
	if !ok {
		return false, nil
	}
	rows, err := q.s.backing.All(q.ctx, o)
	if err != nil {
		return false, codes.Errorf(codes.Unreachable, "owner %q cannot be read from the database: %w", owner, err)
	}
	for i := range rows {
		e, err := here.view.Get(here.ns, rows[i].Key())
		if err != nil || e == nil && !rows[i].Removed {
			return false, err
		}
	}
	return true, nil
}
