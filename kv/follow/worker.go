package follow

import (
	"context"
	"runtime"

	"confcenter/internal/clock"
)

// maxWakes is how many followers are woken before all else may go first: there may be thousands.
const maxWakes = 16

// worker is a goroutine that works when it is nudged.
type worker struct {
	// set at open
	wake chan struct{} // capacity 1
	life context.Context
	end  context.CancelFunc
	done chan struct{}

	woken int // the goroutine's
}

func (w *worker) start(work func()) {
	w.wake, w.done = make(chan struct{}, 1), make(chan struct{})
	w.life, w.end = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		for {
			select {
			case <-w.life.Done():
				return
			case <-w.wake:
				work()
			}
		}
	}()
}

func (w *worker) stop() {
	w.end()
	<-w.done
}

// notify wakes a follower.
func (w *worker) notify(wake chan<- struct{}) {
	clock.Nudge(wake)
	if w.woken++; w.woken%maxWakes == 0 {
		runtime.Gosched()
	}
}
