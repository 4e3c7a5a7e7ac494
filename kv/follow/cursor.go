package follow

import (
	"slices"

	"confcenter/codes"
	"confcenter/kv"
)

// Request says what a cursor follows.
type Request struct {
	Filter kv.Filter
	// From asks for the changes after that revision, so that a follower that knows
	// everything up to it continues without a gap. 0 is from now on, unless Past is
	// set.
	From kv.Revision
	// Past makes From count even if it is 0, where the store was empty.
	Past bool
	// State asks for the current state first: pieces of it, then Synced, then the
	// changes since. It excludes From and Past.
	State bool
	// Spare leaves events out for a follower that fell behind.
	Spare Spare
}

// Spare says which events a cursor leaves out when it reads back. What a feed
// brought is always passed on in full.
type Spare uint8

// What is left out.
const (
	// Nothing passes on every event.
	Nothing Spare = iota
	// Joined passes on only the last event of each key in what is read at a time, with
	// the entry before the first one.
	Joined
	// Overwritten also leaves out what had been overwritten when the cursor began to
	// read back. What was overwritten since then counts as new, or a key that is
	// written all the time would never be passed on. Events keep their own Prev.
	Overwritten
)

// Mark is a position in the sequence of changes, for one filter.
type Mark struct {
	Rev kv.Revision // everything up to it has been passed on or does not match
	// Part, if not 0, is a later revision of which only the first Told matching events
	// have been passed on.
	Part kv.Revision
	Told int
}

// Cut limits the size of a notice: it ends before the Cost of its events exceeds
// Max, after a whole revision if it holds one. A single event may cost more.
type Cut struct {
	Max  int // 0: no limit
	Cost func(*kv.Event) int
	// Alone puts no two revisions into one notice.
	Alone bool
}

// Cursor is the position of one follower. The zero value passes on only what it
// gets by Hand.
type Cursor struct {
	// set at open
	source *Source
	filter kv.Filter
	spare  Spare
	unwant func() // of a Selective store; nil: it has been called

	// the owner's
	at     Mark
	midway bool        // counted by source as in the middle of a revision
	target kv.Revision // with Overwritten: the newest revision when it began to read back
	state  *state      // set while the follower gets the state

	// at hand, except for a state
	parts       []Part
	part, event int         // the next one to pass on
	last        kv.Revision // where the cursor is after all of it
	scratch     []kv.Event
}

// Open makes a cursor and returns the newest revision. The caller must already
// receive changes from now on: those up to that revision are not offered again, and
// those after it must be. It returns codes.FutureRevision if From has not been
// reached, else codes.BadRequest or what Filter.Check finds.
func (s *Source) Open(request Request) (*Cursor, kv.Revision, error) {
	if err := request.Filter.Check(); err != nil {
		return nil, 0, err
	}
	if request.From < 0 || (request.State && (request.From != 0 || request.Past)) {
		return nil, 0, codes.Errorf(codes.BadRequest, "from is %d: it is a revision, and excludes state", request.From)
	}
	var unwant func()
	if selective, ok := s.Store.(Selective); ok {
		unwant = selective.Want(request.Filter)
	}
	newest := s.Store.Revision()
	if request.From > newest {
		if unwant != nil {
			unwant()
		}
		return nil, 0, codes.Errorf(codes.FutureRevision, "from %d is in the future: the newest revision is %d", request.From, newest)
	}
	c := &Cursor{source: s, filter: request.Filter, spare: request.Spare, unwant: unwant, at: Mark{Rev: newest}}
	switch {
	case request.State:
		c.state = &state{}
	case request.Past || request.From > 0:
		c.at.Rev = request.From
	}
	return c, newest, nil
}

// Filter returns the filter that the cursor was opened with.
func (c *Cursor) Filter() kv.Filter { return c.filter }

// At returns how far the follower has got.
func (c *Cursor) At() Mark { return c.at }

// Skip moves ahead to m: what lies before it was passed on in another way or does
// not match.
func (c *Cursor) Skip(m Mark) {
	if m.Rev > c.at.Rev || m.Rev == c.at.Rev && m.Told > c.at.Told {
		c.move(m)
	}
}

// move is the one place where the position changes once a cursor is open.
func (c *Cursor) move(to Mark) {
	c.at = to
	if midway := to.Part != 0; midway != c.midway && c.source != nil {
		c.midway = midway
		c.source.stays(midway)
	}
}

// Offer gives the cursor what is new to it in the chunk, in place of what was at
// hand. It returns false if there is a gap before the chunk, or while the follower
// gets the state: then only Fetch can continue.
func (c *Cursor) Offer(chunk Chunk) bool {
	if c.state != nil || c.at.Rev < chunk.After {
		return false
	}
	c.Forget()
	for i := range chunk.Changes {
		change := &chunk.Changes[i]
		if change.Revision <= c.at.Rev {
			continue
		}
		p := Part{Rev: change.Revision, Events: c.filter.Select(change.Events)}
		if c.at.Part == change.Revision {
			p.skipped = min(c.at.Told, len(p.Events))
			p.Events = p.Events[p.skipped:]
		}
		if len(p.Events) > 0 {
			c.parts = append(c.parts, p)
		}
	}
	if chunk.old && c.spare != Nothing {
		c.join()
	}
	c.last = chunk.Last
	c.settle()
	return true
}

// Hand moves the cursor before parts and gives them to it, in place of what was at
// hand. It copies them.
func (c *Cursor) Hand(parts []Part) {
	c.Forget()
	c.move(Mark{Rev: parts[0].Rev - 1})
	c.parts = append(c.parts, parts...)
}

