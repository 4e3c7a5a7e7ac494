package player

import (
	"context"
	"errors"
	"maps"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/player/field"
)

// scanPause is how long a database is left alone that did not answer.
const scanPause = 5 * time.Second

// scanning finds the tables that others have filled, and puts their owners into the filter.
// Until that is done each of their owners may have fields.
func (c *cold) scanning() {
	told := false
	for {
		err := c.scan(c.s.life)
		if c.s.life.Err() != nil {
			return
		}
		if u, bad := errors.AsType[*Unusable](err); bad {
			c.identity.say(u, err)
		} else if err != nil && !told {
			c.s.log.Warn().Err(err).Msg("the database does not tell which owners it has; it is asked for each until it does")
		}
		told = err != nil
		timer := c.s.clock.NewTimer(scanPause)
		wait := timer.C()
		if err == nil {
			wait = nil
		}
		select {
		case <-c.s.life.Done():
		case <-wait:
		case <-c.wake:
		}
		timer.Stop()
	}
}

func (c *cold) scan(ctx context.Context) error {
	tables, err := c.backing.Tables(ctx)
	if err != nil {
		return err
	}
	var unusable error // one of the tables, which does not hold up the others
	for table, said := range c.learn(tables) {
		err := c.scanTable(ctx, table)
		if errors.As(err, new(*Unusable)) {
			unusable = err
			continue
		}
		if err == nil {
			err = c.scanned(ctx, table, said)
		}
		if err != nil {
			return err
		}
	}
	return unusable
}

// learn notes which tables there are, and returns those whose owners are to be looked for.
func (c *cold) learn(tables []string) map[string]uint64 {
	c.knowing.Lock()
	defer c.knowing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, table := range tables {
		if _, _, ok := field.ParseTable(table); !ok || c.known[table] {
			continue
		}
		if _, told := c.unknown[table]; told {
			continue
		}
		if c.knows(table) {
			c.known[table] = true
		} else {
			c.unknown[table] = c.said
		}
	}
	c.listed = true
	c.doubt.Store(len(c.unknown) > 0)
	return maps.Clone(c.unknown)
}

// How many owners are read, and are put into the filter, at a time: each time most of its
// buckets are written, as a whole.
const (
	scanOwners   = 10_000
	filterAtOnce = 1_000_000
)

// scanTable puts the owners of a table into the filter: also those all of whose fields are
// removed, which can be restored.
func (c *cold) scanTable(ctx context.Context, table string) error {
	app, region, _ := field.ParseTable(table)
	ns := field.Prefix + table
	var found prints
	var last []byte
	for n, more := 0, true; more; {
		before := n
		err := c.backing.Owners(ctx, OwnerQuery{App: app, Region: region, After: string(last), Limit: scanOwners, Removed: true}, func(owner []byte) {
			found.add(hashOf(ns, owner))
			last = append(last[:0], owner...)
			n++
		})
		if err != nil {
			return err
		}
		if more = n-before == scanOwners; more && n < filterAtOnce {
			continue
		}
		if err := c.addToFilter(ctx, &found); err != nil {
			return err
		}
		n = 0
	}
	return nil
}

// scanned makes a table known, unless others have filled it again meanwhile.
func (c *cold) scanned(ctx context.Context, table string, said uint64) error {
	c.knowing.Lock()
	defer c.knowing.Unlock()
	c.mu.Lock()
	again := c.unknown[table] != said
	c.mu.Unlock()
	if again {
		return nil
	}
	if _, err := c.s.commit(ctx, &kv.Txn{Then: []kv.Op{c.knownOp(table)}}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unknown, table)
	c.known[table] = true
	c.doubt.Store(len(c.unknown) > 0)
	return nil
}

// Rescan says that others have filled a table of the database. Once it returns, its rows are
// found: what was read of the table before is forgotten, and until its owners have been looked
// for, which begins now, each of them may have fields there.
func (s *Storage) Rescan(ctx context.Context, table string) error {
	switch _, _, ok := field.ParseTable(table); {
	case s.cold == nil:
		return errNoBacking()
	case !ok:
		return codes.Errorf(codes.BadKey, "%.80q is not the name of a table of fields", table)
	}
	c := s.cold
	c.knowing.Lock()
	defer c.knowing.Unlock()
	c.mu.Lock()
	delete(c.known, table)
	c.said++
	c.unknown[table] = c.said
	c.doubt.Store(true)
	c.mu.Unlock()
	_, err := s.commit(ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: field.Landing, Key: knownPrefix + table}}})
	c.loads.forget(field.Prefix + table)
	clock.Nudge(c.wake)
	return err
}
