package watch

import (
	"slices"

	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// Follow starts posting every batch of the state store to the loops.
func (f *Handlers) Follow() { f.unfollow = f.source.Store.Follow(f.publish) }

// Unfollow ends that and releases what is still held of the store. Loops and workers must
// have ended.
func (f *Handlers) Unfollow() {
	if f.unfollow != nil {
		f.unfollow()
	}
	f.source.Close()
}

// publish posts a batch of the state store to the loops. The store calls it before it
// completes the writers, so a writer that watches gets the event before the reply.
func (f *Handlers) publish(b *kv.Batch) {
	weight := int64(0)
	for _, d := range f.gate.Locals() {
		hub := f.hubOf(d)
		if hub.watched.Load() == 0 {
			continue
		}
		if weight == 0 {
			for i := range b.Changes {
				weight += int64(follow.Weight(&b.Changes[i]))
			}
		}
		hub.post(f, b, weight)
	}
}

// post posts the batch, or joins it to the last one if too much already waits for the loop.
func (h *hub) post(f *Handlers, b *kv.Batch, weight int64) {
	group := h.loop.Group
	more := h.backlog.Put(b, weight)
	if more {
		group.Memory.Add(weight)
		h.loop.Post(&fanOut{f: f, hub: h, weight: weight})
	}
	if !more || b.Reset {
		group.Count.WatchBacklog.Add(1)
	}
}

// The unit of a turn's budget is a send. A fan-out counts in fractions of it.
const (
	unit    = 16  // fractions in a send
	encoded = 128 // bytes, of which the encoding is one fraction
)

// fanOut sends one batch to the watches of one loop. First it finds the topics of the
// batch; then it encodes frames for each topic and sends them to the topic's watches, as
// far as a turn's budget goes.
type fanOut struct {
	// set at open
	f      *Handlers
	hub    *hub
	weight int64

	batch         *kv.Batch   // nil: not taken from the backlog yet
	told          kv.Revision // the position of live watches before it
	walk          loop.Walk   // of a batch that has not all
	change, event int         // next event to match
	form          form
	watches       []*watch // of the current topic and form; nil: not begun
	frame         frame    // being sent; without bytes: none
	next          int      // of watches
	spent         int      // in this turn
}

func (f *fanOut) Deliver(l *loop.Loop, budget int) (int, bool) {
	f.spent = 0
	if f.batch == nil {
		f.batch, _ = f.hub.backlog.Take()
		// Before anything is sent: a watch that catches up in between must not become live
		// before it has all of this batch.
		f.told, f.hub.told = f.hub.told, max(f.hub.told, f.batch.Last())
	}
	var done bool
	if f.batch.Reset {
		done = f.miss(l, budget)
	} else {
		done = f.send(budget * unit)
	}
	if done {
		f.hub.loop.Group.Memory.Give(f.weight)
	}
	return f.spent/unit + 1, done
}

// send sends the events. It returns false if the budget ended first.
func (f *fanOut) send(budget int) bool {
	done := f.match(f.hub, budget)
	for done {
		t := f.hub.topics.Matched()
		if t == nil {
			break
		}
		if done = f.tellTopic(t, budget); done {
			f.hub.topics.Taken()
		}
	}
	return done
}

// match finds the topics. It returns false if the budget ended first.
func (f *fanOut) match(h *hub, budget int) bool {
	for ; f.change < len(f.batch.Changes); f.change++ {
		c := &f.batch.Changes[f.change]
		for ; f.event < len(c.Events); f.event++ {
			if f.spent >= budget {
				return false
			}
			f.spent += h.topics.Match(c.Revision, c.Events, f.event)
		}
		f.event = 0
	}
	return true
}

// tellTopic continues with the watches of one topic. It returns false if the budget ended
// first.
func (f *fanOut) tellTopic(t *topic, budget int) bool {
	for ; f.form < lists; f.form++ {
		if f.watches == nil {
			if len(t.Of[f.form]) == 0 {
				continue
			}
			f.watches = slices.Clone(t.Of[f.form])
			f.hub.cursor.Hand(t.Parts)
		}
		if f.form == apart {
			if !f.tellApart(t, budget) {
				return false
			}
			f.watches = nil
			continue
		}
		for f.frame.bytes != nil || f.encode() {
			for ; f.next < len(f.watches); f.next++ {
				if f.spent >= budget {
					return false
				}
				f.tell(f.watches[f.next])
			}
			f.frame.bytes, f.next = nil, 0
		}
		f.watches = nil
	}
	f.form = 0
	return true
}

// tellApart leaves the watches that share no frames to the workers, who find out what the topic's
// events mean to each. It returns false if the budget ended first.
func (f *fanOut) tellApart(t *topic, budget int) bool {
	for ; f.next < len(f.watches); f.next++ {
		if f.spent >= budget {
			return false
		}
		f.spent += unit
		w := f.watches[f.next]
		if w.dead || w.behind || w.of.s.Ending() {
			continue
		}
		w.cursor.Skip(follow.Mark{Rev: t.Parts[0].Rev - 1})
		w.fallBehind()
		w.of.catchUp()
	}
	f.next = 0
	return true
}

func (f *fanOut) encode() bool {
	cursor := &f.hub.cursor
	frame := frame{from: cursor.At()}
	n, ok := cursor.Next(f.f.kind.cuts[f.form])
	if !ok {
		return false
	}
	frame.to, frame.first, frame.last = cursor.At(), n.Events[0].Entry.Mod, n.Revision
	frame.bytes = f.f.appendNotice(f.hub.frame[:0], n, f.form)
	f.frame = frame
	f.spent += unit + len(frame.bytes)/encoded
	f.hub.frame = frame.bytes
	if len(frame.bytes) >= loop.WholeFrame {
		f.hub.frame = nil // slow peers' output may still refer to it
	}
	return true
}

// tell sends the frame to w if w is live, does not have it yet and has room for output.
func (f *fanOut) tell(w *watch) {
	f.spent++
	s := w.of.s
	defer loop.Guard(&s.Conn)
	if w.dead || w.behind || s.Ending() {
		return
	}
	switch at := w.cursor.At(); {
	case at.Rev >= f.frame.last:
	case at.Rev >= f.frame.first:
		w.fallBehind() // its position is in the middle of the frame
		w.of.catchUp()
	case s.Out.Owing() >= s.Limits().Pending:
		s.Group().Count.WatchesBehind.Add(1)
		w.cursor.Skip(f.frame.from)
		w.fallBehind()
	default:
		f.spent += unit
		w.cursor.Skip(f.frame.to)
		w.marked = f.frame.last
		w.sendEvents(f.frame.bytes)
	}
}

// miss makes all live watches of the loop fall behind, because too much waited for it or the store itself
// has missed something: they read it from the log. It returns false if the budget ended first.
func (f *fanOut) miss(l *loop.Loop, budget int) bool {
	for ; f.spent < budget*unit; f.spent += unit {
		c := f.walk.Next(l)
		if c == nil {
			break
		}
		k, _ := gate.SessionOf(c).Part(f.f.kind.family).(*watches)
		if k == nil {
			continue
		}
		for _, w := range k.byID {
			if !w.behind {
				f.spent += unit
				w.cursor.Skip(follow.Mark{Rev: f.told})
				w.fallBehind()
			}
		}
		k.catchUp()
	}
	return f.walk.Done()
}
