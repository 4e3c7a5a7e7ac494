package sse

import "runtime"

// turnBytes is how much a stream writes before others are let in: everything else in
// the middle of an event, other streams after it, so that only as many events as streams
// have their turn are in memory for streams that read.
const turnBytes = 64 << 10

// turns share the processors between the streams and everything else. Without them a
// thousand streams that are told of one change would all be ready to run, and a writer
// would wait behind them at each step of its write.
type turns struct {
	slots chan struct{} // holds one per stream that is at work
}

// newTurns lets streams use half of the processors.
func newTurns() turns {
	return turns{make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Turn is a stream's permission to work. It belongs to the stream's goroutine, which
// must not wait for anything while it has its turn.
type Turn struct {
	// set at open
	turns turns
	rest  func() // lets go of what can be read again; called at the end of each turn

	held  bool
	spent int // bytes written in this turn
}

// Begin waits for the stream's turn, unless it has it.
func (t *Turn) Begin() {
	if t.held {
		return
	}
	t.held, t.spent = true, 0
	select {
	case t.turns.slots <- struct{}{}:
		return
	default:
	}
	t.turns.slots <- struct{}{}
	// A goroutine that is woken runs before all that are ready on its processor, and so would one
	// stream after the other: be the last instead.
	runtime.Gosched()
}

// End ends the turn, if the stream has it.
func (t *Turn) End() {
	if !t.held {
		return
	}
	t.held = false
	t.rest()
	<-t.turns.slots
}

// Spend counts what was written, or the work that n bytes are, and lets everything else go first from time to time.
func (t *Turn) Spend(n int) {
	before := t.spent / turnBytes
	if t.spent += n; t.spent/turnBytes > before {
		runtime.Gosched()
	}
}

// over reports whether it is another stream's turn.
func (t *Turn) over() bool { return t.spent >= turnBytes }
