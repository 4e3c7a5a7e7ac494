package player

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/player/field"
)

// Limits of loading: queries at a time, owners that wait for one, and who waits for them.
const (
	maxLoaders   = 16
	maxFlights   = 4096
	maxLoadAsked = 16_384
)

// loads reads owners from the database: one query at a time for each owner, and for all who
// ask for it.
type loads struct {
	c *cold // set at open

	mu      sync.Mutex
	flights map[string]*flight // guarded by mu
	queue   []*flight          // guarded by mu
	loaders int                // goroutines; guarded by mu
	asked   int                // who waits; guarded by mu
	closed  bool               // guarded by mu
	forgot  int                // times that queries under way became outdated; guarded by mu
	hung    error              // the database hangs, and is asked only now and then; guarded by mu
	probe   time.Time          // when it may be asked next; guarded by mu

	queries                          atomic.Uint64
	metLoaders, metFlights, metAsked uint64 // how often one of the limits was in the way; guarded by mu
}

// A query that failed after such a time says that the database hangs. Until one succeeds, one
// that asks may begin a query in each such pause, and all others fail at once: they would wait
// for one time-out after another.
const (
	hangs      = 5 * time.Second
	probePause = time.Second
)

// flight is one owner that is being loaded, guarded by the mutex of loads.
type flight struct {
	id      string
	owner   field.Owner
	now     round // what the query under way is about
	next    round // what the next one will be about
	running bool
}

type round struct {
	forgot int // what it was when the query began
	names  map[string]bool
	all    bool
	tell   []func(*rowSet, error)
}

func (r *round) covers(names []string, all bool) bool {
	if r.all || all {
		return r.all
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !r.names[name] })
}

func (r *round) ask(names []string, all bool, tell func(*rowSet, error)) {
	if r.names == nil {
		r.names = map[string]bool{}
	}
	for _, name := range names {
		r.names[name] = true
	}
	r.all = r.all || all
	r.tell = append(r.tell, tell)
}

// ask has rows of an owner read. tell is called once, by another goroutine, unless ask fails.
func (l *loads) ask(id string, o field.Owner, names []string, all bool, tell func(*rowSet, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flights[id]
	switch {
	case l.closed:
		return codes.Errorf(codes.Closed, "player storage is closed")
	case l.hung != nil && !l.mayProbeLocked():
		return l.hung
	case l.asked >= maxLoadAsked:
		l.metAsked++
		return codes.Errorf(codes.Busy, "%d requests wait for owners to be loaded from the database, which is the limit; try again", maxLoadAsked)
	case f == nil && len(l.flights) >= maxFlights:
		l.metFlights++
		return codes.Errorf(codes.Busy, "%d owners are being loaded from the database, which is the limit; try again", maxFlights)
	case f == nil:
		f = &flight{id: id, owner: o}
		l.flights[id] = f
		l.queue = append(l.queue, f)
		if l.loaders < maxLoaders {
			l.loaders++
			l.c.s.running.Go(l.run)
		} else {
			l.metLoaders++
		}
	}
	l.asked++
	if f.running && f.now.forgot == l.forgot && f.now.covers(names, all) {
		f.now.tell = append(f.now.tell, tell)
	} else {
		f.next.ask(names, all, tell)
	}
	return nil
}

func (l *loads) mayProbeLocked() bool {
	now := l.c.s.clock.Now()
	if now.Before(l.probe) {
		return false
	}
	l.probe = now.Add(probePause)
	return true
}

// forget forgets what was loaded of a namespace. What queries under way find is neither kept
// nor told to those who ask from now on.
func (l *loads) forget(ns string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgot++
	l.c.cache.forgetAll(ns)
}

// busy reports whether an owner is being loaded.
func (l *loads) busy(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flights[id] != nil
}

// run loads owners until none waits.
func (l *loads) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		f := l.queue[0]
		l.queue = l.queue[1:]
		f.now, f.next, f.running = f.next, round{}, true
		f.now.forgot = l.forgot
		names, all := slices.Sorted(maps.Keys(f.now.names)), f.now.all
		l.mu.Unlock()
		began := l.c.s.clock.Now()
		found, err := l.query(f.owner, names, all)
		l.mu.Lock()
		gone := l.judgeLocked(err, l.c.s.clock.Now().Sub(began))
		if err == nil && f.now.forgot == l.forgot {
			l.c.cache.add(f.id, found)
		}
		tell := f.now.tell
		l.asked -= len(tell)
		f.running, f.now = false, round{}
		if l.hung != nil {
			gone = append(gone, l.cancelLocked(f)...)
		} else if len(f.next.tell) > 0 {
			l.queue = append(l.queue, f)
		} else {
			delete(l.flights, f.id)
		}
		hung := l.hung
		l.mu.Unlock()
		for _, fn := range tell {
			fn(found, err)
		}
		for _, fn := range gone {
			fn(nil, hung)
		}
		l.mu.Lock()
	}
	l.loaders--
}

