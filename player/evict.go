package player

import (
	"context"
	"time"

	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/player/field"
)

// How much leaves memory at a time, while its owners have lines; and for how much of it the
// filter is written at a time, whose buckets are 8 KiB each.
const (
	evictOwners  = 1024
	evictEntries = 8192
	sweepOwners  = 1 << 16
	sweepEntries = 1 << 18
)

// idler is an owner whose fields may leave memory.
type idler struct {
	job  *job // in the owner's line
	hash uint64
	held []kv.Held
	size int64
}

// Owners leave between the idle time and that much more; and as soon as the memory is used up to
// highWater, until it is used up to lowWater. How much there is in use is looked at every lookTime,
// and again after vainTime if no one could leave.
const (
	perIdle   = 5 // periods in an idle time
	lookTime  = time.Second
	vainTime  = 5 * time.Second
	highWater = 0.8
	lowWater  = 0.7
	perLimit  = 20 // periods in which the memory is filled
)

// evicting lets owners leave memory that have not been used for a while, and those used longest ago
// when there is little memory left.
func (c *cold) evicting(forgetter kv.Forgetter, pool *memory.Pool) {
	w := &watchman{c: c, forgetter: forgetter, memory: pool, swept: c.s.clock.Steady()}
	for c.s.life.Err() == nil {
		idle := c.s.Settings().Idle
		if !c.s.rest(min(lookTime, idle), c.retime) {
			continue
		}
		c.s.pages.expire()
		if err := w.look(idle); err != nil && c.s.life.Err() == nil {
			c.s.log.Warn().Err(err).Msg("fields that are landed stay in memory for the time being")
		}
	}
}

// watchman looks from time to time who may leave.
type watchman struct {
	c         *cold
	forgetter kv.Forgetter
	memory    *memory.Pool // of the store
	swept     time.Time    // when those who are idle left last
	held      int64        // the memory in use when the period began
	vain      time.Time    // until then no one can leave
}

func (w *watchman) look(idle time.Duration) (err error) {
	c, now := w.c, w.c.s.clock.Steady()
	if now.Sub(w.swept) >= idle/perIdle {
		w.swept = now
		c.used.turn(now.UnixMilli())
		if _, err = c.evict(c.s.life, w.forgetter, idle); err != nil {
			return err
		}
	}
	held, limit := w.memory.Held(), w.memory.Limit()
	switch {
	case float64(held) >= highWater*float64(limit) && !now.Before(w.vain):
		gone, err := w.relieve()
		if gone == 0 {
			w.vain = now.Add(vainTime)
		}
		w.held = w.memory.Held()
		return err
	case held-w.held >= limit/perLimit: // who is used first shall leave first, however short the time is
		c.used.turn(now.UnixMilli())
		w.held = held
	}
	w.held = min(w.held, held)
	return nil
}

// relieve has owners leave until there is memory again, those used longest ago first.
func (w *watchman) relieve() (gone int, err error) {
	c := w.c
	c.used.turn(c.s.clock.Steady().UnixMilli())
	enough := func() bool { return float64(w.memory.Held()) <= lowWater*float64(w.memory.Limit()) }
	for _, end := range c.used.ends() {
		n, err := c.evictUnused(c.s.life, w.forgetter, end, enough)
		if gone += n; err != nil || enough() {
			return gone, err
		}
	}
	return gone, nil
}

// rest waits for so long, where 0 is for ever. It is false if what the caller goes by has
// changed meanwhile, or the Storage is closed.
func (s *Storage) rest(wait time.Duration, changed <-chan struct{}) bool {
	timer := s.clock.NewTimer(wait)
	defer timer.Stop()
	over := timer.C()
	if wait == 0 {
		over = nil
	}
	select {
	case <-over:
		return true
	case <-changed:
	case <-s.life.Done():
	}
	return false
}

// evict goes through all owners once, and has those leave memory that were not written for so
// long and have no mark of use. It returns how many fields have left.
func (c *cold) evict(ctx context.Context, forgetter kv.Forgetter, idle time.Duration) (gone int, err error) {
	return c.evictUnused(ctx, forgetter, c.s.clock.Steady().Add(-idle).UnixMilli(), func() bool { return false })
}

