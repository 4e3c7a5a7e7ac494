package server

import "time"

// What a loop does for peers that do not take their output at once. Between two
// looks at its sockets it writes a bounded number of bytes for them, in turn, so
// that many who fetch a large document delay nobody who asks for a small one.
const (
	bulkTurn    = 256 << 10        // bytes of a turn that was woken
	bulkTraffic = 64 << 10         // bytes of a turn taken after a peer's traffic
	bulkPause   = time.Millisecond // between two of the latter
	sweepSlice  = 512              // sessions looked at in one turn
)

// Poll intervals for peers that do not read: the event loop has no event for
// "all written", so somebody has to look.
const (
	pollMin = time.Millisecond
	pollMax = 20 * time.Millisecond
)

// owing is how much output the peer has still to read, in bytes, as far as this
// process holds it.
func (s *session) owing() int { return s.out.bytes + s.t.Buffered() }

// progressed notes that the peer has read something.
func (s *session) progressed() { s.progress = s.loop.now }

// checkBlocked keeps the session on its loop's list of blocked ones for as long
// as it owes output.
func (s *session) checkBlocked() {
	if s.dead || s.blocked || s.owing() == 0 {
		return
	}
	s.blocked = true
	s.progressed()
	l := s.loop
	l.blocked = append(l.blocked, s)
	if n := len(l.blocked); l.blockedN.Swap(int32(n)) == 0 {
		l.yieldTurn() // the waker must begin to poll
	}
}

// sweepNow has all blocked sessions looked at, beginning with the next turn.
func (l *loop) sweepNow() {
	l.sweepAgain = true
	l.yieldTurn()
}

// sweep looks at some blocked sessions, from the end of the list so that leaving
// and joining in between makes it miss nobody for long.
func (l *loop) sweep() {
	if l.sweepAt == 0 && l.sweepAgain {
		l.sweepAgain = false
		l.sweepAt = len(l.blocked)
	}
	for range sweepSlice {
		if l.sweepAt == 0 || l.bulk <= 0 {
			break
		}
		l.sweepAt--
		if l.sweepAt < len(l.blocked) {
			l.sweepOne(l.sweepAt)
		}
	}
	l.blockedN.Store(int32(len(l.blocked)))
	if l.sweepAt > 0 || l.sweepAgain {
		l.yieldTurn()
	}
}

// sweepOne lets the session at place i go on and takes it off the list once it
// owes nothing.
func (l *loop) sweepOne(i int) {
	s := l.blocked[i]
	if !s.dead {
		s.pumpAgain()
	}
	if !s.dead && s.owing() > 0 {
		return
	}
	s.blocked = false
	last := len(l.blocked) - 1
	l.blocked[i] = l.blocked[last]
	l.blocked[last] = nil
	l.blocked = l.blocked[:last]
	if !s.dead {
		s.drained()
	}
}

// pumpAgain is pump for a session that is known to be blocked.
func (s *session) pumpAgain() {
	before := s.owing()
	s.pump()
	if s.dead {
		return
	}
	if s.owing() < before {
		s.progressed()
		s.loop.moved.Store(true)
	}
	if owing := s.owing(); owing > 0 && owing < s.srv.cfg.Limits.Pending {
		s.resume()
		s.watchesDrained()
	}
}

// What relieve looks for.
const (
	hogBytes = 64 << 10        // a session that holds less is nobody's trouble
	hogRest  = 2 * time.Second // nor is one that has just moved
)

// relieve is called by whoever has just come to hold more for s. Over the limit it
// closes the session that holds much and has not moved for longest, on this loop
// or, if there is none, on the others; s itself only if nothing helps and the
// limit is far exceeded. A peer that reads is not closed for one that does not.
func (l *loop) relieve(s *session) {
	memory := &l.srv.memory
	if !memory.over() || l.closeHog() {
		return
	}
	for _, other := range l.srv.allLoops() {
		if other != l && !other.relieving.Swap(true) {
			other.post(mailFunc(func(other *loop) {
				other.relieving.Store(false)
				if other.srv.memory.over() {
					other.closeHog()
				}
			}))
		}
	}
	if memory.used.Load() > memory.limit+memory.limit/4 && !s.dead {
		l.srv.count.MemoryLimit.Add(1)
		s.abort("memory for what peers hold is used up")
	}
}

// closeHog closes this loop's worst session, if there is a bad one. Looking takes
// time with many sessions, so it is done at most once each millisecond.
func (l *loop) closeHog() bool {
	now := time.Now()
	if now.Sub(l.relieved) < time.Millisecond && len(l.sessions) > sweepSlice {
		return false
	}
	l.relieved = now
	var worst *session
	for _, s := range l.sessions {
		if s.holds() >= hogBytes && l.now-s.moved() >= hogRest.Nanoseconds() && (worst == nil || s.moved() < worst.moved()) {
			worst = s
		}
	}
	if worst == nil {
		return false
	}
	l.srv.count.MemoryLimit.Add(1)
	worst.abort("memory for what peers hold is used up and this peer has not moved for longest")
	return true
}

// holds is what is held for the session, in bytes.
func (s *session) holds() int { return s.out.bytes + cap(s.in) }

// moved is when its peer last read, if it owes to read, or completed a frame.
func (s *session) moved() int64 {
	if s.out.bytes > 0 {
		return s.progress
	}
	return s.active.Load()
}
