package server

import (
	"slices"
	"sync"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// Sizes of one step of catching up.
const (
	kvServe    = 64 << 10  // bytes of frames a session is given before it has to read
	kvReadBack = 256 << 10 // bytes of entries read from the log at a time
	// kvReadMerge is kvReadBack for watches that want only the last event of each
	// key: the more is read, the less is left.
	kvReadMerge = 1 << 20
	kvTurns     = 128 // watches of a session that share what is read
)

// fallBehind leaves the watch to the workers, from mark on.
func (w *kvWatch) fallBehind(mark kvMark) {
	w.at = mark
	w.behind = true
	w.session.kv.behind = append(w.session.kv.behind, w)
}

// watchesDrained is called when the peer has read on.
func (s *session) watchesDrained() { s.catchUpWatches() }

// catchUpWatches has a worker read back what the session's watches miss, unless
// one is at it or the peer has enough to read.
func (s *session) catchUpWatches() {
	if s.kv == nil || s.kv.busy || len(s.kv.behind) == 0 || s.state.over() ||
		s.out.owing() >= s.srv.cfg.Limits.Pending/2 || s.srv.draining.Load() {
		return
	}
	job := s.nextCatchUp()
	if job == nil {
		return
	}
	s.kv.busy = true
	s.srv.feed.catchUps.submit(s.srv, func() {
		job.run()
		s.loop.post(job)
	})
}

// nextCatchUp takes the watch whose turn it is, and with one that reads the log all
// others that do.
func (s *session) nextCatchUp() *kvCatchUp {
	s.kv.behind = slices.DeleteFunc(s.kv.behind, func(w *kvWatch) bool { return w.dead })
	job := &kvCatchUp{session: s, store: s.srv.state, views: &s.srv.feed.views}
	for _, w := range s.kv.behind {
		if w.state != nil && (len(job.turns) > 0 || w.state.view == nil && s.kv.views >= kvViews) {
			continue
		}
		w.busy = true
		if w.state != nil && w.state.view == nil {
			s.kv.views++ // it is going to have one
		}
		job.turns = append(job.turns, kvTurn{watch: w, at: w.at, state: w.state})
		if w.state != nil || len(job.turns) == kvTurns {
			break
		}
	}
	if len(job.turns) == 0 {
		return nil
	}
	return job
}

// kvTurn is one watch's part in a catching up. The worker has it to itself.
type kvTurn struct {
	watch  *kvWatch // of which a worker only reads what is set at open
	at     kvMark
	state  *kvState
	served bool     // its turn is over: others are first next time
	frames [][]byte // to send
}

// kvCatchUp is one step of catching up for one session: a worker runs it, and as
// mail it sends what the worker made.
type kvCatchUp struct {
	session *session
	store   kv.Store
	views   *kvOpenViews
	turns   []kvTurn
	budget  int // bytes of frames left to make
	err     error
	cutter  kvCutter // for its scratch
}

// run is the worker's part.
func (c *kvCatchUp) run() {
	c.budget = kvServe
	if t := &c.turns[0]; t.state != nil {
		t.served = true
		c.err = c.giveState(t)
		return
	}
	c.err = c.readBack()
}

// readBack reads the log once for all turns, from where the one furthest behind
// is, and serves them in order as far as the budget goes.
func (c *kvCatchUp) readBack() error {
	after, size := c.turns[0].at.rev, kvReadBack
	merge := true
	for i := range c.turns {
		after = min(after, c.turns[i].at.rev)
		merge = merge && c.turns[i].watch.coalesce
	}
	if merge {
		size = kvReadMerge
	}
	newest := c.store.Revision() // before reading: if there is nothing, there is nothing up to it
	changes, err := c.store.Changes(c.session.srv.life, after, size)
	if codes.Of(err) == codes.Compacted {
		for i := range c.turns {
			if t := &c.turns[i]; t.at.rev == after {
				t.state = &kvState{resync: true}
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	for i := range c.turns {
		if c.budget <= 0 {
			break
		}
		c.turns[i].served = true
		c.serve(&c.turns[i], changes, newest)
	}
	return nil
}

// serve makes the turn's frames of what changed. newest is where it stands if
// nothing did.
func (c *kvCatchUp) serve(t *kvTurn, changes []kv.Change, newest kv.Revision) {
	last := newest
	if len(changes) > 0 {
		last = changes[len(changes)-1].Revision
	}
	c.cutter = kvCutter{parts: t.parts(changes), form: t.watch.form, at: t.at, scratch: c.cutter.scratch}
	for c.budget > 0 {
		frame, ok := c.cutter.next(nil)
		if !ok {
			t.at = kvMark{rev: max(t.at.rev, last)}
			return
		}
		t.at = frame.to
		c.add(t, frame.bytes)
	}
	if c.cutter.part == len(c.cutter.parts) {
		t.at = kvMark{rev: max(t.at.rev, last)}
	}
}

func (c *kvCatchUp) add(t *kvTurn, frame []byte) {
	t.frames = append(t.frames, frame)
	c.budget -= len(frame)
}

// parts is what of changes the turn's watch has not been told.
func (t *kvTurn) parts(changes []kv.Change) []kvPart {
	var parts []kvPart
	for i := range changes {
		change := &changes[i]
		if change.Revision <= t.at.rev {
			continue
		}
		events := t.watch.filter.Select(change.Events)
		p := kvPart{rev: change.Revision, events: events}
		if t.at.part == change.Revision {
			p.skipped = min(t.at.told, len(events))
			p.events = events[p.skipped:]
		}
		if len(p.events) > 0 {
			parts = append(parts, p)
		}
	}
	if t.watch.coalesce {
		parts = kvCoalesce(parts)
	}
	return parts
}

// kvCoalesce leaves of each key the last event, with the entry before the first
// one. What is left says where it was, since the rest may be told another time,
// when there is more to leave out.
func kvCoalesce(parts []kvPart) []kvPart {
	type id struct{ ns, key string }
	left := make(map[id]int)       // events to come
	prev := make(map[id]*kv.Entry) // before the first
	for _, p := range parts {
		for i := range p.events {
			e := &p.events[i]
			key := id{e.Entry.NS, e.Entry.Key}
			if left[key]++; left[key] == 1 {
				prev[key] = e.Prev
			}
		}
	}
	var kept []kvPart
	for _, p := range parts {
		k := kvPart{rev: p.rev, skipped: p.skipped}
		for i, e := range p.events {
			key := id{e.Entry.NS, e.Entry.Key}
			if left[key]--; left[key] == 0 {
				e.Prev = prev[key]
				k.events = append(k.events, e)
				k.order = append(k.order, p.skipped+i)
			}
		}
		if len(k.events) > 0 {
			kept = append(kept, k)
		}
	}
	return kept
}

// deliver is the loop's part: it sends what the worker made, and who has come as
// far as the loop is live from now on.
func (c *kvCatchUp) deliver(l *loop, _ int) (int, bool) {
	s := c.session
	s.kv.busy = false
	sent := 1
	for i := range c.turns {
		sent += c.turns[i].settle(s, l)
	}
	if s.state == dead {
		return sent, true
	}
	if c.err != nil && codes.Of(c.err) != codes.Closed {
		s.srv.log.Error().Err(c.err).Stringer("peer", s.peer).Msg("the state store cannot be read back for a watch")
		s.dismiss("the state store cannot be read back for a watch")
		return sent, true
	}
	if c.err == nil {
		s.rotateBehind()
		s.catchUpWatches()
	}
	return sent, true
}

// settle takes over what the worker did for one watch, and sends it. The session
// may be lost meanwhile.
func (t *kvTurn) settle(s *session, l *loop) (sent int) {
	w := t.watch
	w.busy = false
	if w.state != nil && (t.state == nil || t.state.view == nil) {
		s.kv.views-- // which it was given one of
	}
	if t.state != nil && t.state.resync && w.state == nil {
		l.srv.count.WatchResyncs.Add(1)
	}
	w.state, w.at = t.state, t.at
	if w.dead {
		w.closeState()
		return 0
	}
	for _, frame := range t.frames {
		if s.state.over() {
			return sent
		}
		l.srv.count.WatchFrames.Add(1)
		protocol.SetKVWatch(frame, w.id)
		protocol.SetSeq(frame, l.srv.nextSeq())
		s.out.sendFrame(frame)
		sent++
	}
	w.served = t.served
	if w.state == nil && w.at.rev >= l.kv.told {
		w.behind = false
	}
	return sent
}

// rotateBehind puts who has had a turn behind those who have not.
func (s *session) rotateBehind() {
	var served, rest []*kvWatch
	for _, w := range s.kv.behind {
		switch {
		case w.dead || !w.behind:
		case w.served:
			w.served = false
			served = append(served, w)
		default:
			rest = append(rest, w)
		}
	}
	s.kv.behind = append(rest, served...)
}

// kvCatchUps lets only some workers catch up at a time, so that those who wait for
// something else are not behind all the watches of a server that has fallen behind.
type kvCatchUps struct {
	mu sync.Mutex
	// guarded by mu
	waiting []func()
	running int
}

// kvCatchUpWorkers is how many jobs of catching up the workers are given at a time.
const kvCatchUpWorkers = 2

func (c *kvCatchUps) submit(s *Server, job func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == kvCatchUpWorkers {
		c.waiting = append(c.waiting, job)
		return
	}
	c.running++
	c.startLocked(s, job)
}

func (c *kvCatchUps) startLocked(s *Server, job func()) {
	s.work(func() {
		job()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.waiting) == 0 {
			c.running--
			return
		}
		next := c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		c.startLocked(s, next)
	})
}
