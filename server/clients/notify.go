package clients

import (
	"fmt"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// notify handles a client's EVNOTIFY. It is for the server if it names no target or the
// server itself, otherwise for another client.
func (f *Handlers) notify(s *gate.Session, h protocol.Header, body []byte) bool {
	req := &s.Local.Req
	to, routed := targetOf(req)
	kind := req.Text("notify")
	// Everyone reads this log, so what one client says to another is not in it.
	f.oplog.add("NOTIFY", s.Name(), "notify="+string(kind), fmt.Sprintf("to=%d", to), fmt.Sprintf("%d bytes", len(req.Body())))
	if routed && to != f.serverID {
		f.route(s, h, to)
		return true
	}
	code := -1
	if string(kind) == protocol.NotifyCloseLink {
		var self bool
		if code, self = f.closeLink(s); self {
			return true
		}
	}
	s.End(protocol.AppendNotifyResult(s.Begin(h.Command.Reply(), h.Seq), code, kind))
	return true
}

// closeLink closes the client that the request names, without notice.
func (f *Handlers) closeLink(s *gate.Session) (code int, self bool) {
	id, ok := s.Local.Req.Int("svrid")
	if !ok {
		return -2, false
	}
	target := s.Reach(policy.Delete, id)
	switch target {
	case nil:
		return -2, false
	case s:
		s.FlushReplies()
		s.Dismiss("closelink by itself")
		return 0, true
	}
	by := s.Name()
	target.Loop.Post(loop.MailFunc(func(*loop.Loop) { target.Dismiss("closelink by " + by) }))
	return 0, false
}

// route passes the request to client `to`. Its answer is a separate frame, which is routed
// back.
func (f *Handlers) route(s *gate.Session, h protocol.Header, to int32) {
	if to == s.Client.ID || !forward(s, h, to, f.appendRouted) {
		s.End(protocol.AppendRouteError(s.Begin(h.Command.Reply(), h.Seq),
			f.serverID, s.Client.ID, s.Local.Req.Text("path")))
	}
}

func (f *Handlers) appendRouted(dst []byte, from *gate.Session) []byte {
	return protocol.AppendRouted(dst, &from.Local.Req, from.Client.ID, f.serverID)
}

// forward posts the frame that appendBody makes to client `to`, under the same
// command and sequence. It returns false if that is not there, or s may not send to it.
func forward(s *gate.Session, h protocol.Header, to int32, appendBody func(dst []byte, from *gate.Session) []byte) bool {
	target := s.Reach(policy.Send, to)
	if target == nil {
		return false
	}
	frame := appendBody(protocol.BeginFrame(nil, h.Command, h.Seq), s)
	if len(frame) > protocol.HeaderSize+protocol.MaxBody {
		return false // what the hop adds made it too long to be accepted
	}
	protocol.FinishFrame(frame, 0)
	memory, size := s.Group().Memory, int64(cap(frame))
	if !memory.Take(size) {
		return false
	}
	target.Loop.Post(loop.MailFunc(func(*loop.Loop) {
		memory.Give(size) // it is the target's now
		if !target.Ending() {
			target.Out.SendFrame(frame)
		}
	}))
	return true
}

// routeReply passes an answer to its target. Answers are never answered, so one without a
// target is dropped.
func (f *Handlers) routeReply(s *gate.Session, h protocol.Header) {
	if to, present := targetOf(&s.Local.Req); present && to != s.Client.ID {
		forward(s, h, to, f.appendRouted)
	}
}

// appRunLog is only ever routed.
func (f *Handlers) appRunLog(s *gate.Session, h protocol.Header, _ []byte) bool {
	if to, present := targetOf(&s.Local.Req); present {
		f.route(s, h, to)
	}
	return true
}

// exchange relays a body, unchanged except for blanks; the target may be the sender.
func (f *Handlers) exchange(s *gate.Session, h protocol.Header, body []byte) bool {
	if !relay(s, h) {
		s.Result(h, int(codes.BadRequest), "dst svr offline")
	}
	return true
}

func relay(s *gate.Session, h protocol.Header) bool {
	to, ok := s.Local.Req.Int("to")
	return ok && forward(s, h, to, func(dst []byte, from *gate.Session) []byte {
		return jsontext.AppendCompact(dst, from.Local.Req.Body())
	})
}
