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
		s.srv.log.Error().Err(err).Stringer("command", h.Command).Stringer("peer", s.peer).Msg("request failed")
	}
	return codes.Message(err)
}

func (s *session) badJSON(h protocol.Header, err error) {
	s.result(h, int(codes.NotFound), "body json invalid: "+err.Error())
}

func notIdentified(h protocol.Header) string {
	return fmt.Sprintf("Not Auth(0x%X-%d)", uint16(h.Command), h.Seq)
}
