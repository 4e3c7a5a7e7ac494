package loop

import (
	"sync/atomic"
	"time"
)

// Between two looks at its sockets a loop writes a limited number of bytes for peers that do
// not accept their output at once, in turn, so that many peers that fetch a large document
// do not delay those that fetch a small one.
const (
	bulkTurn    = 256 << 10        // bytes of a turn that was woken
	bulkTraffic = 64 << 10         // bytes of a turn taken after a peer's traffic
	bulkPause   = time.Millisecond // between two of the latter
	sweepSlice  = 512              // connections checked in one turn
)

// sweep lets connections continue whose peers have not read everything.
type sweep struct {
	w *waker // set at open

	// loop only
	blocked []*Conn
	bulk    int       // bytes of long output that may still be written in this turn
	at      int       // next of blocked to check, going down; 0: no sweep
	again   bool      // another sweep is due
	swept   time.Time // when a sweep last continued after traffic

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

// soon makes the loop check all blocked connections, beginning with the next turn.
func (s *sweep) soon() {
	s.again = true
	s.w.yieldTurn()
}

// due reports whether there are connections to check now.
func (s *sweep) due() bool { return s.at > 0 || s.again }

// some checks some blocked connections and writes bulk bytes for them. It goes from the end
// of the list, so that connections that leave or join in between are not missed for long.
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

// afterTraffic checks some connections after traffic, in case traffic never ends.
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

// one lets the connection at place i continue, and removes it from the list if no output
// waits.
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

// dropAt removes the element at i from list; the last one takes its place.
func dropAt[T any](list []*T, i int) []*T {
	last := len(list) - 1
	list[i] = list[last]
	list[last] = nil
	return list[:last]
}

// stalled closes connections whose peers have read nothing for more than most nanoseconds.
func (s *sweep) stalled(now, most int64) {
	for _, c := range s.blocked {
		if c.state != dead && now-c.Out.progress > most {
			c.Loop.Group.Count.Stalled.Add(1)
			c.Abort("the peer has not read anything for too long")
		}
	}
}
