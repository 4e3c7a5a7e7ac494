package watch

import (
	"slices"
	"sync"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/follow"
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// Sizes of one step of catching up.
const (
	serveBytes    = 64 << 10  // bytes of frames for a session before it must read
	readBackBytes = 256 << 10 // bytes of entries read from the log at a time
	maxTurns      = 128       // watches of a session that share what is read
	maxPages      = 64        // pages of a state read in one step
	// maxViews is how many of a session's watches get the state at the same time: each
	// holds a view, which costs the store memory.
	maxViews = 4
	// maxHolders is how many watches of the server may hold a whole state.
	maxHolders = 4
)

// fallBehind leaves the watch to the workers, from its current position.
func (w *watch) fallBehind() {
	w.behind = true
	w.of.behind = append(w.of.behind, w)
}

// catchUp makes a worker read what the session's watches miss, unless one already does or
// the peer has enough to read.
func (k *watches) catchUp() {
	s := k.s
	if k.busy || len(k.behind) == 0 || s.Ending() || s.Out.Owing() >= s.Limits().Pending/2 || s.Group().IsDraining() {
		return
	}
	job := k.nextCatchUp()
	if job == nil {
		return
	}
	k.busy = true
	k.f.catchUps.submit(func() {
		job.run()
		s.Loop.Post(job)
	})
}

// nextCatchUp picks the watch whose turn it is. If that one reads the log, all others that
// do join it.
func (k *watches) nextCatchUp() *catchUp {
	k.behind = slices.DeleteFunc(k.behind, func(w *watch) bool { return w.dead })
	views := 0
	for _, w := range k.behind {
		if w.cursor.Viewing() {
			views++
		}
	}
	job := &catchUp{of: k}
	for _, w := range k.behind {
		telling := w.cursor.Telling()
		if telling && (len(job.turns) > 0 || views >= maxViews && w.cursor.WantsView()) {
			continue
		}
		w.busy = true
		job.turns = append(job.turns, turn{watch: w})
		if job.telling = telling; telling || len(job.turns) == maxTurns {
			break
		}
	}
	if len(job.turns) == 0 {
		return nil
	}
	return job
}

// turn is one watch's part in a catchUp. The worker owns it and the watch's cursor.
type turn struct {
	watch  *watch   // the worker uses only what is set at open
	served bool     // others come first next time
	frames [][]byte // to send
}

// catchUp is one step of catching up for one session. A worker runs it; then, as mail, it
// sends the frames that the worker has made.
type catchUp struct {
	of      *watches
	telling bool // the only turn continues with the state
	turns   []turn
	budget  int // bytes of frames left to make
	err     error
}

// run is the worker's part.
func (c *catchUp) run() {
	c.budget = serveBytes
	if c.telling {
		c.err = c.giveState(&c.turns[0])
		return
	}
	c.err = c.readBack()
}

// giveState makes frames of the state until the budget is used up or the state is
// complete.
func (c *catchUp) giveState(t *turn) error {
	t.served = true
	cursor := t.watch.cursor
	for pages := 0; c.budget > 0 && pages < maxPages; pages++ {
		if err := cursor.Fetch(c.of.f.gate.Life()); err != nil {
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

// readBack reads the log once for all turns and serves them in order as far as the budget
// goes. The rest is read again next time.
func (c *catchUp) readBack() error {
	f := c.of.f
	cursors := make([]*follow.Cursor, len(c.turns))
	for i := range c.turns {
		cursors[i] = c.turns[i].watch.cursor
	}
	chunk, err := f.source.Read(f.gate.Life(), cursors)
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

// next makes the frame of the next notice. It returns false if none is available.
func (c *catchUp) next(t *turn) bool {
	f, w := c.of.f, t.watch
	n, ok := w.cursor.Next(f.kind.cuts[w.form])
	if !ok {
		return false
	}
	if w.reveal != nil {
		n.Events = f.kind.reveal(w.reveal, n.Events)
	}
	if w.path != "" && len(n.Events) > 0 {
		n.Events = documents.Narrow(n.Events, w.path, n.Kind == kv.State)
		if len(n.Events) == 0 && (n.Kind == kv.State || n.More || !w.halfway) {
			return true
		}
		w.halfway = n.More
	}
	if n.Kind == kv.Resync {
		n.Revision = f.source.Store.Revision()
	}
	frame := f.appendNotice(nil, n, w.form)
	t.frames = append(t.frames, frame)
	c.budget -= len(frame)
	return true
}

// Deliver is the loop's part: it sends what the worker has made. Watches that have caught
// up with the loop become live.
func (c *catchUp) Deliver(l *loop.Loop, _ int) (int, bool) {
	k, s := c.of, c.of.s
	k.busy = false
	sent := 1
	for i := range c.turns {
		sent += c.settle(&c.turns[i], l)
	}
	if s.Gone() {
		return sent, true
	}
	if c.err != nil && codes.Of(c.err) != codes.Closed {
		l.Group.Log.Error().Err(c.err).Stringer("peer", s.Peer).Msg("the state store cannot be read for a watch")
		s.Dismiss("the state store cannot be read for a watch")
		return sent, true
	}
	if c.err == nil {
		k.rotateBehind()
		k.catchUp()
	}
	return sent, true
}

// settle takes a watch back from the worker and sends its frames. The session may end in
// the meantime.
func (c *catchUp) settle(t *turn, l *loop.Loop) (sent int) {
	s, w := c.of.s, t.watch
	w.busy = false
	if w.cursor.Telling() && !c.telling {
		l.Group.Count.WatchResyncs.Add(1)
	}
	if w.dead {
		w.cursor.Close()
		return 0
	}
	for _, frame := range t.frames {
		if s.Ending() {
			return sent
		}
		l.Group.Count.WatchFrames.Add(1)
		protocol.SetKVWatch(frame, w.id)
		protocol.SetSeq(frame, l.Group.NextSeq())
		s.Out.SendFrame(frame)
		sent++
	}
	w.served = t.served
	if sent > 0 {
		w.marked = w.cursor.At().Rev
	}
	if !w.cursor.Telling() && w.cursor.At().Rev >= c.of.hub.told {
		w.behind = false
	}
	return sent
}

// rotateBehind puts watches that have had a turn after those that have not.
func (k *watches) rotateBehind() {
	var served, rest []*watch
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

// catchUps limits how many workers catch up at a time, so that other jobs do not wait for
// all watches of a server that has fallen behind.
type catchUps struct {
	work func(job func()) // set at open: makes a worker run the job

	mu sync.Mutex
	// guarded by mu
	waiting []func()
	running int
}

// catchUpWorkers is how many workers catch up at a time.
const catchUpWorkers = 2

func (c *catchUps) submit(job func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == catchUpWorkers {
		c.waiting = append(c.waiting, job)
		return
	}
	c.running++
	c.startLocked(job)
}

func (c *catchUps) startLocked(job func()) {
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
