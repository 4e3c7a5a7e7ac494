package loop

import (
	"sync/atomic"
	"time"
)

// restTime is how long connections rest, at most, whose peers send far more than they may. What
// they sent meanwhile is answered then.
const restTime = 20 * time.Millisecond

// rests are a loop's connections that rest.
type rests struct {
	list []*Conn      // loop only
	n    atomic.Int32 // any goroutine: len(list), for the waker
}

// Rest has a connection's peer wait for a while. To refuse a request costs nearly as much as to answer it, so
// who is refused again and again is served less often.
func Rest(c *Conn) {
	r := &c.Loop.rests
	if !c.wait(forRest) {
		return
	}
	r.list = append(r.list, c)
	if r.n.Store(int32(len(r.list))); len(r.list) == 1 {
		c.Loop.waker.yieldTurn() // the waker must begin to look at the time
	}
}

// restsOver has those continue that rest.
func (l *Loop) restsOver() {
	list := l.rests.list
	l.rests.list = nil
	l.rests.n.Store(0)
	for _, c := range list {
		if c.state == forRest {
			endRest(c)
		}
	}
}

func endRest(c *Conn) {
	defer Guard(c)
	c.goOn()
}