// judgeLocked looks at how a query went. If the database hangs it returns those who wait for
// their turn, and shall not.
func (l *loads) judgeLocked(err error, took time.Duration) (gone []func(*rowSet, error)) {
	switch {
	case err == nil:
		l.hung = nil
	case errors.Is(err, codes.Unreachable) && took >= hangs:
		if l.hung == nil {
			l.c.s.log.Warn().Dur("after", took).Msg("the database hangs: requests for fields that have left memory fail at once until it answers")
		}
		l.hung = codes.Errorf(codes.Unreachable, "the database hangs: the last query failed after %v; it is asked again once a second", took.Round(time.Second))
		l.probe = l.c.s.clock.Now().Add(probePause)
		for _, f := range l.queue {
			gone = append(gone, l.cancelLocked(f)...)
		}
		l.queue = nil
	}
	return gone
}

// cancelLocked ends a flight whose query is not under way.
func (l *loads) cancelLocked(f *flight) []func(*rowSet, error) {
	delete(l.flights, f.id)
	l.asked -= len(f.next.tell)
	return f.next.tell
}

// query asks the database. If it has a row that is newer than anything here, all versions are
// made greater.
func (l *loads) query(o field.Owner, names []string, all bool) (*rowSet, error) {
	ctx := l.c.s.life
	l.queries.Add(1)
	var rows []field.Row
	var err error
	if all {
		rows, err = l.c.backing.All(ctx, o)
	} else {
		rows, err = l.c.backing.Fields(ctx, o, names)
	}
	switch {
	case ctx.Err() != nil:
		return nil, codes.Errorf(codes.Closed, "player storage was closed while owner %q was being loaded", o.Key())
	case errors.Is(err, codes.TooLarge):
		return nil, err
	}
	if err := l.c.asked(ctx, err); err != nil {
		return nil, codes.Errorf(codes.Unreachable, "owner %q cannot be read: %w", o.Key(), err)
	}
	found, newest := &rowSet{all: all}, int64(0)
	for _, name := range names {
		found.add(name, nil)
	}
	for i := range rows {
		found.add(rows[i].Name, &rows[i])
		if rows[i].Version < maxBase { // a greater one cannot be outdone: what is landed over it is refused
			newest = max(newest, rows[i].Version)
		}
	}
	return found, l.c.s.outdo(ctx, newest)
}

// outdo makes the versions to come greater than one that the database has.
func (s *Storage) outdo(ctx context.Context, version int64) error {
	if version == 0 {
		return nil
	}
	if err := s.base.wait(ctx); err != nil {
		return err
	}
	if version <= s.Base()+int64(s.store.Revision()) {
		return nil
	}
	return s.Newer(ctx, version)
}

// close refuses what is asked from now on; what is under way ends with the Storage's life.
func (l *loads) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
