package server

import (
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// notify handles a client's EVNOTIFY: for the server if it names no target or
// the server itself, else for another client.
func (s *session) notify(h protocol.Header, body []byte) bool {
	req := &s.loop.req
	s.srv.oplog.add("NOTIFY", s.name(), clip(req.Body()))
	to, routed := targetOf(req)
	if routed && to != int32(s.srv.cfg.ServerID) {
		s.route(h, to)
		return true
	}
	kind := req.Text("notify")
	code := -1
	if string(kind) == protocol.NotifyCloseLink {
		var self bool
		if code, self = s.closeLink(); self {
			return true
		}
	}
	s.end(protocol.AppendNotifyResult(s.begin(h.Command.Reply(), h.Seq), code, kind))
	return true
}

// closeLink closes the client that the request names, who is told nothing.
func (s *session) closeLink() (code int, self bool) {
	id, ok := s.loop.req.Int("svrid")
	if !ok {
		return -2, false
	}
	target := s.srv.registry.find(id)
	switch target {
	case nil:
		return -2, false
	case s:
		s.flushReplies()
		s.dismiss("closelink by itself")
		return 0, true
	}
	by := s.name()
	target.loop.post(mailFunc(func(*loop) { target.dismiss("closelink by " + by) }))
	return 0, false
}

// route hands the request to client `to`; the answer comes from there, as a
// frame of its own that is routed back.
func (s *session) route(h protocol.Header, to int32) {
	if to == s.client.id || !s.forward(h, to, s.srv.appendRouted) {
		s.end(protocol.AppendRouteError(s.begin(h.Command.Reply(), h.Seq),
			int32(s.srv.cfg.ServerID), s.client.id, s.loop.req.Text("path")))
	}
}

func (s *Server) appendRouted(dst []byte, from *session) []byte {
	return protocol.AppendRouted(dst, &from.loop.req, from.client.id, int32(s.cfg.ServerID))
}

// forward posts the frame that appendBody makes to client `to`, under the same
// command and sequence.
func (s *session) forward(h protocol.Header, to int32, appendBody func(dst []byte, from *session) []byte) bool {
	target := s.srv.registry.find(to)
	if target == nil || s.srv.memory.over() {
		return false
	}
	frame := appendBody(protocol.BeginFrame(nil, h.Command, h.Seq), s)
	if len(frame) > protocol.HeaderSize+protocol.MaxBody {
		return false // what the hop adds made it too long to be accepted
	}
	protocol.FinishFrame(frame, 0)
	s.srv.memory.add(len(frame)) // until it is the target's
	target.loop.post(mailFunc(func(*loop) {
		s.srv.memory.sub(len(frame))
		if !target.state.over() {
			target.out.sendFrame(frame)
		}
	}))
	return true
}

// routeReply hands an answer on to whom it is for. Nobody answers an answer, so
// one that has no target is dropped.
func (s *session) routeReply(h protocol.Header) {
	if to, present := targetOf(&s.loop.req); present && to != s.client.id {
		s.forward(h, to, s.srv.appendRouted)
	}
}

// appRunLog is only ever routed.
func (s *session) appRunLog(h protocol.Header, _ []byte) bool {
	if to, present := targetOf(&s.loop.req); present {
		s.route(h, to)
	}
	return true
}

// exchange relays a body unchanged but for blanks, also to the sender.
func (s *session) exchange(h protocol.Header, body []byte) bool {
	if !s.relay(h) {
		s.result(h, int(codes.BadRequest), "dst svr offline")
	}
	return true
}

func (s *session) relay(h protocol.Header) bool {
	to, ok := s.loop.req.Int("to")
	return ok && s.forward(h, to, func(dst []byte, from *session) []byte {
		return jsontext.AppendCompact(dst, from.loop.req.Body())
	})
}
