package loop

import (
	"sync/atomic"
	"time"
)

// Between two looks at its sockets a loop writes a bounded number of bytes for peers
// that do not take their output at once, in turn, so that many who fetch a large
// document delay nobody who asks for a small one.
const (
	bulkTurn    = 256 << 10        // bytes of a turn that was woken
	bulkTraffic = 64 << 10         // bytes of a turn taken after a peer's traffic
	bulkPause   = time.Millisecond // between two of the latter
	sweepSlice  = 512              // connections looked at in one turn
)

// sweep has the connections go on whose peers have not read everything.
type sweep struct {
	w *waker // set at open

	// loop only
	blocked []*Conn
	bulk    int       // bytes of long output that may still be written in this turn
	at      int       // next of blocked to look at, going down; 0: no sweep
	again   bool      // another sweep is due
	swept   time.Time // when traffic last let a sweep go on

	// any goroutine
	moved atomic.Bool  // a blocked connection's peer has read something
	n     atomic.Int32 // len(blocked), for the waker
}

func (s *sweep) add(c *Conn) {
	s.blocked = append(s.blocked, c)
	if s.n.Swap(int32(len(s.blocked))) == 0 {
		s.w.yieldTurn() // the waker must begin to poll
	}
}

// soon has all blocked connections looked at, beginning with the next turn.
func (s *sweep) soon() {
	s.again = true
	s.w.yieldTurn()
}

// due says that there are connections to look at now.
func (s *sweep) due() bool { return s.at > 0 || s.again }

// some looks at some blocked connections, writing bulk bytes for them, from the end
// of the list so that leaving and joining in between makes it miss nobody for long.
func (s *sweep) some() {
	if s.at == 0 && s.again {
		s.again = false
		s.at = len(s.blocked)
	}
	for range sweepSlice {
		if s.at == 0 || s.bulk <= 0 {
			break
		}
		s.at--
		if s.at < len(s.blocked) {
			s.one(s.at)
		}
	}
	s.n.Store(int32(len(s.blocked)))
	if s.due() {
		s.w.yieldTurn()
	}
}

// afterTraffic looks at some in between, where traffic never ends.
func (s *sweep) afterTraffic() {
	if !s.due() {
		return
	}
	if now := time.Now(); now.Sub(s.swept) >= bulkPause {
		s.swept = now
		s.bulk = bulkTraffic
		s.some()
	}
}

// one lets the connection at place i go on and takes it off the list once it owes
// nothing.
func (s *sweep) one(i int) {
	c := s.blocked[i]
	if c.state != dead {
		c.Out.pumpAgain()
	}
	if c.state != dead && c.Out.Owing() > 0 {
		return
	}
	c.on.leave(onBlocked)
	s.blocked = dropAt(s.blocked, i)
	if c.state != dead {
		c.drained()
	}
}

// dropAt takes the element at i out of list, in whose place the last one comes.
func dropAt[T any](list []*T, i int) []*T {
	last := len(list) - 1
	list[i] = list[last]
	list[last] = nil
	return list[:last]
}

// stalled closes those whose peers have read nothing for longer than most
// nanoseconds.
func (s *sweep) stalled(now, most int64) {
	for _, c := range s.blocked {
		if c.state != dead && now-c.Out.progress > most {
			c.Loop.Group.Count.Stalled.Add(1)
			c.Abort("the peer has not read anything for too long")
		}
	}
}
