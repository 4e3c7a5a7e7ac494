package server

import (
	"slices"
	"sync"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/protocol"
)

// Sizes of one step of catching up.
const (
	kvServe    = 64 << 10  // bytes of frames a session is given before it has to read
	kvReadBack = 256 << 10 // bytes of entries read from the log at a time
	kvTurns    = 128       // watches of a session that share what is read
	kvPages    = 64        // pages of a state looked at in one step
	// kvViews is how many of a session's watches are given the state at a time: each
	// holds a view, which costs the store memory.
	kvViews = 4
	// kvHolders is how many watches of the server may hold a whole state.
	kvHolders = 4
)

// fallBehind leaves the watch to the workers, from where it stands.
func (w *kvWatch) fallBehind() {
	w.behind = true
	w.of.behind = append(w.of.behind, w)
}

// catchUp has a worker read back what the session's watches miss, unless one is at it
// or the peer has enough to read.
func (k *kvWatches) catchUp() {
	s := k.s
	if k.busy || len(k.behind) == 0 || s.ending() || s.out.owing() >= s.limits().Pending/2 || s.group().isDraining() {
		return
	}
	job := k.nextCatchUp()
	if job == nil {
		return
	}
	k.busy = true
	k.f.catchUps.submit(func() {
		job.run()
		s.loop.post(job)
	})
}

// nextCatchUp takes the watch whose turn it is, and with one that reads the log all
// others that do.
func (k *kvWatches) nextCatchUp() *kvCatchUp {
	k.behind = slices.DeleteFunc(k.behind, func(w *kvWatch) bool { return w.dead })
	views := 0
	for _, w := range k.behind {
		if w.cursor.Viewing() {
			views++
		}
	}
	job := &kvCatchUp{of: k}
	for _, w := range k.behind {
		telling := w.cursor.Telling()
		if telling && (len(job.turns) > 0 || views >= kvViews && w.cursor.WantsView()) {
			continue
		}
		w.busy = true
		job.turns = append(job.turns, kvTurn{watch: w})
		if job.telling = telling; telling || len(job.turns) == kvTurns {
			break
		}
	}
	if len(job.turns) == 0 {
		return nil
	}
	return job
}

// kvTurn is one watch's part in a catching up. The worker has it, and the watch's
// cursor, to itself.
type kvTurn struct {
	watch  *kvWatch // of which a worker only reads what is set at open
	served bool     // its turn is over: others are first next time
	frames [][]byte // to send
}

// kvCatchUp is one step of catching up for one session: a worker runs it, and as
// mail it sends what the worker made.
type kvCatchUp struct {
	of      *kvWatches
	telling bool // the one turn goes on with the state
	turns   []kvTurn
	budget  int // bytes of frames left to make
	err     error
}

// run is the worker's part.
func (c *kvCatchUp) run() {
	c.budget = kvServe
	if c.telling {
		c.err = c.giveState(&c.turns[0])
		return
	}
	c.err = c.readBack()
}

// giveState makes frames of the state until the budget is used up or all is given.
func (c *kvCatchUp) giveState(t *kvTurn) error {
	t.served = true
	cursor := t.watch.cursor
	for pages := 0; c.budget > 0 && pages < kvPages; pages++ {
		if err := cursor.Fetch(c.of.f.life); err != nil {
			return err
		}
		for cursor.Telling() && c.next(t) {
		}
		if !cursor.Telling() {
			return nil
		}
	}
	return nil
}

// readBack reads the log once for all turns and serves them in order as far as the
// budget goes. What is left over is read again.
func (c *kvCatchUp) readBack() error {
	f := c.of.f
	cursors := make([]*follow.Cursor, len(c.turns))
	for i := range c.turns {
		cursors[i] = c.turns[i].watch.cursor
	}
	chunk, err := f.source.Read(f.life, cursors)
	if err != nil {
		return err
	}
	for i := range c.turns {
		if c.budget <= 0 {
			break
		}
		t := &c.turns[i]
		if cursors[i].Telling() {
			continue
		}
		t.served = true
		cursors[i].Offer(chunk)
		for c.budget > 0 && c.next(t) {
		}
		cursors[i].Forget()
	}
	return nil
}

// next makes the frame of the next notice; false if there is none at hand.
func (c *kvCatchUp) next(t *kvTurn) bool {
	n, ok := t.watch.cursor.Next(kvCuts[t.watch.form])
	if !ok {
		return false
	}
	if n.Kind == kv.Resync {
		n.Revision = c.of.f.source.Store.Revision()
	}
	frame := appendNotice(nil, n, t.watch.form)
	t.frames = append(t.frames, frame)
	c.budget -= len(frame)
	return true
}

// deliver is the loop's part: it sends what the worker made, and who has come as
// far as the loop is live from now on.
func (c *kvCatchUp) deliver(l *loop, _ int) (int, bool) {
	k, s := c.of, c.of.s
	k.busy = false
	sent := 1
	for i := range c.turns {
		sent += c.settle(&c.turns[i], l)
	}
	if s.gone() {
		return sent, true
	}
	if c.err != nil && codes.Of(c.err) != codes.Closed {
		l.srv.log.Error().Err(c.err).Stringer("peer", s.peer).Msg("the state store cannot be read back for a watch")
		s.dismiss("the state store cannot be read back for a watch")
		return sent, true
	}
	if c.err == nil {
		k.rotateBehind()
		k.catchUp()
	}
	return sent, true
}

// settle takes a watch back from the worker, and sends what that made for it. The
// session may be lost meanwhile.
func (c *kvCatchUp) settle(t *kvTurn, l *loop) (sent int) {
	s, w := c.of.s, t.watch
	w.busy = false
	if w.cursor.Telling() && !c.telling {
		l.srv.count.WatchResyncs.Add(1)
	}
	if w.dead {
		w.cursor.Close()
		return 0
	}
	for _, frame := range t.frames {
		if s.ending() {
			return sent
		}
		l.srv.count.WatchFrames.Add(1)
		protocol.SetKVWatch(frame, w.id)
		protocol.SetSeq(frame, l.srv.nextSeq())
		s.out.sendFrame(frame)
		sent++
	}
	w.served = t.served
	if !w.cursor.Telling() && w.cursor.At().Rev >= c.of.hub.told {
		w.behind = false
	}
	return sent
}

// rotateBehind puts who has had a turn behind those who have not.
func (k *kvWatches) rotateBehind() {
	var served, rest []*kvWatch
	for _, w := range k.behind {
		switch {
		case w.dead || !w.behind:
		case w.served:
			w.served = false
			served = append(served, w)
		default:
			rest = append(rest, w)
		}
	}
	k.behind = append(rest, served...)
}

// kvCatchUps lets only some workers catch up at a time, so that those who wait for
// something else are not behind all the watches of a server that has fallen behind.
type kvCatchUps struct {
	work func(job func()) // set at open: has a worker do it

	mu sync.Mutex
	// guarded by mu
	waiting []func()
	running int
}

// kvCatchUpWorkers is how many jobs of catching up the workers are given at a time.
const kvCatchUpWorkers = 2

func (c *kvCatchUps) submit(job func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == kvCatchUpWorkers {
		c.waiting = append(c.waiting, job)
		return
	}
	c.running++
	c.startLocked(job)
}

func (c *kvCatchUps) startLocked(job func()) {
	c.work(func() {
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
		c.startLocked(next)
	})
}
