package gate

import (
	"fmt"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/protocol"
)

// WireCode is the number in a reply's code. CppCloud's wire has fewer codes than the
// shared list: invalid JSON is 404 there, an invalid name or value 400.
func WireCode(err error) int {
	switch c := codes.Of(err); c {
	case codes.BadJSON:
		return int(codes.NotFound)
	case codes.BadName:
		return int(codes.BadRequest)
	default:
		return int(c)
	}
}

// WireText is what a peer may see of err, with which its request is refused. Internal errors are
// logged, and refusals for lack of a right or by a quota are noted. It may be called from any goroutine.
func (s *Session) WireText(h protocol.Header, err error) string {
	if codes.Of(err) == codes.Internal {
		s.Group().Log.Error().Err(err).Stringer("command", h.Command).Stringer("peer", s.Peer).Msg("request failed")
	}
	s.noteRefusal(h, err)
	return codes.Message(err)
}

// noteRefusal has the audit know of a request that was refused for lack of a right or a proof, or
// by a quota. It may be called from any goroutine.
func (s *Session) noteRefusal(h protocol.Header, err error) {
	if s.Audit != nil {
		s.Audit.Refused(s.peerActor(), h.Command.String(), err)
	}
}

// peerActor is the peer as far as it has proved who it is.
func (s *Session) peerActor() *access.Actor {
	if by := s.peer.Load(); by != nil {
		return by
	}
	s.peer.CompareAndSwap(nil, &access.Actor{Origin: access.OverTCP, Address: s.Peer.String()})
	return s.peer.Load()
}

func (s *Session) badJSON(h protocol.Header, err error) {
	s.Result(h, int(codes.NotFound), "body json invalid: "+err.Error())
}

func notIdentified(h protocol.Header) string {
	return fmt.Sprintf("Not Auth(0x%X-%d)", uint16(h.Command), h.Seq)
}

// parseStrictly parses the body of a command of our own. If that fails it answers the
// request and returns false.
func (s *Session) parseStrictly(h protocol.Header, body []byte, tailed bool) bool {
	parse := s.Desk.Req.Parse
	if tailed {
		parse = s.Desk.Req.ParseTailed
	}
	if err := parse(body); err != nil {
		// Not CppCloud's 404, which would read as "no such key".
		s.RefuseState(h, codes.Errorf(codes.BadJSON, "body json invalid: %w", err))
		return false
	}
	if !s.Desk.Req.IsObject() {
		s.RefuseState(h, codes.Errorf(codes.BadJSON, "body is not a JSON object"))
		return false
	}
	return true
}

// RefuseState answers a request to the state store or to player storage with err: nothing
// was done.
func (s *Session) RefuseState(h protocol.Header, err error) {
	s.Group().Count.StateRefused.Add(1)
	s.End(s.AppendRefusal(s.Begin(h.Command.Reply(), h.Seq), h, err))
}

// AppendRefusal may be called from any goroutine.
func (s *Session) AppendRefusal(dst []byte, h protocol.Header, err error) []byte {
	dst = protocol.AppendResult(dst, int(codes.Of(err)), s.WireText(h, err))
	return protocol.AppendRetryAfter(dst, codes.RetryAfter(err))
}
