package server

import (
	"fmt"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/protocol"
)

// verdict is what the gate says of what stands at the front of a session's input.
type verdict uint8

const (
	stays   verdict = iota // it is not whole, has to wait or is the last that was looked at
	refused                // it was answered and is done with
	passed                 // it is the handler's
)

// frame is one that is whole at the front of the input. It is not kept.
type frame struct {
	protocol.Header
	row  *route
	size int // header and body
}

// judge is the gate. Every frame passes it just before it is acted on, whether it
// has come alone or in a run, and nothing is acted on that has not.
func (s *session) judge(b []byte) (f frame, v verdict) {
	if s.state != reading {
		return f, stays
	}
	s.in.need = 0
	if len(b) < protocol.HeaderSize {
		return f, stays
	}
	h, err := protocol.ParseHeader(b)
	if err != nil {
		s.badFrame(err.Error())
		return f, stays
	}
	row := s.srv.routes.row(h.Command)
	if limit := row.bodyLimit(s.client != nil); h.BodyLen > limit {
		s.badFrame(fmt.Sprintf("%s announces %d bytes of body, the limit is %d", h.Command, h.BodyLen, limit))
		return f, stays
	}
	f = frame{h, row, protocol.HeaderSize + int(h.BodyLen)}
	switch {
	case len(b) < f.size:
		s.in.need = f.size
		return f, stays
	case !s.admit(row.write && !h.Command.IsReply()):
		return f, stays
	case s.client == nil && !row.anonymous():
		s.turnOut(h)
		return f, refused
	case row.Row != nil && !s.may(row.Right):
		s.result(h, int(codes.Forbidden), fmt.Sprintf("%s needs the right %s", h.Command, row.Right))
		return f, refused
	}
	return f, passed
}

// may says whether the session has a right. Everybody has every right as long as
// there is nothing to tell one from the other; whatever will, is asked here.
func (s *session) may(access.Right) bool { return true }

// decode handles the frames at the front of b and returns how many bytes they took.
func (s *session) decode(b []byte) (taken int) {
	ahead := 0 // frames of a run that have been looked up already
	for {
		f, v := s.judge(b[taken:])
		switch v {
		case stays:
			return taken
		case refused:
			ahead = 0
		case passed:
			s.touch()
			if ahead == 0 && f.row.ahead != nil && !f.Command.IsReply() {
				ahead = f.row.ahead(s, b[taken:])
			}
			if ahead > 0 {
				ahead--
				s.loop.meter.count(f.Command)
				f.row.answer(s, f.Header)
			} else if !s.handle(f, b[taken+protocol.HeaderSize:taken+f.size]) {
				return taken
			}
		}
		taken += f.size
		s.took(taken)
	}
}

// handle acts on a frame that came alone; false means that it was not consumed.
func (s *session) handle(f frame, body []byte) bool {
	if f.Command.IsReply() {
		s.passOn(f.Header, body)
		return true
	}
	s.loop.meter.count(f.Command)
	switch r := f.row; {
	case r.handle == nil:
		s.ignore(f.Header)
		return true
	case r.tailed:
		if !s.parseTailed(f.Header, body) {
			return true
		}
	case !r.raw:
		if err := s.loop.req.Parse(body); err != nil {
			s.badJSON(f.Header, err)
			return true
		}
	}
	return f.row.handle(s, f.Header, body)
}

// passOn handles the replies that mean something here: those that are on their
// way to another client. Whatever is wrong with them is not answered.
func (s *session) passOn(h protocol.Header, body []byte) {
	if s.client == nil || s.loop.req.Parse(body) != nil {
		return
	}
	switch h.Command.Request() {
	case protocol.Exchang:
		s.relay(h)
	case protocol.EvNotify, protocol.AppRunLog:
		s.routeReply(h)
	}
}

// badFrame closes a connection that does not speak the protocol: without a
// reply, since there is no frame to answer.
func (s *session) badFrame(reason string) {
	s.srv.count.BadFrames.Add(1)
	s.dismiss(reason)
}

// turnOut closes a peer that asks for something before WHOAMI.
func (s *session) turnOut(h protocol.Header) {
	if h.Command.IsReply() {
		s.dismiss("a reply before WHOAMI") // replies are never answered
		return
	}
	s.result(h, int(codes.NotIdentified), notIdentified(h))
	s.finish()
}

// ignore says nothing to the peer.
func (s *session) ignore(h protocol.Header) {
	row := protocol.Lookup(h.Command)
	if row == nil || row.Role != protocol.Peers {
		return
	}
	s.srv.count.IgnoredPeers.Add(1)
	s.srv.peerLog.Warn().Stringer("peer", s.peer).Str("client", s.name()).Stringer("command", h.Command).
		Msg("server-to-server command from a client ignored")
}
