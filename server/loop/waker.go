package loop

import (
	"sync"
	"time"

	"confcenter/internal/clock"
)

// Poll intervals for peers that do not read: the event loop has no event for "all
// written", so it must be polled.
const (
	pollMin = time.Millisecond
	pollMax = 20 * time.Millisecond
)

// waker gives a loop turns that it cannot queue itself: a task queued from the loop would
// run before the loop looks at its sockets. Any goroutine may use it.
type waker struct {
	// set at open
	wake func()        // makes the loop take a turn
	next chan struct{} // cap 1: the loop needs another turn
	stop chan struct{}
	done sync.WaitGroup
}

func (w *waker) init(wake func()) {
	w.wake, w.next, w.stop = wake, make(chan struct{}, 1), make(chan struct{})
}

// yieldTurn asks for another turn after the loop has looked at its sockets.
func (w *waker) yieldTurn() { clock.Nudge(w.next) }

// start starts waking the loop, polling as long as connections are blocked, and ending their
// rests. close ends it.
func (w *waker) start(s *sweep, poll func(), r *rests, endRests func()) {
	w.done.Go(func() { w.run(s, poll, r, endRests) })
}

func (w *waker) run(s *sweep, poll func(), r *rests, endRests func()) {
	interval := pollMin
	timer, rest := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	rest.Stop()
	defer timer.Stop()
	defer rest.Stop()
	resting := false
	for {
		if !resting && r.n.Load() > 0 {
			resting = true
			rest.Reset(restStep)
		}
		var due <-chan time.Time
		if s.n.Load() > 0 {
			timer.Reset(interval)
			due = timer.C
		} else {
			interval = pollMin
		}
		select {
		case <-w.stop:
			return
		case <-w.next:
			w.wake()
		case <-due:
			if interval = min(interval*2, pollMax); s.moved.Swap(false) {
				interval = pollMin
			}
			poll()
		case <-rest.C:
			resting = false
			endRests()
		}
	}
}

// close ends the waker and waits for it.
func (w *waker) close() {
	close(w.stop)
	w.done.Wait()
}
