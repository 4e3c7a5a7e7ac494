// Package clocktest has the clock of tests. Start with [NewFake], then [Fake.Advance] and
// [Fake.BlockUntil].
package clocktest

import (
	"sync"
	"time"

	"confcenter/internal/clock"
)

// Fake is a Clock whose time stands still until Advance is called. Make one with
// NewFake.
type Fake struct {
	mu      sync.Mutex
	changed sync.Cond // signalled when a waiter is added; uses mu

	// guarded by mu
	now     time.Time
	stepped time.Duration        // how far it was set
	waiters map[*waiter]struct{} // timers and tickers that are going to fire
}

// NewFake returns a Fake that shows start.
func NewFake(start time.Time) *Fake {
	f := &Fake{now: start, waiters: make(map[*waiter]struct{})}
	f.changed.L = &f.mu
	return f
}

// Now implements Clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Steady implements Clock.
func (f *Fake) Steady() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steadyLocked()
}

func (f *Fake) steadyLocked() time.Time { return f.now.Add(-f.stepped) }

// Step sets the time of day, forward or back, as a person or a time server does. No timer fires
// because of it.
func (f *Fake) Step(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.stepped = f.now.Add(d), f.stepped+d
}

// NewTimer implements Clock. A timer with d <= 0 has fired when it is returned
// and does not count in Waiters.
func (f *Fake) NewTimer(d time.Duration) clock.Timer { return f.add(d, 0) }

// NewTicker implements Clock.
func (f *Fake) NewTicker(d time.Duration) clock.Ticker {
	if d <= 0 {
		panic("clock: a ticker needs a period above zero")
	}
	return f.add(d, d)
}

func (f *Fake) add(d, period time.Duration) *waiter {
	w := &waiter{clock: f, c: make(chan time.Time, 1), period: period}
	w.Reset(d)
	return w
}

// Advance moves the time forward by d and fires each timer and ticker that falls due on
// the way, with the time it was due at. A ticker fires once a period, but keeps only the
// first of the ticks that no one receives in between. Now jumps from the time before to
// the time after. Advance does not wait for the receivers; the test observes what they
// do next. d < 0 panics.
func (f *Fake) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: time does not run backwards")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	for w := range f.waiters {
		w.fireDueLocked()
	}
}

// Waiters is how many timers and tickers are pending: neither fired nor stopped.
func (f *Fake) Waiters() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiters)
}

// BlockUntil returns when at least n timers and tickers are pending. A test calls it
// before Advance to be sure that the goroutine under test is already waiting. Its only
// deadline is go test's.
func (f *Fake) BlockUntil(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiters) < n {
		f.changed.Wait()
	}
}

// waiter is one timer or ticker. Its fields but c are guarded by the clock's mu.
type waiter struct {
	clock  *Fake
	c      chan time.Time // capacity 1: firing never waits for the receiver
	at     time.Time      // steady
	period time.Duration  // 0 for a timer
}

// C implements Timer and Ticker.
func (w *waiter) C() <-chan time.Time { return w.c }

// Stop implements Timer and Ticker.
func (w *waiter) Stop() {
	w.clock.mu.Lock()
	defer w.clock.mu.Unlock()
	w.disarmLocked()
}

// Reset implements Timer.
func (w *waiter) Reset(d time.Duration) {
	w.clock.mu.Lock()
	defer w.clock.mu.Unlock()
	w.disarmLocked()
	w.at = w.clock.steadyLocked().Add(max(d, 0))
	w.clock.waiters[w] = struct{}{}
	w.fireDueLocked()
	w.clock.changed.Broadcast()
}

// fireDueLocked fires w, which is pending, if it is due. Of the ticks that are due the
// first is enough: no one receives in between.
func (w *waiter) fireDueLocked() {
	late := w.clock.steadyLocked().Sub(w.at)
	if late < 0 {
		return
	}
	select {
	case w.c <- w.clock.now.Add(-late):
	default:
	}
	if w.period == 0 {
		delete(w.clock.waiters, w)
		return
	}
	w.at = w.at.Add(late - late%w.period + w.period)
}

// disarmLocked stops w and empties its channel, as Go's own timers do.
func (w *waiter) disarmLocked() {
	delete(w.clock.waiters, w)
	select {
	case <-w.c:
	default:
	}
}
