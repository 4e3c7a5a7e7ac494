package server

import (
	"fmt"

	"confcenter/codes"
	"confcenter/protocol"
)

// wireCode is the number that stands in a reply's code. CppCloud's wire knows
// fewer than the shared list: what is not JSON is a 404 there, a name or value
// that is not acceptable a 400.
func wireCode(err error) int {
	switch c := codes.Of(err); c {
	case codes.BadJSON:
		return int(codes.NotFound)
	case codes.BadName:
		return int(codes.BadRequest)
	default:
		return int(c)
	}
}

// wireText is what a peer may read of err. What is a fault of ours goes to the log.
func (s *session) wireText(h protocol.Header, err error) string {
	if codes.Of(err) == codes.Internal {
		s.group().log.Error().Err(err).Stringer("command", h.Command).Stringer("peer", s.peer).Msg("request failed")
	}
	return codes.Message(err)
}

func (s *session) badJSON(h protocol.Header, err error) {
	s.result(h, int(codes.NotFound), "body json invalid: "+err.Error())
}

func notIdentified(h protocol.Header) string {
	return fmt.Sprintf("Not Auth(0x%X-%d)", uint16(h.Command), h.Seq)
}

// parseTailed reads the body of a state store's command. If it cannot be acted on
// it is answered and the result is false.
func (s *session) parseTailed(h protocol.Header, body []byte) bool {
	if err := s.desk.req.ParseTailed(body); err != nil {
		// Not CppCloud's 404, which would read as "no such key".
		s.refuseState(h, codes.Errorf(codes.BadJSON, "body json invalid: %w", err))
		return false
	}
	if !s.desk.req.IsObject() {
		s.refuseState(h, codes.Errorf(codes.BadJSON, "body is not a JSON object"))
		return false
	}
	return true
}

// refuseState answers that nothing was done.
func (s *session) refuseState(h protocol.Header, err error) {
	s.group().count.StateRefused.Add(1)
	s.end(s.appendRefusal(s.begin(h.Command.Reply(), h.Seq), h, err))
}

// appendRefusal may be called from any goroutine.
func (s *session) appendRefusal(dst []byte, h protocol.Header, err error) []byte {
	return protocol.AppendResult(dst, int(codes.Of(err)), s.wireText(h, err))
}
