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

// reserve takes the place of a reply that comes later and returns what fills it,
// to be called once, on the loop.
func (s *session) reserve() (fill func(frame []byte)) {
	s.flushReplies()
	id := s.slotsGone + uint64(len(s.slots))
	s.slots = append(s.slots, slot{})
	return func(frame []byte) {
		if s.dead {
			return
		}
		s.srv.count.replies.Add(1)
		s.slots[id-s.slotsGone] = slot{frame: frame, done: true}
		s.fillOrder()
	}
}

// fillOrder sends the finished replies up to the first unfinished one.
func (s *session) fillOrder() {
	for len(s.slots) > 0 && s.slots[0].done && !s.dead {
		s.sendFrame(s.slots[0].frame)
		s.slots[0] = slot{}
		s.slots = s.slots[1:]
		s.slotsGone++
	}
	if len(s.slots) == 0 {
		s.slots = nil
	}
	if s.closing {
		s.drained()
	}
	s.resume()
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
