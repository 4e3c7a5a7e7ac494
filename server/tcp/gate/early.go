package gate

import (
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// Some requests must not wait: while a write of a connection waits for room in a store, or for a
// disk, what its peer has sent behind it is not handled, and a lease that it keeps alive would end
// meanwhile. Replies keep their order, but such a request takes effect as soon as it is there, see
// [Route.Early].

// Limits of what is looked at ahead of its turn, for a session and each time that more has come.
const (
	earlyMost  = 1024 // requests
	earlyBytes = 1024 // of one request, in bytes; a longer one waits
)

// lookOver has the requests that wait in b take effect as far as they have to. b is the input that
// was not taken.
func lookOver(s *Session, b []byte) {
	if !loop.Held(&s.Conn) || s.Client == nil {
		return
	}
	for n := 0; n < earlyMost && len(b)-s.early >= protocol.HeaderSize; {
		h, err := protocol.ParseHeader(b[s.early:])
		from, end := s.early+protocol.HeaderSize, s.early+protocol.HeaderSize+int(h.BodyLen)
		if err != nil || h.BodyLen > protocol.MaxBody || end > len(b) {
			return
		}
		s.early = end
		row := s.Gate.routes.row(h.Command)
		if row.Early == nil || h.Command.IsReply() || h.BodyLen > earlyBytes || s.Gate.Permits(s, row) != nil {
			continue
		}
		n++
		if s.Local.Req.ParseTailed(b[from:end]) == nil && s.Local.Req.IsObject() {
			row.Early(s)
		}
	}
}
