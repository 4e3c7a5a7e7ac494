package player

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// Limits of lists of owners: how many one has at most; how often it may look for an owner, in
// memory or in the database, which takes some ms for each thousand; and how long counting may
// take.
const (
	maxOwners = 1000
	maxLooks  = 20_000
	countTime = 30 * time.Second
)

// Owners lists at most limit owners (0 or more than 1000: 1000) that have a field, of one kind
// or (logic is "") of all, in the order of their Key, after that one. If next is not "" there
// may be more of them after it, even if there is none in this list: many may have to be passed
// over, whose fields are all removed. It may wait for the database.
func (s *Storage) Owners(ctx context.Context, app, region, logic, after string, limit int) (list []field.Owner, next string, err error) {
	if err := (field.Owner{App: app, Region: region, Logic: cmp.Or(logic, "l"), ID: "o"}).Check(); err != nil {
		return nil, "", err
	}
	if !utf8.ValidString(after) || strings.IndexByte(after, 0) >= 0 {
		return nil, "", codes.Errorf(codes.BadKey, "after %.64q is no owner's key", after)
	}
	if limit <= 0 || limit > maxOwners {
		limit = maxOwners
	}
	v := s.store.View()
	defer v.Close()
	here := &roll{view: v, ns: field.Owner{App: app, Region: region}.Namespace(), prefixes: prefixes(logic), last: after, from: after}
	there := &query{s: s, ctx: ctx, OwnerQuery: OwnerQuery{App: app, Region: region, Logic: logic, After: after, Limit: maxOwners}}
	for {
		key, more, err := lesser(here, there)
		if key == "" || err != nil {
			return list, more, err
		}
		o := field.Owner{App: app, Region: region}
		var ok bool
		if o.Logic, o.ID, ok = field.ParseKey(key); !ok || logic != "" && o.Logic != logic {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Key(), nil
		}
		list = append(list, o)
	}
}

// prefixes are what the keys of owners of a kind begin with, in order.
func prefixes(logic string) []string {
	if logic == "" {
		return []string{""}
	}
	list := []string{
		strings.TrimSuffix(field.Owner{Logic: logic, ID: ":"}.Key(), "%3A"), // with escapes
		strings.TrimSuffix(field.Owner{Logic: logic, ID: "x"}.Key(), "x"),
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// lesser takes the next owner of both. If there is none, one of them may have looked too often:
// then next is the owner up to which both have looked.
func lesser(here *roll, there *query) (key, next string, err error) {
	a, err := here.peek()
	if err != nil {
		return "", "", err
	}
	b, err := there.peek(here)
	if err != nil {
		return "", "", err
	}
	for _, side := range [...]*looked{&here.looked, &there.looked} {
		if side.stopped && (next == "" || side.until < next) {
			next = side.until
		}
	}
	key = a
	if a == "" || b != "" && b < a {
		key = b
	}
	if key == "" || next != "" && key > next {
		return "", next, nil
	}
	if b == key {
		there.pop()
	}
	if a == key {
		here.pop()
	}
	return key, "", nil
}

// looked counts how often a list has looked for an owner.
type looked struct {
	times   int
	until   string // the owner it has looked at last
	stopped bool   // it looks no further
}

func (l *looked) look(owner string) {
	l.times++
	l.until = owner
}

// stop reports whether it has looked often enough.
func (l *looked) stop() bool {
	l.stopped = l.times >= maxLooks
	return l.stopped
}

// Count counts what Owners lists. It fails with codes.Busy if that takes too long.
func (s *Storage) Count(ctx context.Context, app, region, logic string) (n int64, err error) {
	since := s.clock.Now()
	for after := ""; ; {
		list, next, err := s.Owners(ctx, app, region, logic, after, maxOwners)
		if err != nil {
			return 0, err
		}
		n += int64(len(list))
		if after = next; next == "" {
			return n, nil
		}
		if s.clock.Now().Sub(since) > countTime {
			return 0, codes.Errorf(codes.Busy, "counting the owners takes longer than %v, which is the limit: %d were counted; list them in pages, or count the rows in the database", countTime, n)
		}
	}
}

// roll is the owners in memory that have a live field, in the order of their keys. That is not
// the order of their fields: "a:10:x" comes before "a:1:x", as a colon comes behind the
// digits.
type roll struct {
	looked
	view     kv.View
	ns       string
	prefixes []string // of the keys that are left to look at
	last     string   // what was returned last
	from     string   // fields behind this one have not been looked at
	next     []string
}

func (r *roll) pop() { r.last, r.next = r.next[0], r.next[1:] }

func (r *roll) peek() (string, error) {
	for len(r.next) == 0 {
		if len(r.prefixes) == 0 || r.stop() {
			return "", nil
		}
		page, err := r.view.List(kv.List{NS: r.ns, Prefix: r.prefixes[0], After: r.from, Limit: 1})
		if err != nil {
			return "", err
		}
		if len(page.Entries) == 0 {
			r.prefixes = r.prefixes[1:]
			continue
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
		r.look(owner)
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
		r.times++
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
	for l := (kv.List{NS: r.ns, Prefix: owner + ":", Limit: some}); ; l.Limit = kv.MaxList {
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
	looked
	OwnerQuery
	s     *Storage
	ctx   context.Context
	next  []string
	ended bool
}

func (q *query) pop() {
	q.look(q.next[0])
	q.next = q.next[1:]
}

// peek passes over those whose live rows have all been removed in memory meanwhile.
func (q *query) peek(here *roll) (string, error) {
	for {
		if len(q.next) == 0 && (q.ended || q.s.backing == nil) || q.stop() {
			return "", nil
		}
		if len(q.next) == 0 {
			q.next = nil
			err := q.s.backing.Owners(q.ctx, q.OwnerQuery, func(key []byte) { q.next = append(q.next, string(key)) })
			if err = q.s.cold.asked(q.ctx, err); err != nil {
				return "", codes.Errorf(codes.Unreachable, "the owners cannot be listed: %w", err)
			}
			if q.ended = len(q.next) < q.Limit; len(q.next) == 0 {
				return "", nil
			}
			q.After = q.next[len(q.next)-1]
		}
		gone, err := q.gone(here, q.next[0])
		if err != nil || !gone {
			return q.next[0], err
		}
		q.pop()
		q.times += goneLooks
	}
}

// goneLooks is how many looks it counts as to read an owner from the database.
const goneLooks = 100

// gone reports whether memory has removed all live rows of an owner.
func (q *query) gone(here *roll, owner string) (bool, error) {
	page, err := here.view.List(kv.List{NS: here.ns, Prefix: owner + ":", Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return false, err
	}
	if alive, err := here.alive(owner); err != nil || alive {
		return false, err
	}
	o, ok := field.ParseOwner(here.ns[len(field.Prefix):], owner)
	if !ok {
		return false, nil
	}
	rows, err := q.s.backing.All(q.ctx, o)
	if err = q.s.cold.asked(q.ctx, err); err != nil {
		return false, codes.Errorf(codes.Unreachable, "owner %q cannot be read: %w", owner, err)
	}
	for i := range rows {
		e, err := here.view.Get(here.ns, rows[i].Key())
		if err != nil || e == nil && !rows[i].Removed {
			return false, err
		}
	}
	return true, nil
}
