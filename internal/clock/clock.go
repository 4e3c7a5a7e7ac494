// Package clock is how the rest of confcenter asks what time it is and waits
// for it to pass.
//
// Code that waits takes a [Clock] in its Config and never calls the time package
// itself. The running server gets [Real]; a test gets a [Fake] and decides when
// time passes, so a keep-alive of twenty minutes is tested in microseconds and
// no test sleeps. Start with the Clock interface below, then [Fake.Advance] and
// [Fake.BlockUntil].
package clock

import "time"

// Clock tells the time and makes timers. All methods may be called from any
// goroutine.
type Clock interface {
	// Now is the present moment. Callers that put it on the wire cut it to
	// whole seconds themselves.
	Now() time.Time
	// NewTimer makes a timer that fires once after d; d <= 0 fires at once.
	// The caller owns it and stops it when it is no longer wanted.
	NewTimer(d time.Duration) Timer
	// NewTicker makes a ticker that fires every d until stopped. It panics if
	// d <= 0, as time.NewTicker does.
	NewTicker(d time.Duration) Ticker
}

// Ticker fires again and again. Ticks that nobody has received yet are not
// stored beyond one, so a slow receiver loses ticks and does not queue them.
type Ticker interface {
	// C receives the time of each tick. It is always the same channel and is never
	// closed.
	C() <-chan time.Time
	// Stop ends the ticks. After it returns no stale value is left in C.
	Stop()
}

// Timer is a Ticker that fires once. It is not safe to Reset or Stop one Timer from
// two goroutines at the same moment.
type Timer interface {
	Ticker
	// Reset starts the timer anew, whatever state it was in. After it returns
	// no value of the earlier run is left in C.
	Reset(d time.Duration)
}

// Real is the clock of the machine, with monotonic readings.
func Real() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

func (realClock) NewTicker(d time.Duration) Ticker { return realTicker{time.NewTicker(d)} }

type realTimer struct{ t *time.Timer }

func (r realTimer) C() <-chan time.Time   { return r.t.C }
func (r realTimer) Stop()                 { r.t.Stop() }
func (r realTimer) Reset(d time.Duration) { r.t.Reset(d) }

type realTicker struct{ t *time.Ticker }

func (r realTicker) C() <-chan time.Time { return r.t.C }
func (r realTicker) Stop()               { r.t.Stop() }
