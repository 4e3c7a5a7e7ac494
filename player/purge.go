package player

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"confcenter/kv"
	"confcenter/player/field"
)

// purge deletes what was removed longer ago than the settings say, from memory and from the
// database. That a field cannot be restored any more does not depend on it: lapsed asks the
// clock, by how much time has passed, whatever the time of day was set to. So nothing is lost if it is late, and the order of its deletions does not matter.
//
// What must stay true although the database forgets the version of a row that is purged:
//
//   - No version is used twice. Those of this data directory rise anyway. One that is begun
//     later begins at the time in µs, so rows with versions beyond that time are not purged
//     until the clock has passed them.
//   - No older value comes back. A statement of a lander that was stopped carries a time, in
//     the database's clock, after which the database refuses it ([field.MaxBatchTime]), and rows are not
//     purged before [field.LeastPurge] has gone by, which is longer.
type purge struct {
	s       *Storage      // set at open
	changed chan struct{} // the setting has

	fields, rows atomic.Uint64 // deleted from memory, and from the database

	// of the goroutine
	regions []*region // whose fields in memory are yet to be looked at in this round
	tables  []string  // whose rows are
	after   string    // of the first of them, what was looked at last
	trouble bool      // it was logged
}

// How much is purged at a time, and when.
const (
	purgeLook  = 4096        // fields or rows looked at in a turn
	purgePause = time.Second // between two turns
	purgeRest  = time.Hour   // between two rounds, which look at everything once
)

func (p *purge) run() {
	wait := time.Duration(0)
	for p.s.life.Err() == nil {
		age := p.s.Settings().Purge
		if age > 0 {
			wait = max(wait, purgePause)
		}
		if !p.s.rest(wait, p.changed) {
			wait, p.regions, p.tables, p.after = 0, nil, nil, ""
			continue
		}
		ended, err := p.turn(p.s.life, age)
		if wait = purgePause; ended {
			wait = purgeRest
		}
		if err != nil && !p.trouble && p.s.life.Err() == nil {
			p.s.log.Warn().Err(err).Msg("fields that were removed long ago are purged later")
		}
		p.trouble = err != nil
	}
}

// turn looks at some more, and reports whether that was the last of a round.
func (p *purge) turn(ctx context.Context, age time.Duration) (ended bool, err error) {
	if len(p.regions)+len(p.tables) == 0 {
		if p.tables, err = p.s.backing.Tables(ctx); err != nil {
			return false, err
		}
		p.regions = p.s.names.all(p.s.store)
	}
	more := false
	switch {
	case len(p.regions) > 0:
		if more, err = p.memory(ctx, p.regions[0], age); err == nil && !more {
			p.regions, p.after = p.regions[1:], ""
		}
	case len(p.tables) > 0:
		more, err = p.database(ctx, p.tables[0], p.s.clock.Earliest(age))
		if u, bad := errors.AsType[*Unusable](err); bad { // it does not hold up the others
			p.s.identity.say(u, err)
			more, err = false, nil
		}
		if err == nil && !more {
			p.tables, p.after = p.tables[1:], ""
		}
	}
	return err == nil && len(p.regions)+len(p.tables) == 0, err
}

// memory purges entries of a region, if the database has them as they are.
func (p *purge) memory(ctx context.Context, r *region, age time.Duration) (more bool, err error) {
	v := p.s.store.View()
	page, err := v.List(kv.List{NS: r.ns, After: p.after, Limit: purgeLook})
	v.Close()
	if err != nil {
		return false, err
	}
	txn, next := &kv.Txn{}, ""
	for _, e := range page.Entries {
		next = e.Key
		if live(e) || !p.s.clock.Passed(e.Updated, age) || !p.s.dirty.landedEntry(r, e) {
			continue
		}
		txn.If = append(txn.If, kv.Compare{NS: r.ns, Key: e.Key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(e.Mod)})
		txn.Then = append(txn.Then, kv.Op{Kind: kv.OpDelete, NS: r.ns, Key: e.Key})
		if len(txn.Then) == purgeAtOnce {
			break // the rest is for the next turn
		}
	}
	if len(txn.Then) > 0 {
		res, err := p.s.commit(ctx, txn)
		if err != nil {
			return false, err
		}
		if res.Held { // else one of them was restored: it is the next round's turn
			p.fields.Add(uint64(len(txn.Then)))
		}
	}
	p.after = next
	return page.More || len(txn.Then) == purgeAtOnce, nil
}

// purgeAtOnce is how many fields one transaction purges.
const purgeAtOnce = kv.MaxOps / 4

// database purges rows of a table that were removed before a time of day.
func (p *purge) database(ctx context.Context, table string, before int64) (more bool, err error) {
	app, region, ok := field.ParseTable(table)
	if !ok {
		return false, nil
	}
	done, err := p.s.backing.Purge(ctx, Purge{App: app, Region: region, After: p.after,
		Removed: before, Below: p.s.clock.Now().UnixMicro(), Limit: purgeLook})
	p.rows.Add(uint64(done.Rows))
	if err == nil {
		p.after = done.Next
	}
	return done.More, err
}

// lapsed reports whether what was removed at that time cannot be restored any more.
func (s *Storage) lapsed(removed int64) bool {
	age := s.Settings().Purge
	return age > 0 && removed > 0 && s.clock.Passed(removed, age)
}
