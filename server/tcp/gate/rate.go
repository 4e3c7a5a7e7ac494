package gate

import (
	"time"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// shortTurn makes the turns of who has a quota end after 32 requests: others who have come meanwhile are
// served in between.
const shortTurn = 2 << 10

// Taker is who memory for the peer's requests is taken for. It is asked for on the loop, and may then be used
// on any goroutine.
func (s *Session) Taker() memory.Taker { return s.Account }

// pays charges the frame. If it is beyond the rate, it answers instead and returns false.
func (s *Session) pays(f *frame) bool {
	if s.Paid() {
		return true
	}
	s.turn += shortTurn
	now, h := s.Loop.Moment(), f.Header
	switch {
	case h.Command.IsReply():
		// A routed reply has no answer: one too many is dropped.
		if f.row.PassOn == nil {
			return true
		}
		err := s.Pay(now)
		s.noteRefusal(h, err)
		return err == nil
	case f.row.Handle == nil, f.row.anonymous(), h.Command == protocol.KeepAlive, h.Command == protocol.KVAlive, h.Command == protocol.KVUnwatch:
		s.Charge(now, 1, s.Size) // these have no refusal, or no client could do without them
		return true
	}
	err := s.Pay(now)
	if err == nil {
		return true
	}
	s.Touch()
	s.Count(h.Command)
	s.Refuse(h, err)
	s.slowDown(now)
	return false
}

// slowDown has the session rest if its peer sends far more than it may.
func (s *Session) slowDown(now time.Time) {
	if wait := s.conn.Backoff(s.Account, now); wait > 0 {
		loop.Pause(&s.Conn, wait)
	}
}

// Judge decides about all that the current request reads, changes or learns of.
func (s *Session) Judge(things []op.Thing) error {
	now := s.Loop.Moment()
	err := s.Request.Judge(now, things)
	if err != nil && codes.RetryAfter(err) > 0 {
		s.slowDown(now)
	}
	return err
}
