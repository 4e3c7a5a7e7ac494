// Package clock is how the rest of confcenter tells the time and waits for it to pass.
//
// Code that waits takes a [Clock] in its Config and does not call the time package
// itself. The running server gets [Real]; a test gets the one of clocktest and decides when time
// passes, so a keep-alive of twenty minutes is tested in microseconds and no test
// sleeps. Code that touches no socket can do without: testing/synctest stops the time
// package itself, but waits only for goroutines that do not wait for the network. Start
// with [Clock].
package clock

import "time"

// Clock tells the time and makes timers. All methods may be called from any
// goroutine.
type Clock interface {
	// Now is the current time. Callers that put it on the wire cut it to whole
	// seconds themselves.
	Now() time.Time
	// Steady is what Now would be if no one had set the machine's time of day since the process began.
	// What is to happen after a while is measured by it, and what is to happen at a moment by Now.
	Steady() time.Time
	// NewTimer makes a timer that fires once after d, at once if d <= 0. The caller
	// stops it when it is no longer needed.
	NewTimer(d time.Duration) Timer
	// NewTicker makes a ticker that fires every d until stopped. It panics if
	// d <= 0, as time.NewTicker does.
	NewTicker(d time.Duration) Ticker
}

// Ticker fires repeatedly. At most one tick waits to be received, so a slow receiver
// loses ticks instead of queueing them.
type Ticker interface {
	// C receives the time of each tick. It is always the same channel and is never
	// closed.
	C() <-chan time.Time
	// Stop ends the ticks. After it returns no stale value is left in C.
	Stop()
}

// Timer is a Ticker that fires once. Reset and Stop must not be called concurrently.
type Timer interface {
	Ticker
	// Reset restarts the timer, whatever its state. After it returns no value of
	// the earlier run is left in C.
	Reset(d time.Duration)
}

// Nudge lets the goroutine that waits for c go on. c has room for one, so that several nudges count as one.
func Nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Within waits until done is closed, or has something, and returns false if that takes longer than limit.
func Within(c Clock, limit time.Duration, done <-chan struct{}) bool {
	timer := c.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C():
		return false
	}
}

// Real is the machine's clock, with monotonic readings.
func Real() Clock { return realClock{} }

type realClock struct{}

var origin = time.Now()

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Steady() time.Time { return origin.Add(time.Since(origin)) }

func (realClock) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

func (realClock) NewTicker(d time.Duration) Ticker { return realTicker{time.NewTicker(d)} }

type realTimer struct{ t *time.Timer }

func (r realTimer) C() <-chan time.Time   { return r.t.C }
func (r realTimer) Stop()                 { r.t.Stop() }
func (r realTimer) Reset(d time.Duration) { r.t.Reset(d) }

type realTicker struct{ t *time.Ticker }

func (r realTicker) C() <-chan time.Time { return r.t.C }
func (r realTicker) Stop()               { r.t.Stop() }
