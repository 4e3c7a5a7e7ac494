package gate

import (
	"fmt"

	"confcenter/codes"
	"confcenter/protocol"
)

// WireCode is the number that stands in a reply's code. CppCloud's wire knows
// fewer than the shared list: what is not JSON is a 404 there, a name or value
// that is not acceptable a 400.
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

// WireText is what a peer may read of err. What is a fault of ours goes to the log.
func (s *Session) WireText(h protocol.Header, err error) string {
	if codes.Of(err) == codes.Internal {
		s.Group().Log.Error().Err(err).Stringer("command", h.Command).Stringer("peer", s.Peer).Msg("request failed")
	}
	return codes.Message(err)
}

func (s *Session) badJSON(h protocol.Header, err error) {
	s.Result(h, int(codes.NotFound), "body json invalid: "+err.Error())
}

func notIdentified(h protocol.Header) string {
	return fmt.Sprintf("Not Auth(0x%X-%d)", uint16(h.Command), h.Seq)
}

// parseTailed reads the body of a state store's command. If it cannot be acted on
// it is answered and the result is false.
func (s *Session) parseTailed(h protocol.Header, body []byte) bool {
	if err := s.Desk.Req.ParseTailed(body); err != nil {
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

// RefuseState answers that nothing was done.
func (s *Session) RefuseState(h protocol.Header, err error) {
	s.Group().Count.StateRefused.Add(1)
	s.End(s.AppendRefusal(s.Begin(h.Command.Reply(), h.Seq), h, err))
}

// AppendRefusal may be called from any goroutine.
func (s *Session) AppendRefusal(dst []byte, h protocol.Header, err error) []byte {
	return protocol.AppendResult(dst, int(codes.Of(err)), s.WireText(h, err))
}
