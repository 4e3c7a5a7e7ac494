package loop

import (
	"slices"
	"time"

	"confcenter/protocol"
)

// Replies are a connection's replies, in the order of its requests. A reply that is ready
// when its turn comes goes through the loop's buffer; behind a write that is not answered
// yet it waits in a slot.
type Replies struct {
	c     *Conn  // set at open
	slots []slot // oldest first; those before next have been sent
	next  int
	left  uint64 // number of all slots before next, ever

	besides besides // requests that are answered beside each other
}

// owed is the number of replies that have a slot and have not been sent.
func (r *Replies) owed() int { return len(r.slots) - r.next }

// place appends a slot. A connection without slots takes room for them from the loop.
func (r *Replies) place(s slot) {
	switch {
	case r.slots == nil:
		r.slots = r.c.Loop.buffer.rooms.take()
	case len(r.slots) == cap(r.slots) && r.next > len(r.slots)/2:
		n := copy(r.slots, r.slots[r.next:])
		clear(r.slots[n:])
		r.slots, r.next = r.slots[:n], 0
	}
	if before := cap(r.slots); before == len(r.slots) {
		r.slots = slices.Grow(r.slots, 1)
		r.count((cap(r.slots) - before) * slotSize)
	}
	r.slots = append(r.slots, s)
	r.countFrame(cap(s.frame))
}

// vacate returns the room when all slots are empty.
func (r *Replies) vacate() {
	if !r.c.Loop.buffer.rooms.keep(r.slots) {
		r.count(-cap(r.slots) * slotSize)
	}
	r.slots, r.next = nil, 0
}

// discard forgets all replies.
func (r *Replies) discard() {
	for i := range r.slots {
		r.countFrame(-cap(r.slots[i].frame))
	}
	clear(r.slots)
	r.vacate()
}

// count counts memory. It is not called for each request.
func (r *Replies) count(bytes int) { r.c.Loop.Group.Memory.Add(int64(bytes)) }

// countFrame counts a frame that waits, which few replies have.
func (r *Replies) countFrame(bytes int) {
	if bytes != 0 {
		r.count(bytes)
	}
}

// slotRooms is room for slots that no connection of the loop needs now.
type slotRooms struct{ list [][]slot }

func (s *slotRooms) take() []slot {
	last := len(s.list) - 1
	if last < 0 {
		return nil
	}
	room := s.list[last]
	s.list = s.list[:last]
	return room
}

// keep returns false if the room is not worth keeping. What is kept stays counted.
func (s *slotRooms) keep(room []slot) bool {
	const rooms, longest = 64, 64
	if len(s.list) >= rooms || cap(room) == 0 || cap(room) > longest {
		return false
	}
	s.list = append(s.list, room[:0])
	return true
}

// slotSize is the memory of a slot in bytes.
const slotSize = 56

// slot keeps the place of a reply whose request is still in progress.
type slot struct {
	// write, if set, makes the reply's frame when its turn comes, so that replies which
	// leave together are encoded into one buffer; frame follows it.
	write FrameMaker
	frame []byte
	done  bool
	cmd   protocol.Command // of the request; 0: the reply was ready when it came
	began time.Duration    // when handling began, see Group.elapsed
}

// FrameMaker appends a whole frame to dst.
type FrameMaker interface {
	AppendFrame(dst []byte) []byte
}

// Begin starts a reply in the loop's output buffer. The caller appends the body and calls
// End. In between nothing else may use the buffer.
func (r *Replies) Begin(cmd protocol.Command, seq uint16) []byte {
	b := &r.c.Loop.buffer
	b.frame = len(b.out)
	return protocol.BeginFrame(b.out, cmd, seq)
}

// End finishes the reply that Begin started. Replies to requests that came together leave
// together.
func (r *Replies) End(out []byte) {
	b := &r.c.Loop.buffer
	protocol.FinishFrame(out, b.frame)
	if r.owed() > 0 {
		// An earlier write has not been answered yet: wait behind it.
		r.place(slot{frame: slices.Clone(out[b.frame:]), done: true})
		b.out = out[:b.frame]
		return
	}
	r.c.Loop.meter.replies++
	b.out = out
	if len(out) >= WholeFrame {
		r.FlushReplies()
	}
}

// give sends a frame that was made elsewhere, behind the replies that are owed.
func (r *Replies) give(frame []byte) {
	if r.owed() > 0 {
		r.place(slot{frame: frame, done: true})
		return
	}
	r.c.Loop.Group.Count.Replies.Add(1)
	r.c.Out.SendFrame(frame)
}

// Reply answers with a ready body.
func (r *Replies) Reply(h protocol.Header, body []byte) {
	r.End(append(r.Begin(h.Command.Reply(), h.Seq), body...))
}

