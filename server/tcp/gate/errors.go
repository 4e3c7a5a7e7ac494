package gate

import (
	"fmt"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/protocol"
)

// Refused notes that a request is refused with err, and returns what its sender is told. CppCloud's wire has
// fewer codes than the shared list: for its commands invalid JSON is 404, and an invalid name or value 400. It
// may be called from any goroutine.
func (s *Session) Refused(h protocol.Header, err error) (code int, text string) {
	c := codes.Of(err)
	s.noteRefusal(h, err)
	switch {
	case h.Command.IsCppCloud() && c == codes.BadJSON:
		c = codes.NotFound
	case h.Command.IsCppCloud() && c == codes.BadName:
		c = codes.BadRequest
	case !h.Command.IsCppCloud():
		s.Group().Count.StateRefused.Add(1)
	}
	return int(c), codes.Message(err)
}

// Refuse answers a request with err: nothing was done.
func (s *Session) Refuse(h protocol.Header, err error) {
	s.End(s.AppendRefusal(s.Begin(h.Command.Reply(), h.Seq), h, err))
}

// AppendRefusal appends the answer of Refuse. It may be called from any goroutine.
func (s *Session) AppendRefusal(dst []byte, h protocol.Header, err error) []byte {
	code, text := s.Refused(h, err)
	return protocol.AppendRetryAfter(protocol.AppendResult(dst, code, text), codes.RetryAfter(err))
}

// noteRefusal has log and audit know of a refusal. It may be called from any goroutine.
func (s *Session) noteRefusal(h protocol.Header, err error) {
	s.Edge.Refused(s.peerActor(), h.Command.String(), err)
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
	parse := s.Local.Req.Parse
	if tailed {
		parse = s.Local.Req.ParseTailed
	}
	if err := parse(body); err != nil {
		// Not CppCloud's 404, which would read as "no such key".
		s.Refuse(h, codes.Errorf(codes.BadJSON, "body json invalid: %w", err))
		return false
	}
	if !s.Local.Req.IsObject() {
		s.Refuse(h, codes.Errorf(codes.BadJSON, "body is not a JSON object"))
		return false
	}
	return true
}