// evictUnused is evict for those that were not used since, in ms by the monotonic clock, until it is
// enough.
func (c *cold) evictUnused(ctx context.Context, forgetter kv.Forgetter, since int64, enough func() bool) (gone int, err error) {
	c.sweeping.Lock()
	defer c.sweeping.Unlock()
	sweep := &sweep{c: c, forgetter: forgetter, ctx: ctx, before: since, enough: enough}
	for _, r := range c.s.names.all(c.s.store) {
		l := kv.List{NS: r.ns, Limit: evictEntries}
		for more := !enough(); more; {
			v := c.s.store.View() // not for long: what an open view needs is not forgotten
			page, err := v.List(l)
			v.Close()
			if err != nil {
				return sweep.gone, err
			}
			for _, e := range page.Entries {
				if err := sweep.add(r, e); err != nil {
					return sweep.gone, err
				}
				l.After = e.Key
			}
			more = page.More
		}
		if err := sweep.end(); err != nil {
			return sweep.gone, err
		}
	}
	return sweep.gone, sweep.flush()
}

// sweep is one way through all owners.
type sweep struct {
	c         *cold
	forgetter kv.Forgetter
	ctx       context.Context
	before    int64 // what was written or used since stays, by the monotonic clock
	enough    func() bool
	gone      int

	now     idler // the owner that is being looked at
	stays   bool  // it does
	list    []idler
	entries int
}

// add looks at the next field.
func (s *sweep) add(r *region, e *kv.Entry) error {
	n := field.OwnerLen(e.Key)
	if n < 0 {
		return nil
	}
	if s.now.job == nil || s.now.job.region != r || s.now.job.owner != e.Key[:n] {
		if err := s.end(); err != nil {
			return err
		}
		s.now = idler{job: &job{s: s.c.s, region: r, owner: e.Key[:n]}, hash: hashOf(r.ns, e.Key[:n])}
		s.stays = s.c.used.has(s.now.hash, s.before)
	}
	if s.stays = s.stays || s.c.s.clock.When(e.Updated) > s.before || !s.c.s.dirty.landedEntry(r, e); !s.stays {
		s.now.held = append(s.now.held, kv.Held{NS: r.ns, Key: e.Key, Mod: e.Mod})
		s.now.size += int64(e.Size())
	}
	return nil
}

// end ends an owner. One that could not be loaded again as a whole stays in memory.
func (s *sweep) end() error {
	if s.now.job != nil && !s.stays && s.now.size <= s.c.most {
		s.list = append(s.list, s.now)
		s.entries += len(s.now.held)
	}
	s.now = idler{}
	if len(s.list) >= sweepOwners || s.entries >= sweepEntries {
		return s.flush()
	}
	return nil
}

// flush lets the owners leave that are still idle.
func (s *sweep) flush() error {
	list := s.list
	s.list, s.entries = nil, 0
	if len(list) == 0 {
		return nil
	}
	leaving := new(prints)
	for i := range list {
		leaving.add(list[i].hash)
	}
	if err := s.c.addToFilter(s.ctx, leaving); err != nil {
		return err
	}
	for len(list) > 0 && !s.enough() {
		n, entries := 0, 0
		for n < min(len(list), evictOwners) && entries < evictEntries {
			entries += len(list[n].held)
			n++
		}
		if err := s.leave(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// leave lets those of some owners leave that are still idle.
func (s *sweep) leave(list []idler) error {
	var held []kv.Held
	for i := range list {
		one := &list[i]
		if !s.c.s.lines.claim(one.job) {
			continue
		}
		defer s.c.s.lines.leave(one.job)
		if !s.c.used.has(one.hash, s.before) && !s.c.loads.busy(one.job.id()) {
			s.c.cache.forget(one.job.id())
			held = append(held, one.held...)
		}
	}
	n, err := s.forget(held)
	s.gone += n
	s.c.evicted.Add(uint64(n))
	return err
}

func (s *sweep) forget(held []kv.Held) (int, error) {
	if len(held) == 0 {
		return 0, nil
	}
	type answer struct {
		n   int
		err error
	}
	got := make(chan answer, 1)
	if err := s.forgetter.Forget(held, func(n int, err error) { got <- answer{n, err} }); err != nil {
		return 0, err
	}
	a := <-got // the owners' lines stay until it is known
	return a.n, a.err
}

// landedEntry reports whether the database has a field as it is in memory.
func (d *ledger) landedEntry(r *region, e *kv.Entry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return e.Mod <= d.home(r, e.Key).cursor && d.notes[noteKey(r.table(), e.Key)] == nil
}

// claim makes a line for a job that has nothing to write; false if the owner has one.
func (all *lines) claim(j *job) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byOwner[j.id()] != nil {
		return false
	}
	all.byOwner[j.id()] = &line{}
	all.open.Add(1)
	return true
}
