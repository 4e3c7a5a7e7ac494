package player

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// again is what a dirty table gets back when its cursor moves back.
type again struct {
	to    kv.Revision
	marks []mark // oldest first, behind it
}

// Reland has all that memory has and that was written since then (in ms since 1970) landed once
// more, although the database had it: the database has gone back in time. It returns how many
// fields that are. What was read from the database before is forgotten.
func (s *Storage) Reland(ctx context.Context, since int64) (n int, err error) {
	if s.dirty == nil {
		return 0, errNoBacking()
	}
	s.setting.Lock() // the number of dirty tables stays
	defer s.setting.Unlock()
	for range maxTries {
		if n, err = relandOnce(ctx, s, since); !errors.Is(err, codes.Conflict) {
			break
		}
	}
	for _, table := range s.cold.knownTables() {
		s.cold.loads.forget(field.Prefix + table)
	}
	return n, err
}

// relandOnce fails with codes.Conflict if a lander has moved a cursor meanwhile.
func relandOnce(ctx context.Context, s *Storage, since int64) (n int, err error) {
	d := s.dirty
	d.mu.Lock()
	cursors := make([]kv.Revision, len(d.tables))
	for i := range d.tables {
		cursors[i] = d.tables[i].cursor
	}
	d.mu.Unlock()
	v := s.store.View()
	defer v.Close()
	least := kv.Revision(math.MaxInt64)
	landed := func(fn func(i int, r *region, e *kv.Entry)) error {
		for _, r := range s.names.all(s.store) {
			if err := each(v, r.ns, "", func(e *kv.Entry) {
				if o, ok := r.owner(e.Key); ok {
					if i := o.Home(len(cursors)); e.Mod <= cursors[i] {
						fn(i, r, e)
					}
				}
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := landed(func(_ int, _ *region, e *kv.Entry) {
		if e.Updated >= since {
			least = min(least, e.Mod)
		}
	}); err != nil || least == math.MaxInt64 {
		return 0, err
	}
	back := make([]again, len(cursors))
	if err := landed(func(i int, r *region, e *kv.Entry) {
		if e.Mod >= least {
			back[i].marks = append(back[i].marks, mark{e.Mod, r, e.Key, e.Updated})
			n++
		}
	}); err != nil {
		return 0, err
	}
	txn := &kv.Txn{Must: true}
	for i := range back {
		if len(back[i].marks) == 0 {
			continue
		}
		back[i].to = least - 1
		slices.SortFunc(back[i].marks, inOrder)
		txn.If = append(txn.If, numberIs(cursorKey(i), int64(cursors[i]), 0))
		op := kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: cursorKey(i), Value: kv.IntValue(int64(back[i].to))}
		if back[i].to == 0 {
			op.Kind = kv.OpDelete
		}
		txn.Then = append(txn.Then, op)
	}
	d.setBack(back)
	defer d.setBack(nil)
	_, err = s.commit(ctx, txn)
	return n, err
}

func (d *ledger) setBack(back []again) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.back = back
}

// goBack gives a dirty table what is dirty once more, now that its cursor has moved back.
func (d *ledger) goBack(i int) {
	t := &d.tables[i]
	if i >= len(d.back) || d.back[i].to != t.cursor {
		return
	}
	t.marks = append(d.back[i].marks, t.marks...) // those that were written again since are passed over
}

// knownTables are the tables whose owners are all in the filter.
func (c *cold) knownTables() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.known))
}
