package watch

import (
	"slices"

	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/server/gate"
	"confcenter/server/loop"
)

// Follow has every batch of the state store posted to the loops from now on.
func (f *Handlers) Follow() { f.unfollow = f.source.Store.Follow(f.publish) }

// Unfollow ends that, and gives up what was still held of the store. No loop and no
// worker may run any more.
func (f *Handlers) Unfollow() {
	if f.unfollow != nil {
		f.unfollow()
	}
	f.source.Close()
}

// publish is the state store's way into the loops: it only posts. The store
// calls it before it completes the writers, so a writer that watches is told first
// and answered then.
func (f *Handlers) publish(b *kv.Batch) {
	weight := int64(0)
	for _, d := range f.gate.Desks() {
		hub := hubOf(d)
		if hub.watched.Load() == 0 {
			continue
		}
		if weight == 0 {
			for i := range b.Changes {
				weight += int64(follow.Weight(&b.Changes[i]))
			}
		}
		hub.post(b, weight)
	}
}

// post posts the batch, unless too much waits for the loop already, or the store
// itself has missed something: then its watches have to read back what they missed,
// and nothing waits at all.
func (h *hub) post(b *kv.Batch, weight int64) {
	group := h.loop.Group
	if waiting := h.waiting.Add(weight); b.Reset || waiting > weight && waiting > group.Limits.Backlog {
		h.waiting.Add(-weight)
		group.Count.WatchBacklog.Add(1)
		h.missedTo.Store(int64(b.Last()))
		if !h.missing.Swap(true) {
			h.loop.Post(&missed{hub: h})
		}
		return
	}
	h.loop.Post(&fanOut{hub: h, batch: b, weight: weight})
}

// What a fan-out does is counted in fractions of the unit of a turn's budget, a
// send.
const (
	unit     = 16  // of a send
	byteCost = 128 // encoding so many bytes is one
)

// fanOut tells one loop's watches of one batch: first it finds the topics the
// batch is about, then it encodes and sends to each topic's watches frame by
// frame, as far as the budget of a turn goes.
type fanOut struct {
	hub    *hub
	batch  *kv.Batch
	weight int64

	begun         bool
	change, event int // next event to match
	topic         int // of the hub's work
	form          form
	watches       []*watch // of topic and form; nil: not begun
	frame         frame    // being sent; no bytes: none
	next          int      // of watches
	spent         int      // in this turn
}

func (f *fanOut) Deliver(_ *loop.Loop, budget int) (int, bool) {
	f.spent = 0
	budget *= unit
	if !f.begun {
		f.begun = true
		// Before anything is told: a watch that catches up in between must not take
		// itself for live before it has all of this batch.
		f.hub.told = max(f.hub.told, f.batch.Last())
	}
	done := f.match(f.hub, budget)
	for done && f.topic < len(f.hub.work) {
		if done = f.tellTopic(budget); !done {
			break
		}
		t := f.hub.work[f.topic]
		clear(t.parts)
		t.parts = t.parts[:0]
		f.hub.work[f.topic] = nil
		f.topic++
	}
	if done {
		f.hub.work = f.hub.work[:0]
		f.hub.waiting.Add(-f.weight)
	}
	return f.spent/unit + 1, done
}

// match finds the topics; false if the budget ended first.
func (f *fanOut) match(h *hub, budget int) bool {
	for ; f.change < len(f.batch.Changes); f.change++ {
		c := &f.batch.Changes[f.change]
		for ; f.event < len(c.Events); f.event++ {
			if f.spent >= budget {
				return false
			}
			f.spent += h.match(c.Revision, c.Events, f.event)
		}
		f.event = 0
	}
	return true
}

// tellTopic goes on with the watches of one topic; false if the budget ended first.
func (f *fanOut) tellTopic(budget int) bool {
	t := f.hub.work[f.topic]
	for ; f.form < forms; f.form++ {
		if f.watches == nil {
			if len(t.watches[f.form]) == 0 {
				continue
			}
			f.watches = slices.Clone(t.watches[f.form])
			f.hub.cursor.Hand(t.parts)
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

func (f *fanOut) encode() bool {
	cursor := &f.hub.cursor
	frame := frame{from: cursor.At()}
	n, ok := cursor.Next(cuts[f.form])
	if !ok {
		return false
	}
	frame.to, frame.first, frame.last = cursor.At(), n.Events[0].Entry.Mod, n.Revision
	frame.bytes = appendNotice(f.hub.frame[:0], n, f.form)
	f.frame = frame
	f.spent += unit + len(frame.bytes)/byteCost
	f.hub.frame = frame.bytes
	if len(frame.bytes) >= loop.WholeFrame {
		f.hub.frame = nil // it may be kept for peers that read slowly
	}
	return true
}

// tell sends the frame to w if that is live, has not been told of it and may be
// sent more.
func (f *fanOut) tell(w *watch) {
	f.spent++
	s := w.of.s
	if w.dead || w.behind || s.Ending() {
		return
	}
	switch at := w.cursor.At(); {
	case at.Rev >= f.frame.last:
	case at.Rev >= f.frame.first:
		w.fallBehind() // it begins in the middle
		w.of.catchUp()
	case s.Out.Owing() >= s.Limits().Pending:
		s.Group().Count.WatchesBehind.Add(1)
		w.cursor.Skip(f.frame.from)
		w.fallBehind()
	default:
		f.spent += unit
		w.cursor.Skip(f.frame.to)
		w.sendEvents(f.frame.bytes)
	}
}

// missed puts all live watches of a loop behind, after batches that were too much
// for it.
type missed struct {
	hub   *hub
	told  kv.Revision // what live watches had been told
	begun bool
	walk  loop.Walk
}

func (m *missed) Deliver(l *loop.Loop, budget int) (int, bool) {
	if !m.begun {
		m.hub.missing.Store(false)
		m.begun, m.told = true, m.hub.told
		m.hub.told = max(m.hub.told, kv.Revision(m.hub.missedTo.Load()))
	}
	used := 0
	for ; used < budget; used++ {
		c := m.walk.Next(l)
		if c == nil {
			break
		}
		k, _ := gate.SessionOf(c).Part(gate.OfWatch).(*watches)
		if k == nil {
			continue
		}
		for _, w := range k.byID {
			if !w.behind {
				used++
				w.cursor.Skip(follow.Mark{Rev: m.told})
				w.fallBehind()
			}
		}
		k.catchUp()
	}
	return used + 1, m.walk.Done()
}
