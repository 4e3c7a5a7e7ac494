package clock

import (
	"sync"
	"time"
)

// Fake is a Clock whose time stands still until Advance is called. Make it with
// NewFake.
type Fake struct {
	mu      sync.Mutex
	changed sync.Cond // signalled when a waiter is added; uses mu

	// guarded by mu
	now     time.Time
	waiters map[*waiter]struct{} // timers and tickers that are going to fire
}

// NewFake returns a Fake that shows start.
func NewFake(start time.Time) *Fake {
	f := &Fake{now: start, waiters: make(map[*waiter]struct{})}
	f.changed.L = &f.mu
	return f
}

// waiter is one timer or ticker. Its fields but c are guarded by the clock's mu.
type waiter struct {
	clock  *Fake
	c      chan time.Time // capacity 1: firing never waits for the receiver
	at     time.Time
	period time.Duration // 0 for a timer
}

// Now implements Clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// NewTimer implements Clock. A timer with d <= 0 has fired when it is returned
// and does not count in Waiters.
func (f *Fake) NewTimer(d time.Duration) Timer {
	w := &waiter{clock: f, c: make(chan time.Time, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armLocked(w, d)
	return fakeTimer{w}
}

// NewTicker implements Clock.
func (f *Fake) NewTicker(d time.Duration) Ticker {
	if d <= 0 {
		panic("clock: a ticker needs a period above zero")
	}
	w := &waiter{clock: f, c: make(chan time.Time, 1), period: d}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armLocked(w, d)
	return fakeTicker{w}
}

// Advance moves the time forward by d and fires each timer and ticker that falls
// due on the way, with the time it was due at. A ticker fires once a period, but
// keeps only the first of the ticks that nobody receives in between. Now shows the
// step as one: it is either the time before or the time after. Advance does not
// wait for the receivers; the test observes what they do next. d < 0 panics.
func (f *Fake) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: time does not run backwards")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	for w := range f.waiters {
		for f.pendingLocked(w) && !w.at.After(f.now) {
			w.fireLocked()
		}
	}
}

// Waiters is how many timers and tickers are going to fire: those that have
// neither fired nor been stopped.
func (f *Fake) Waiters() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiters)
}

// BlockUntil returns as soon as at least n timers and tickers are pending. A
// test calls it before Advance to be sure that the goroutine under test waits
// already. It has no deadline of its own; go test's is the limit.
func (f *Fake) BlockUntil(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiters) < n {
		f.changed.Wait()
	}
}

func (f *Fake) armLocked(w *waiter, d time.Duration) {
	w.at = f.now.Add(max(d, 0))
	if d <= 0 {
		w.fireLocked()
		return
	}
	f.waiters[w] = struct{}{}
	f.changed.Broadcast()
}

func (f *Fake) pendingLocked(w *waiter) bool {
	_, pending := f.waiters[w]
	return pending
}

func (w *waiter) fireLocked() {
	select {
	case w.c <- w.at:
	default: // an unread tick is enough
	}
	if w.period > 0 {
		w.at = w.at.Add(w.period)
		return
	}
	delete(w.clock.waiters, w)
}

// disarmLocked stops w, empties its channel as Go's own timers do, and reports
// whether it was pending.
func (w *waiter) disarmLocked() bool {
	pending := w.clock.pendingLocked(w)
	delete(w.clock.waiters, w)
	select {
	case <-w.c:
	default:
	}
	return pending
}

type fakeTimer struct{ w *waiter }

func (t fakeTimer) C() <-chan time.Time { return t.w.c }

func (t fakeTimer) Stop() bool {
	t.w.clock.mu.Lock()
	defer t.w.clock.mu.Unlock()
	unread := len(t.w.c) > 0
	// Since Go 1.23 a value nobody has received yet counts as not fired.
	return t.w.disarmLocked() || unread
}

func (t fakeTimer) Reset(d time.Duration) {
	t.w.clock.mu.Lock()
	defer t.w.clock.mu.Unlock()
	t.w.disarmLocked()
	t.w.clock.armLocked(t.w, d)
}

type fakeTicker struct{ w *waiter }

func (t fakeTicker) C() <-chan time.Time { return t.w.c }

func (t fakeTicker) Stop() {
	t.w.clock.mu.Lock()
	defer t.w.clock.mu.Unlock()
	t.w.disarmLocked()
}
