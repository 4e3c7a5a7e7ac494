package storage

import (
	"context"
	"time"

	"confcenter/kv"
	"confcenter/storage/field"
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
		if err != nil && !told {
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
	unknown := c.learn(tables)
	for _, table := range unknown {
		if err := c.scanTable(ctx, table); err != nil {
			return err
		}
		c.mu.Lock()
		delete(c.unknown, table)
		c.known[table] = true
		c.doubt.Store(len(c.unknown) > 0)
		c.mu.Unlock()
	}
	return nil
}

// learn notes which tables there are, and returns those that are not known.
func (c *cold) learn(tables []string) (unknown []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, table := range tables {
		if _, _, ok := field.ParseTable(table); !ok || c.known[table] {
			continue
		}
		if e, _ := c.s.store.Get([]byte(Landing), []byte(knownPrefix+table)); e != nil {
			c.known[table] = true
			continue
		}
		c.unknown[table] = true
		unknown = append(unknown, table)
	}
	c.listed = true
	c.doubt.Store(len(c.unknown) > 0)
	return unknown
}

func (c *cold) scanTable(ctx context.Context, table string) error {
	app, region, _ := field.ParseTable(table)
	for after := ""; ; {
		list, err := c.backing.Owners(ctx, app, region, "", after, maxOwners)
		if err != nil {
			return err
		}
		hashes := make([]uint64, len(list))
		for i, owner := range list {
			hashes[i] = hashOf(Prefix+table, owner)
			after = owner
		}
		if err := c.addToFilter(ctx, hashes); err != nil {
			return err
		}
		if len(list) < maxOwners {
			break
		}
	}
	_, err := c.s.commit(ctx, &kv.Txn{Then: []kv.Op{knownOp(table)}})
	return err
}

// Rescan has the owners of a table looked for in the database, after others have filled it.
func (s *Storage) Rescan(ctx context.Context, table string) error {
	if s.cold == nil {
		return errNoBacking()
	}
	c := s.cold
	c.mu.Lock()
	delete(c.known, table)
	c.unknown[table] = true
	c.doubt.Store(true)
	c.mu.Unlock()
	_, err := s.commit(ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: Landing, Key: knownPrefix + table}}})
	signal(c.wake)
	return err
}

// signal is for a channel with room for one.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
