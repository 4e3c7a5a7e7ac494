package gate

import (
	"confcenter/internal/admission"
	"confcenter/protocol"
)

// toll is what a session pays for its requests.
type toll struct {
	meter *admission.Meter // set at open; nil: nothing is limited
	paid  bool             // loop only: the current frame, which may pass the gate again
}

// pays charges the frame. If it is beyond the rate, it answers instead and returns false.
func (s *Session) pays(f *frame) bool {
	if s.toll.paid {
		return true
	}
	s.toll.paid = true
	now, h, size := s.Loop.Moment(), f.Header, int64(f.size)
	switch {
	case h.Command.IsReply():
		// A routed reply has no answer: one too many is dropped.
		return f.row.PassOn == nil || s.toll.meter.Take(now, size) == nil
	case f.row.Handle == nil, f.row.anonymous(), h.Command == protocol.KeepAlive, h.Command == protocol.KVUnwatch:
		s.toll.meter.Charge(now, 1, size) // these have no refusal, or nobody could do without them
		return true
	}
	err := s.toll.meter.Take(now, size)
	if err == nil {
		return true
	}
	s.Touch()
	s.Count(h.Command)
	s.End(s.AppendRefusal(s.Begin(h.Command.Reply(), h.Seq), h, err))
	return false
}
