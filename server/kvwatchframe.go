package server

import (
	"confcenter/kv"
	"confcenter/protocol"
)

// kvFrameBytes is about how large a frame of events becomes before the next one
// is begun. One event alone may be longer.
const kvFrameBytes = 48 << 10

// kvEventCost is about what an event takes in a frame beside key and value.
const kvEventCost = 160

// kvPart is the matching events of one revision, or the last of them.
type kvPart struct {
	rev    kv.Revision
	events []kv.Event
	next   int // where events end in the change they are a part of, as long as they are a slice of it
	// skipped is how many matching events of the revision precede events. If some
	// are missing in between, order says for each the place it had among all.
	skipped int
	order   []int
}

// add adds the event i of the change. Those of a topic stand together, since a
// change is in the order of its keys, so nothing is copied; but do not rely on it.
func (p *kvPart) add(events []kv.Event, i int) {
	if n := len(p.events); p.next == i && n <= i {
		p.events = events[i-n : i+1 : i+1]
		p.next = i + 1
		return
	}
	p.events = append(p.events, events[i])
	p.next = -1
}

// place is how many matching events of the revision have been told after the
// first n of events.
func (p *kvPart) place(n int) int {
	if p.order != nil {
		return p.order[n-1] + 1
	}
	return p.skipped + n
}

// kvFrame is one encoded frame, for any watch in the same form.
type kvFrame struct {
	bytes       []byte
	from, to    kvMark      // how far a watch has been told before and after it
	first, last kv.Revision // of its events
	events      int
}

// kvCutter cuts what has happened into frames: several revisions in one as long
// as they fit, long ones continued in the next frame.
type kvCutter struct {
	parts []kvPart
	form  kvForm
	at    kvMark // told so far

	part, event int // the next one to tell
	scratch     []kv.Event
}

func kvCost(e *kv.Event, form kvForm) int {
	n := kvEventCost + len(e.Entry.NS) + kvEntryCost(e.Entry, form)
	if form&kvPrev != 0 && e.Prev != nil {
		n += kvEventCost + kvEntryCost(e.Prev, form)
	}
	return n
}

func kvEntryCost(e *kv.Entry, form kvForm) int {
	n := len(e.Value.Data)
	if e.Value.Type == kv.Bytes && form&kvRaw == 0 {
		n += n / 3 // base64
	}
	return n + len(e.Key)
}

// next appends the next frame's bytes to dst; false if there is none.
func (c *kvCutter) next(dst []byte) (kvFrame, bool) {
	if c.part == len(c.parts) {
		return kvFrame{}, false
	}
	f := kvFrame{from: c.at, first: c.parts[c.part].rev}
	events, more := c.gather()
	f.to, f.events = c.at, len(events)
	ev := protocol.KVEvents{Revision: c.at.rev, Events: events, More: more}
	if more {
		ev.Revision = c.at.part
	}
	f.last = ev.Revision
	f.bytes = appendKVEvents(dst, ev, c.form)
	return f, true
}

// gather moves on by one frame.
func (c *kvCutter) gather() (events []kv.Event, more bool) {
	events = c.scratch[:0]
	size, whole, begun := 0, 0, c.part // events of whole revisions; the part they end before
	for c.part < len(c.parts) {
		p := &c.parts[c.part]
		for ; c.event < len(p.events); c.event++ {
			n := kvCost(&p.events[c.event], c.form)
			if len(events) > 0 && size+n > kvFrameBytes {
				return c.cut(events, whole, begun)
			}
			size += n
			events = append(events, p.events[c.event])
		}
		c.part, c.event = c.part+1, 0
		whole, begun = len(events), c.part
		c.at = kvMark{rev: p.rev}
	}
	c.scratch = events
	return events, false
}

// cut ends a frame that is full: behind the last whole revision if there is one,
// else in the middle of one.
func (c *kvCutter) cut(events []kv.Event, whole, begun int) ([]kv.Event, bool) {
	c.scratch = events
	if whole > 0 {
		c.part, c.event = begun, 0
		return events[:whole], false
	}
	p := &c.parts[c.part]
	c.at = kvMark{rev: p.rev - 1, part: p.rev, told: p.place(c.event)}
	return events, true
}

// appendKVEvents appends a whole frame for a watch to be named later. It never
// is longer than a peer takes.
func appendKVEvents(dst []byte, ev protocol.KVEvents, form kvForm) []byte {
	start := len(dst)
	dst = encodeKVEvents(dst, ev, form)
	if len(dst)-start <= protocol.HeaderSize+protocol.MaxBody || len(ev.Events) != 1 {
		return dst
	}
	// One event so long that it does not fit: what was before is what can be
	// spared, as it is where the store does not have it any more.
	alone := ev
	alone.Events = []kv.Event{{Kind: ev.Events[0].Kind, Entry: ev.Events[0].Entry}}
	return encodeKVEvents(dst[:start], alone, form)
}

func encodeKVEvents(dst []byte, ev protocol.KVEvents, form kvForm) []byte {
	start := len(dst)
	dst = protocol.BeginFrame(dst, protocol.KVEvent, 0)
	dst = protocol.AppendKVEvents(dst, ev, form&kvPrev != 0, form&kvRaw != 0)
	return protocol.FinishFrame(dst, start)
}

// kvHead is how many bytes of a frame are copied for each watch, so that the rest
// can be shared: they hold the header and the watch's number.
const kvHead = 64

// sendEvents sends w one frame that others are sent too. It reports whether the
// bytes are still referred to: then they must not change any more.
func (w *kvWatch) sendEvents(frame []byte) (kept bool) {
	s := w.session
	s.srv.count.WatchFrames.Add(1)
	protocol.SetSeq(frame, s.srv.nextSeq())
	protocol.SetKVWatch(frame, w.id)
	if len(frame) < wholeFrame {
		s.out.sendOwn(frame)
		return false
	}
	s.out.enqueue(piece{b: append([]byte(nil), frame[:kvHead]...)})
	s.out.enqueue(piece{b: frame[kvHead:], shared: true})
	s.out.pump()
	return true
}
