package server

import (
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// notify handles a client's EVNOTIFY: for the server if it names no target or
// the server itself, else for another client.
func (f *clientHandlers) notify(s *session, h protocol.Header, body []byte) bool {
	req := &s.desk.req
	f.oplog.add("NOTIFY", s.name(), clip(req.Body()))
	to, routed := targetOf(req)
	if routed && to != f.serverID {
		f.route(s, h, to)
		return true
	}
	kind := req.Text("notify")
	code := -1
	if string(kind) == protocol.NotifyCloseLink {
		var self bool
		if code, self = f.closeLink(s); self {
			return true
		}
	}
	s.end(protocol.AppendNotifyResult(s.begin(h.Command.Reply(), h.Seq), code, kind))
	return true
}

// closeLink closes the client that the request names, who is told nothing.
func (f *clientHandlers) closeLink(s *session) (code int, self bool) {
	id, ok := s.desk.req.Int("svrid")
	if !ok {
		return -2, false
	}
	target := s.gate.registry.find(id)
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
func (f *clientHandlers) route(s *session, h protocol.Header, to int32) {
	if to == s.client.id || !forward(s, h, to, f.appendRouted) {
		s.end(protocol.AppendRouteError(s.begin(h.Command.Reply(), h.Seq),
			f.serverID, s.client.id, s.desk.req.Text("path")))
	}
}

func (f *clientHandlers) appendRouted(dst []byte, from *session) []byte {
	return protocol.AppendRouted(dst, &from.desk.req, from.client.id, f.serverID)
}

// forward posts the frame that appendBody makes to client `to`, under the same
// command and sequence.
func forward(s *session, h protocol.Header, to int32, appendBody func(dst []byte, from *session) []byte) bool {
	target := s.gate.registry.find(to)
	if target == nil || s.group().memory.over() {
		return false
	}
	frame := appendBody(protocol.BeginFrame(nil, h.Command, h.Seq), s)
	if len(frame) > protocol.HeaderSize+protocol.MaxBody {
		return false // what the hop adds made it too long to be accepted
	}
	protocol.FinishFrame(frame, 0)
	s.group().memory.add(len(frame)) // until it is the target's
	target.loop.post(mailFunc(func(*loop) {
		s.group().memory.sub(len(frame))
		if !target.ending() {
			target.out.sendFrame(frame)
		}
	}))
	return true
}

// routeReply hands an answer on to whom it is for. Nobody answers an answer, so
// one that has no target is dropped.
func (f *clientHandlers) routeReply(s *session, h protocol.Header) {
	if to, present := targetOf(&s.desk.req); present && to != s.client.id {
		forward(s, h, to, f.appendRouted)
	}
}

// appRunLog is only ever routed.
func (f *clientHandlers) appRunLog(s *session, h protocol.Header, _ []byte) bool {
	if to, present := targetOf(&s.desk.req); present {
		f.route(s, h, to)
	}
	return true
}

// exchange relays a body unchanged but for blanks, also to the sender.
func (f *clientHandlers) exchange(s *session, h protocol.Header, body []byte) bool {
	if !relay(s, h) {
		s.result(h, int(codes.BadRequest), "dst svr offline")
	}
	return true
}

func relay(s *session, h protocol.Header) bool {
	to, ok := s.desk.req.Int("to")
	return ok && forward(s, h, to, func(dst []byte, from *session) []byte {
		return jsontext.AppendCompact(dst, from.desk.req.Body())
	})
}
