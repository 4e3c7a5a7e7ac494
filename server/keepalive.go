package server

import (
	"time"

	"confcenter/protocol"
)

// tickPeriod is how often the loops look at their clocks.
const tickPeriod = time.Second

// ticker posts the time to every loop until the server stops.
func (s *Server) ticker() {
	t := s.cfg.Clock.NewTicker(tickPeriod)
	defer t.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-t.C():
			now := s.cfg.Clock.Now()
			sweep := s.sweepDue(now)
			for _, l := range s.allLoops() {
				l.post(mailFunc(func(l *loop) { l.tick(now.UnixNano()) }))
				if sweep {
					l.post(&keepAliveSweep{now: now.UnixNano(), next: -1})
				}
			}
		}
	}
}

// sweepDue says whether an interval has passed since the start or the last sweep.
func (s *Server) sweepDue(now time.Time) bool {
	if now.Before(s.nextSweep) {
		return false
	}
	for !now.Before(s.nextSweep) {
		s.nextSweep = s.nextSweep.Add(s.cfg.KeepAlive)
	}
	return true
}

// tick looks after what ends by time: sessions that never identified, are being
// closed or do not read.
func (l *loop) tick(now int64) {
	l.now = now
	l.ticked.Store(now)
	l.feedStarved()
	// Who had just moved when the memory ran out may rest by now.
	for closed := true; closed && l.srv.memory.over(); closed = l.closeHog() {
		l.relieved = time.Time{}
	}
	for i := len(l.timed) - 1; i >= 0; i-- {
		s := l.timed[i]
		s.checkDeadline(now)
		if s.dead || s.client != nil && !s.closing {
			s.isTimed = false
			last := len(l.timed) - 1
			l.timed[i] = l.timed[last]
			l.timed[last] = nil
			l.timed = l.timed[:last]
		}
	}
	for _, s := range l.blocked {
		if !s.dead && now-s.progress > l.srv.cfg.Limits.Stall.Nanoseconds() {
			l.srv.count.Stalled.Add(1)
			s.abort("the peer has not read anything for too long")
		}
	}
}

// time puts s on the list that tick looks at.
func (l *loop) time(s *session, deadline int64) {
	s.deadline = deadline
	if !s.isTimed {
		s.isTimed = true
		l.timed = append(l.timed, s)
	}
}

func (s *session) checkDeadline(now int64) {
	if s.dead || now < s.deadline {
		return
	}
	switch {
	case s.closing && s.owing() > 0 && now-s.progress < s.srv.cfg.Limits.Linger.Nanoseconds():
		// The peer reads on.
	case s.closing:
		s.hangUp()
	case s.client == nil:
		s.srv.count.Unidentified.Add(1)
		s.abort("no WHOAMI in time")
	}
}

// touch notes a complete frame.
func (s *session) touch() {
	if now := s.loop.now; s.active.Load() != now {
		s.active.Store(now)
	}
}

// askSlice is how many sessions a keep-alive sweep looks at in one turn.
const askSlice = 1024

// keepAliveSweep asks every session of a loop that has been silent for one
// interval, and closes those silent for two. It goes from the end of the list,
// so that sessions that leave in between make it miss nobody.
type keepAliveSweep struct {
	now  int64
	next int // -1: not begun
}

func (k *keepAliveSweep) deliver(l *loop, budget int) (int, bool) {
	if k.next < 0 {
		k.next = len(l.sessions)
	}
	interval := l.srv.cfg.KeepAlive.Nanoseconds()
	used := 0
	for seen := 0; k.next > 0 && seen < askSlice && used < budget; seen++ {
		k.next--
		if k.next >= len(l.sessions) {
			continue
		}
		s := l.sessions[k.next]
		switch silent := k.now - s.active.Load(); {
		case s.closing:
		case silent > 2*interval:
			used++
			l.srv.count.Idle.Add(1)
			s.abort("no sign of life for two keep-alive intervals")
		case silent > interval:
			used++
			l.srv.count.KeepAlives.Add(1)
			s.sendFrame(protocol.AppendFrame(nil, protocol.KeepAlive, l.srv.nextSeq(), nil))
		}
	}
	return used + 1, k.next == 0
}