// Result answers with code and desc.
func (r *Replies) Result(h protocol.Header, code int, desc string) {
	r.End(protocol.AppendResult(r.Begin(h.Command.Reply(), h.Seq), code, desc))
}

// FlushReplies sends the loop's output buffer, which always belongs to the connection being
// served.
func (r *Replies) FlushReplies() {
	b := &r.c.Loop.buffer
	if len(b.out) == 0 {
		return
	}
	r.c.Out.SendOwn(b.out)
	b.out = b.out[:0]
	if cap(b.out) > 4*WholeFrame {
		b.out = nil
	}
}

// Reserve keeps the place of a reply to a write that comes later. Fill takes its number.
func (r *Replies) Reserve(cmd protocol.Command) (id uint64) {
	id = r.reserve(cmd)
	r.c.besides.write = id + 1
	return id
}

func (r *Replies) reserve(cmd protocol.Command) (id uint64) {
	r.FlushReplies()
	r.place(slot{cmd: cmd, began: r.c.Loop.meter.moment()})
	return r.left + uint64(r.owed()) - 1
}

// slot returns the slot that Reserve gave that number; nil once its reply has been sent or
// the connection has ended.
func (r *Replies) slot(id uint64) *slot {
	if r.c.state == dead || id < r.left {
		return nil
	}
	return &r.slots[r.next+int(id-r.left)]
}

// Fill completes a reserved reply. It leaves at the end of the loop's turn together with
// the connection's other completed replies, or just before anything else that the
// connection sends.
func (r *Replies) Fill(id uint64, frame []byte) { r.complete(id, nil, frame) }

// FillWith is Fill with a frame that is made when its turn comes.
func (r *Replies) FillWith(id uint64, w FrameMaker) { r.complete(id, w, nil) }

func (r *Replies) complete(id uint64, w FrameMaker, frame []byte) {
	place := r.slot(id)
	if place == nil {
		return
	}
	place.write, place.frame, place.done = w, frame, true
	r.countFrame(cap(frame))
	if r.slots[r.next].done && r.c.on.join(onFilled) {
		r.c.Loop.filled = append(r.c.Loop.filled, r.c)
	}
}

// Follow sends frame after the reply with that number: directly after it, if the reply has
// not left yet.
func (r *Replies) Follow(id uint64, frame []byte) {
	if place := r.slot(id); place != nil {
		before := cap(place.frame)
		place.frame = append(place.frame, frame...)
		r.countFrame(cap(place.frame) - before)
		return
	}
	r.c.Out.SendFrame(frame)
}

// first is called before anything is sent: replies completed earlier leave earlier.
func (r *Replies) first() {
	if r.c.on&onFilled != 0 {
		r.c.on.leave(onFilled)
		r.giveReplies()
		r.FlushReplies()
	}
}

// giveReplies moves the completed replies before the first incomplete one into the loop's
// output buffer, which is empty or the connection's.
func (r *Replies) giveReplies() {
	l := r.c.Loop
	l.meter.known = false
	for r.owed() > 0 && r.slots[r.next].done && r.c.state != dead {
		reply := r.slots[r.next]
		r.slots[r.next] = slot{}
		r.countFrame(-cap(reply.frame))
		r.next++
		r.left++
		l.meter.replies++
		if reply.cmd != 0 {
			l.meter.observe(r.c, atStore, reply.cmd, l.meter.moment()-reply.began, 1)
		}
		switch {
		case reply.write != nil:
			l.buffer.out = reply.write.AppendFrame(l.buffer.out)
			l.buffer.out = append(l.buffer.out, reply.frame...)
		case len(reply.frame) >= WholeFrame:
			r.FlushReplies()
			r.c.Out.SendFrame(reply.frame)
		default:
			l.buffer.out = append(l.buffer.out, reply.frame...)
		}
		if len(l.buffer.out) >= WholeFrame {
			r.FlushReplies()
		}
	}
	if r.slots != nil && r.owed() == 0 {
		r.vacate()
	}
}

// Body returns the body so far of the reply that Begin started.
func (r *Replies) Body(out []byte) []byte { return out[r.c.Loop.buffer.frame+protocol.HeaderSize:] }

// EndShared is End for a reply whose last part is large and the store's: it is sent without
// a copy. No reply may be owed.
func (r *Replies) EndShared(out, body []byte, tail string) {
	b := &r.c.Loop.buffer
	head := slices.Clone(out[b.frame:])
	b.out = out[:b.frame]
	protocol.SetBodyLen(head, len(head)-protocol.HeaderSize+len(body)+len(tail))
	r.c.Loop.meter.replies++
	r.c.Out.SendShared(head, slices.Clip(body), tail)
}

// Unreserve removes the slot that was reserved last.
func (r *Replies) Unreserve() {
	if r.slots = r.slots[:len(r.slots)-1]; r.owed() == 0 {
		r.vacate()
	}
}