// Forget drops what is at hand, which is read back later. A state continues where
// it is.
func (c *Cursor) Forget() {
	if c.source != nil { // there are many of these, mostly with nothing at hand
		c.parts, c.scratch = nil, nil
	}
	clear(c.parts)
	c.parts, c.part, c.event, c.last = c.parts[:0], 0, 0, 0
}

// Drop drops the changes that are at hand, if there are any.
func (c *Cursor) Drop() bool {
	if c.state != nil || c.part == len(c.parts) {
		return false
	}
	c.Forget()
	return true
}

// Telling reports whether the follower is getting the state.
func (c *Cursor) Telling() bool { return c.state != nil }

// Close releases what the cursor holds of the store. The cursor passes on nothing
// any more.
func (c *Cursor) Close() {
	c.endState()
	c.move(Mark{Rev: c.at.Rev})
	if c.unwant != nil {
		c.unwant()
		c.unwant = nil
	}
}

// endState releases the state and what is at hand.
func (c *Cursor) endState() {
	if c.state != nil {
		c.source.release(c.state)
		c.state = nil
	}
	c.Forget()
}

// Next returns the next notice of what is at hand, or false if there is none. Its
// events are valid until the next call.
func (c *Cursor) Next(cut Cut) (kv.Notice, bool) {
	if c.state != nil {
		return c.nextState(cut)
	}
	if c.part == len(c.parts) {
		return kv.Notice{}, false
	}
	events, more := c.gather(cut)
	n := kv.Notice{Kind: kv.Changed, Revision: c.at.Rev, Events: events, More: more}
	if more {
		n.Revision = c.at.Part
	}
	c.settle()
	return n, true
}

// settle moves the cursor past what was at hand, once all of it is passed on.
func (c *Cursor) settle() {
	if c.part == len(c.parts) {
		c.Skip(Mark{Rev: c.last})
		c.Forget()
	}
}

// gather advances by one notice. It ends after the last whole revision that fits,
// or in the middle of the first.
func (c *Cursor) gather(cut Cut) (events []kv.Event, more bool) {
	first, from, size := c.part, c.event, 0
	for ; c.part < len(c.parts) && !(cut.Alone && c.part > first); c.part, c.event = c.part+1, 0 {
		p := &c.parts[c.part]
		for i := c.event; i < len(p.Events) && cut.Max > 0; i++ {
			size += cut.Cost(&p.Events[i])
			switch {
			case size <= cut.Max || c.part == first && i == from:
			case c.part > first:
				return c.between(first, from), false
			default:
				c.event = i
				c.move(Mark{Rev: p.Rev - 1, Part: p.Rev, Told: p.place(i)})
				return p.Events[from:i], true
			}
		}
		c.move(Mark{Rev: p.Rev})
	}
	return c.between(first, from), false
}

// between returns the events of the parts from first up to the cursor, without
// those of the first part before from.
func (c *Cursor) between(first, from int) []kv.Event {
	events := c.parts[first].Events[from:]
	if c.part == first+1 {
		return events
	}
	c.scratch = append(c.scratch[:0], events...)
	for _, p := range c.parts[first+1 : c.part] {
		c.scratch = append(c.scratch, p.Events...)
	}
	return c.scratch
}

// Part is the matching events of one revision, or the last of them.
type Part struct {
	Rev    kv.Revision
	Events []kv.Event

	next int // end of Events in their change, as long as they are a slice of it
	// skipped is how many matching events of the revision precede Events. If some in
	// between are missing, order has the original place of each.
	skipped int
	order   []int
}

// Add adds event i of a change. Matching events are adjacent, since a change is
// sorted by key, so nothing is copied; but do not rely on it.
func (p *Part) Add(change []kv.Event, i int) {
	if n := len(p.Events); n == 0 || (p.next == i && n <= i) {
		p.Events = change[i-n : i+1 : i+1]
		p.next = i + 1
		return
	}
	p.Events = append(p.Events, change[i])
	p.next = -1
}

// place is how many matching events of the revision have been passed on after the
// first n of Events.
func (p *Part) place(n int) int {
	if p.order != nil {
		return p.order[n-1] + 1
	}
	return p.skipped + n
}

// join leaves out what the follower may be spared. The remaining events keep their
// original place, since the rest may be read another time, when more can be left
// out.
func (c *Cursor) join() {
	type id struct{ ns, key string }
	left := make(map[id]int)       // events to come
	prev := make(map[id]*kv.Entry) // before the first
	for _, p := range c.parts {
		for i := range p.Events {
			e := &p.Events[i]
			key := id{e.Entry.NS, e.Entry.Key}
			if left[key]++; left[key] == 1 {
				prev[key] = e.Prev
			}
		}
	}
	for n := range c.parts {
		p := &c.parts[n]
		all := p.Events
		p.Events = nil
		for i, e := range all {
			key := id{e.Entry.NS, e.Entry.Key}
			left[key]--
			if left[key] > 0 {
				continue
			}
			if c.spare == Overwritten {
				now, _ := c.source.Store.Get([]byte(e.Entry.NS), []byte(e.Entry.Key))
				if now != nil && now.Mod > e.Entry.Mod && now.Mod <= c.target {
					continue
				}
				if now != nil && now.Mod == e.Entry.Mod {
					e.Entry = now // what was read is a copy: those who fell behind share the store's
				}
			}
			if c.spare == Joined {
				e.Prev = prev[key]
			}
			p.Events = append(p.Events, e)
			p.order = append(p.order, p.skipped+i)
		}
	}
	c.parts = slices.DeleteFunc(c.parts, func(p Part) bool { return len(p.Events) == 0 })
}
