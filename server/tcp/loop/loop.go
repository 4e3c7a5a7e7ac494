// Package loop has the event loops and their connections: a loop's mailbox and turns; a
// connection's input and its state, the order of its replies, and its output; and the
// memory that all of this takes. It knows frames, but not the meaning of commands, which
// is up to the connections' users.
//
// A connection belongs to its loop, which never waits. Everything from outside reaches a
// loop as mail.
package loop

import (
	"slices"
	"sync/atomic"
	"time"
)

// Budgets of one loop turn, in units of about one send.
const (
	WakeBudget    = 192 // of a turn that was woken for mail
	trafficBudget = 32  // for mail after a peer's traffic, so that neither starves
)

// chained is how soon after a turn another one begins that was queued during it.
const chained = time.Microsecond

// Loop is what the connections of one event loop share. It is used on that loop only,
// except where noted.
type Loop struct {
	// set at open
	Group *Group
	exec  func(fn func()) error // runs fn on the loop, from any goroutine, in no order
	waker waker                 // any goroutine

	mail   inbox
	now    int64        // unix ns, refreshed by each tick
	ticked atomic.Int64 // any goroutine: unix ns of the last tick taken
	conns  []*Conn      // Conn.index is the place
	lists
	blocked blocked
	sweep   sweep
	pauses  pauses
	relief  relief
	buffer  buffer
	meter   meter
	gather  gather
}

// lists are the connections that a loop must come back to.
type lists struct {
	timed  []*Conn // those with a deadline
	filled []*Conn // those whose next reply was filled in this turn
	turns  []*Conn // those that have had a turn and want another, in order

	besides []beside // replies that are being made, oldest first
}

// buffer is used by one connection at a time.
type buffer struct {
	out     []byte    // replies of the connection being served
	frame   int       // where the current reply starts in out
	scratch []byte    // pieces joined for one write
	rooms   slotRooms // for the next connection that needs one
}

// NewLoop makes a loop of g. exec runs a function on the event loop that it belongs to,
// from any goroutine, in no order.
func NewLoop(g *Group, exec func(fn func()) error) *Loop {
	l := &Loop{Group: g, exec: exec, now: g.clock.Now().UnixNano()}
	l.relief = relief{l: l, retained: make(map[*byte]*retention)}
	l.blocked.l = l
	l.gather.l = l
	l.meter.init(l)
	l.sweep.w = &l.waker
	l.ticked.Store(l.now)
	var turned time.Time // when the last turn that was woken ended
	turn := func() {
		// A turn that was asked for while the one before it still ran is queued
		// right behind it, and the loop would not look at its sockets in between.
		if time.Since(turned) < chained {
			l.waker.yieldTurn()
			return
		}
		l.Wake()
		turned = time.Now()
	}
	// The only possible error is that the engine has stopped: then there are no more turns.
	l.waker.init(func() { _ = exec(turn) })
	l.waker.start(&l.sweep, l.Poll, &l.pauses, func() { l.Post(MailFunc((*Loop).pausesOver)) })
	g.addLoop(l)
	return l
}

// close ends the loop's waker and waits for it.
func (l *Loop) close() { l.waker.close() }

// Post hands m to the loop, from any goroutine.
func (l *Loop) Post(m Mail) {
	if l.mail.box.put(m) {
		l.waker.wake()
	}
}

// turn hands on what was gathered, delivers mail and lets blocked connections continue,
// within the budgets of one turn: units of mail, bytes of bulk.
func (l *Loop) turn(budget, bulk int) {
	l.gather.handOn()
	l.sweep.bulk = bulk
	l.deliver(budget)
	l.sweep.some()
	l.nextTurn()
}

// nextTurn gives one connection its next turn.
func (l *Loop) nextTurn() {
	if len(l.turns) == 0 {
		return
	}
	c := l.turns[0]
	l.turns = slices.Delete(l.turns, 0, 1)
	if c.state == forTurn {
		c.goOn()
	}
	if len(l.turns) > 0 {
		l.waker.yieldTurn()
	}
}

// Wake is the turn of a loop that was woken.
func (l *Loop) Wake() { l.WakeWithin(WakeBudget) }

// WakeWithin is Wake with another budget for mail.
func (l *Loop) WakeWithin(budget int) { l.turn(budget, bulkTurn) }

// AfterTraffic is the turn after a peer was served, so that mail is delivered even if
// traffic never ends.
func (l *Loop) AfterTraffic() {
	if l.mail.box.waiting() {
		l.deliver(trafficBudget)
	}
	l.sweep.afterTraffic()
}

// deliver delivers mail until the box is empty or the budget is used up, and sends the
// replies that the mail has completed.
func (l *Loop) deliver(budget int) {
	if !l.mail.deliver(l, budget) {
		l.waker.yieldTurn()
	}
	l.giveOut()
}

// giveOut sends the replies that were completed in this turn, and lets connections try
// again that found a store's queue full.
func (l *Loop) giveOut() {
	for i, c := range l.filled {
		l.filled[i] = nil
		c.on.leave(onFilled)
		c.fillOrder()
	}
	l.filled = l.filled[:0]
	l.blocked.feed()
}

// Poll makes the loop check all connections whose peers have not read everything, as it
// does by itself every few milliseconds.
func (l *Loop) Poll() { l.Post(MailFunc(func(l *Loop) { l.sweep.soon() })) }

// Waits is the number of items in the loop's mailbox.
func (l *Loop) Waits() int { return l.mail.box.size() }

// Busy reports whether a turn has something to do now.
func (l *Loop) Busy() bool {
	return l.mail.box.waiting() || l.sweep.due() || len(l.gather.frames) > 0 || len(l.turns) > 0
}

// Moment is the time at which the loop turned to the connection it serves.
func (l *Loop) Moment() time.Time { return l.Group.began.Add(l.meter.moment()) }

// Hold stops delivery until Release, so that mail which needs a worker keeps its place.
func (l *Loop) Hold() { l.mail.held = true }

// Release ends Hold, from any goroutine.
func (l *Loop) Release() {
	// Not by mail, because the mailbox is on hold.
	_ = l.exec(func() {
		l.mail.held = false
		l.Wake()
	})
}

// Each calls fn for each connection, which fn may close.
func (l *Loop) Each(fn func(c *Conn)) {
	for i := len(l.conns) - 1; i >= 0; i-- {
		if i < len(l.conns) { // fn may have closed several
			fn(l.conns[i])
		}
	}
}

// Add adds an opened connection to the loop.
func (l *Loop) Add(c *Conn) {
	c.index = len(l.conns)
	l.conns = append(l.conns, c)
}

func (l *Loop) remove(c *Conn) {
	l.conns[len(l.conns)-1].index = c.index
	l.conns = dropAt(l.conns, c.index)
}

// tick closes connections whose time has run out: those that never identified themselves,
// are being closed or do not read.
func (l *Loop) tick(now int64) {
	l.now = now
	l.ticked.Store(now)
	l.blocked.tryAgain()
	l.relief.tick()
	l.overtake(now)
	for i := len(l.timed) - 1; i >= 0; i-- {
		c := l.timed[i]
		c.checkDeadline(now)
		if c.state == dead || !c.state.over() && c.User.Identified() {
			c.on.leave(onTimed)
			l.timed = dropAt(l.timed, i)
		}
	}
	l.sweep.stalled(now, l.Group.Limits.Stall.Nanoseconds())
}
