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
// pauses. close ends it.
func (w *waker) start(s *sweep, poll func(), r *pauses, endPauses func()) {
	w.done.Go(func() { w.run(s, poll, r, endPauses) })
}

func (w *waker) run(s *sweep, poll func(), r *pauses, endPauses func()) {
	interval := pollMin
	timer, pause := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	pause.Stop()
	defer timer.Stop()
	defer pause.Stop()
	paused := false
	for {
		if !paused && r.n.Load() > 0 {
			paused = true
			pause.Reset(pauseStep)
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
		case <-pause.C:
			paused = false
			endPauses()
		}
	}
}

// close ends the waker and waits for it.
func (w *waker) close() {
	close(w.stop)
	w.done.Wait()
}
