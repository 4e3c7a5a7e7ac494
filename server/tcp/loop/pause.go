package loop

import (
	"sync/atomic"
	"time"
)

// How long connections rest whose peers send more than they may, or are refused: at least one step, by which the
// loop looks at the time, and no longer than a peer waits for the answer to a keep-alive.
const (
	pauseStep = 20 * time.Millisecond
	pauseMost = time.Second
)

// pauses are a loop's connections that are paused.
type pauses struct {
	list []pause      // loop only
	n    atomic.Int32 // any goroutine: len(list), for the waker and for metrics
}

type pause struct {
	c     *Conn
	until time.Duration // by Group.elapsed
}

// Delay has a connection wait for so long, at most a second, before the current frame, which must be left
// where it is, comes again with all that is behind it. It reports whether it does.
func Delay(c *Conn, long time.Duration) bool {
	l := c.Loop
	if !c.wait(forPause) {
		return false
	}
	l.pauses.list = append(l.pauses.list, pause{c, l.Group.elapsed() + min(max(long, pauseStep), pauseMost)})
	if l.pauses.n.Store(int32(len(l.pauses.list))); len(l.pauses.list) == 1 {
		l.waker.yieldTurn() // the waker must begin to look at the time
	}
	c.throttle()
	return true
}

// Pause has a connection's peer wait for so long, within bounds: its socket is not read, and what it has
// sent is answered then. To refuse a request costs nearly as much as to answer it, so who is
// refused again and again is served less often.
func Pause(c *Conn, long time.Duration) {
	if Delay(c, long) {
		c.Loop.Group.Count.Rests.Add(1)
	}
}

// pausesOver lets connections whose pause is over continue, one after the other: each has a turn of its own.
func (l *Loop) pausesOver() {
	now, left := l.Group.elapsed(), l.pauses.list[:0]
	for _, r := range l.pauses.list {
		switch {
		case r.c.state != forPause || l.Group.IsDraining():
		case now < r.until:
			left = append(left, r)
		case r.c.state.become(reading):
			yield(r.c)
		}
	}
	clear(l.pauses.list[len(left):])
	l.pauses.list = left
	l.pauses.n.Store(int32(len(left)))
}
