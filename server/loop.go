package server

import (
	"sync/atomic"
	"time"

	"confcenter/protocol"
)

// Budgets of one loop turn, in units of about one send.
const (
	wakeBudget    = 192 // of a turn that was woken for mail
	trafficBudget = 32  // of mail done after a peer's traffic, so that neither starves
)

// chained is how soon after a turn another one begins that was queued during it.
const chained = time.Microsecond

// loop is what the sessions of one event loop share. All of it but the mailbox
// and the counters is touched on that loop only.
type loop struct {
	// set at open
	srv  *Server
	exec func(fn func()) error // runs fn on the loop, from any goroutine, in no order
	wake func()                // makes the loop take a turn
	box  mailbox
	hub  hub
	kv   kvHub

	// loop only
	batch      []mail // taken from box, next is the first not done
	next       int
	held       bool       // batch[next] waits for a worker
	now        int64      // unix ns, refreshed by each tick
	sessions   []*session // session.index is the place
	blocked    []*session // sessions whose peer has not read everything
	bulk       int        // bytes of long output that may still be written in this turn
	sweepAt    int        // next of blocked to look at, going down; 0: no sweep
	sweepAgain bool       // another sweep is due
	swept      time.Time  // when traffic last let a sweep go on
	turned     time.Time  // when the last turn that was woken ended
	relieved   time.Time  // when a session to close was last looked for
	starved    []*session // sessions parked because a store's queue was full
	room       bool       // a store's queue has had room since the starved last tried
	filled     []*session // sessions whose next reply was filled in this turn
	timed      []*session // sessions with a deadline
	out        []byte     // replies of the session being served
	frame      int        // where the reply begun last starts in out
	scratch    []byte     // pieces put together for one write
	req        protocol.Request
	gets       getRun
	// counted since they were last added to the counters that others read
	requests, replies uint64
	counting          protocol.Command // what requests are
	watch             stopwatch
	retained          map[*byte]*retention

	// any goroutine
	measured  measures
	ticked    atomic.Int64  // unix ns of the last tick taken
	yield     chan struct{} // cap 1: the waker shall make the loop take another turn
	relieving atomic.Bool   // another loop has asked this one to relieve memory
	feeding   atomic.Bool   // mail is on its way that says there is room
	moved     atomic.Bool   // a blocked session's peer has read something
	blockedN  atomic.Int32  // len(blocked), for the waker
	stop      chan struct{}
	wakerDone chan struct{}
}

func newLoop(srv *Server, exec func(fn func()) error) *loop {
	l := &loop{
		srv:       srv,
		exec:      exec,
		now:       srv.cfg.Clock.Now().UnixNano(),
		retained:  make(map[*byte]*retention),
		yield:     make(chan struct{}, 1),
		stop:      make(chan struct{}),
		wakerDone: make(chan struct{}),
	}
	turn := func() {
		// A turn that was asked for while the one before it still ran is queued
		// right behind it, and the loop would not look at its sockets in between.
		if time.Since(l.turned) < chained {
			l.yieldTurn()
			return
		}
		l.turn(wakeBudget, bulkTurn)
		l.turned = time.Now()
	}
	// An engine that has stopped takes no turn, which is all the error can say.
	l.wake = func() { _ = exec(turn) }
	l.ticked.Store(l.now)
	l.hub.init()
	l.kv.init()
	go l.waker()
	return l
}

// post hands m to the loop, from any goroutine.
func (l *loop) post(m mail) {
	if l.box.put(m) {
		l.wake()
	}
}

// turn delivers mail and lets blocked sessions go on, within the budgets of one
// turn: units of mail, bytes of bulk.
func (l *loop) turn(budget, bulk int) {
	l.bulk = bulk
	l.deliver(budget)
	l.sweep()
}

// afterTraffic is the turn a loop takes when it has served a peer, so that mail
// goes on where traffic never ends.
func (l *loop) afterTraffic() {
	if l.box.waiting() {
		l.deliver(trafficBudget)
	}
	if l.sweepAt > 0 || l.sweepAgain {
		if now := time.Now(); now.Sub(l.swept) >= bulkPause {
			l.swept = now
			l.bulk = bulkTraffic
			l.sweep()
		}
	}
}

// deliver delivers mail until the box is empty or the budget is used up, and
// gives out the replies that it brought.
func (l *loop) deliver(budget int) {
	l.deliverMail(budget)
	l.giveOut()
}

func (l *loop) deliverMail(budget int) {
	for !l.held {
		if l.next == len(l.batch) {
			clear(l.batch)
			l.next = 0
			if l.batch = l.box.take(l.batch[:0]); len(l.batch) == 0 {
				return
			}
		}
		if budget <= 0 {
			l.yieldTurn()
			return
		}
		used, done := l.batch[l.next].deliver(l, budget)
		budget -= used
		if done {
			l.next++
		}
	}
}

// addCounts brings the counters that others read up to date. Not every request
// should touch them.
func (l *loop) addCounts() {
	l.addRequests()
	if l.replies != 0 {
		l.srv.count.Replies.Add(l.replies)
		l.replies = 0
	}
}

// yieldTurn asks for another turn after the loop has looked at its sockets. A
// task queued from the loop itself would run before that, hence the waker.
func (l *loop) yieldTurn() {
	select {
	case l.yield <- struct{}{}:
	default:
	}
}

// hold stops delivery until release, so that mail which needs a worker keeps its
// place.
func (l *loop) hold() { l.held = true }

// release ends hold, from any goroutine.
func (l *loop) release() {
	// Not by mail: the mailbox is what is being held.
	_ = l.exec(func() {
		l.held = false
		l.turn(wakeBudget, bulkTurn)
	})
}

// waker gives the loop another turn where it cannot ask for one itself. It ends
// with close.
func (l *loop) waker() {
	defer close(l.wakerDone)
	interval := pollMin
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var poll <-chan time.Time
		if l.blockedN.Load() > 0 {
			timer.Reset(interval)
			poll = timer.C
		} else {
			interval = pollMin
		}
		select {
		case <-l.stop:
			return
		case <-l.yield:
			l.wake()
		case <-poll:
			if interval = min(interval*2, pollMax); l.moved.Swap(false) {
				interval = pollMin
			}
			l.post(mailFunc((*loop).sweepNow))
		}
	}
}

// close ends the waker and waits for it.
func (l *loop) close() {
	close(l.stop)
	<-l.wakerDone
}

// add and remove keep the list of the loop's sessions.
func (l *loop) add(s *session) {
	s.index = len(l.sessions)
	l.sessions = append(l.sessions, s)
}

func (l *loop) remove(s *session) {
	last := len(l.sessions) - 1
	l.sessions[s.index] = l.sessions[last]
	l.sessions[s.index].index = s.index
	l.sessions[last] = nil
	l.sessions = l.sessions[:last]
}
