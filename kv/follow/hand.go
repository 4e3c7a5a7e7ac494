package follow

import (
	"context"
	"runtime"

	"confcenter/internal/clock"
)

// maxWakes is how many followers are woken before all else may go first: there may be thousands.
const maxWakes = 16

// hand is a goroutine that works when it is nudged.
type hand struct {
	// set at open
	wake chan struct{} // capacity 1
	life context.Context
	end  context.CancelFunc
	done chan struct{}

	woken int // the goroutine's
}

func (h *hand) start(work func()) {
	h.wake, h.done = make(chan struct{}, 1), make(chan struct{})
	h.life, h.end = context.WithCancel(context.Background())
	go func() {
		defer close(h.done)
		for {
			select {
			case <-h.life.Done():
				return
			case <-h.wake:
				work()
			}
		}
	}()
}

func (h *hand) stop() {
	h.end()
	<-h.done
}

// rouse wakes a follower.
func (h *hand) rouse(wake chan<- struct{}) {
	clock.Nudge(wake)
	if h.woken++; h.woken%maxWakes == 0 {
		runtime.Gosched()
	}
}
