package server

import "confcenter/protocol"

// begin starts a reply in the loop's output buffer; its body is appended and end
// gives it out. In between nothing else may use the buffer.
func (s *session) begin(cmd protocol.Command, seq uint16) []byte {
	l := s.loop
	l.frame = len(l.out)
	return protocol.BeginFrame(l.out, cmd, seq)
}

// end gives out the reply that begin started. Replies to requests that came
// together leave together.
func (s *session) end(out []byte) {
	l := s.loop
	protocol.FinishFrame(out, l.frame)
	l.replies++
	if len(s.slots) > 0 {
		// An earlier write has not been answered yet: wait behind it.
		s.slots = append(s.slots, slot{frame: append([]byte(nil), out[l.frame:]...), done: true})
		l.out = out[:l.frame]
		l.replies-- // it is counted when it leaves
		return
	}
	l.out = out
	if len(out) >= wholeFrame {
		s.flushReplies()
	}
}

// reply answers with a ready body.
func (s *session) reply(h protocol.Header, body []byte) {
	s.end(append(s.begin(h.Command.Reply(), h.Seq), body...))
}

// result answers with code and desc.
func (s *session) result(h protocol.Header, code int, desc string) {
	s.end(protocol.AppendResult(s.begin(h.Command.Reply(), h.Seq), code, desc))
}

// flushReplies sends what the loop's output buffer holds; it is always the
// output of the session being served.
func (s *session) flushReplies() {
	l := s.loop
	if len(l.out) == 0 {
		return
	}
	s.sendOwn(l.out)
	l.out = l.out[:0]
	if cap(l.out) > 4*wholeFrame {
		l.out = nil
	}
}

// reserve takes the place of a reply that comes later; fill takes the number.
func (s *session) reserve(cmd protocol.Command) (id uint64) {
	s.flushReplies()
	s.slots = append(s.slots, slot{cmd: cmd, began: s.loop.moment()})
	return s.slotsGone + uint64(len(s.slots)) - 1
}

// slot is the place that reserve gave under that number; nil once its reply has
// been given out or the session is gone.
func (s *session) slot(id uint64) *slot {
	if s.dead || id < s.slotsGone {
		return nil
	}
	return &s.slots[id-s.slotsGone]
}

// fill completes a reserved reply. It leaves at the end of the loop's turn, with
// the others of the session that are complete by then, or just before anything
// else that the session sends.
func (s *session) fill(id uint64, reply slot) {
	if s.dead {
		return
	}
	place := s.slot(id)
	place.write, place.frame, place.done = reply.write, reply.frame, true
	if s.slots[0].done && !s.filled {
		s.filled = true
		s.loop.filled = append(s.loop.filled, s)
	}
}

// giveOut sends what was filled in this turn and lets those try again who found
// a store's queue full.
func (l *loop) giveOut() {
	for i, s := range l.filled {
		l.filled[i] = nil
		s.filled = false
		s.fillOrder()
	}
	l.filled = l.filled[:0]
	if l.room {
		l.room = false
		l.feedStarved()
	}
}

// repliesFirst is called by whatever is about to send: what was filled before
// leaves before.
func (s *session) repliesFirst() {
	if s.filled {
		s.filled = false
		s.giveReplies()
		s.flushReplies()
	}
}

// fillOrder gives out the finished replies and lets the session go on.
func (s *session) fillOrder() {
	s.giveReplies()
	s.resume() // what it answers at once leaves in the same write
	s.flushReplies()
	s.loop.addCounts()
	if s.closing {
		s.drained()
	}
}

// giveReplies puts the finished replies up to the first unfinished one into the
// loop's output buffer, which is empty or the session's.
func (s *session) giveReplies() {
	l := s.loop
	l.watch.known = false
	for len(s.slots) > 0 && s.slots[0].done && !s.dead {
		reply := s.slots[0]
		s.slots[0] = slot{}
		s.slots = s.slots[1:]
		s.slotsGone++
		l.replies++
		if reply.cmd != 0 {
			l.observe(s, atStore, reply.cmd, l.moment()-reply.began, 1)
		}
		switch {
		case reply.write != nil:
			l.out = reply.write.appendFrame(l.out)
			l.out = append(l.out, reply.frame...)
		case len(reply.frame) >= wholeFrame:
			s.flushReplies()
			s.sendFrame(reply.frame)
		default:
			l.out = append(l.out, reply.frame...)
		}
		if len(l.out) >= wholeFrame {
			s.flushReplies()
		}
	}
	if len(s.slots) == 0 {
		s.slots = nil
	}
}

// endShared is end for a reply whose last part is the store's and large: it is
// sent without being copied.
func (s *session) endShared(out, body []byte, tail string) {
	l := s.loop
	head := append([]byte(nil), out[l.frame:]...)
	l.out = out[:l.frame]
	protocol.SetBodyLen(head, len(head)-protocol.HeaderSize+len(body)+len(tail))
	l.replies++
	s.sendShared(head, body, tail)
}

// unreserve gives up the slot reserved last.
func (s *session) unreserve() {
	s.slots = s.slots[:len(s.slots)-1]
}
