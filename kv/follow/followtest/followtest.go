// Package followtest follows a store from a goroutine: for the tests of stores, and for fakes that
// push what a server would.
package followtest

import (
	"context"
	"slices"

	"confcenter/kv"
	"confcenter/kv/follow"
)

// Limits of a Watcher: small, so that it takes little to make it fall behind.
const (
	Memory    = 512 << 10
	piece     = 64 << 10 // bytes that it reads at a time
	MaxEvents = 256      // of one notice of Cut
)

// Cut has MaxEvents of any size in a notice.
var Cut = follow.Cut{Max: MaxEvents, Cost: func(*kv.Event) int { return 1 }}

// Watcher has a goroutine of its own follow a store.
type Watcher struct {
	// set at start
	exact    *follow.Exact
	follower *follow.Follower
	deliver  func(kv.Notice) error
	life     context.Context
	end      context.CancelFunc
	done     chan struct{}
}

// Watch passes what the request asks for to deliver, in notices of that cut, until Close or an
// error. deliver may keep the notices.
func Watch(store kv.Store, request follow.Request, cut follow.Cut, deliver func(kv.Notice) error) (*Watcher, error) {
	w := &Watcher{
		exact:   follow.NewExact(follow.Config{Store: store, Keep: Memory, Piece: piece, Holders: 1, Readers: 1, Cut: cut}),
		deliver: deliver,
		done:    make(chan struct{}),
	}
	var err error
	if w.follower, err = w.exact.Follow(request); err != nil {
		w.exact.Close()
		return nil, err
	}
	w.life, w.end = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		defer w.exact.Close()
		defer w.follower.Stop()
		for w.step() == nil {
		}
	}()
	return w, nil
}

// Close ends the watch and waits until deliver has returned.
func (w *Watcher) Close() {
	w.end()
	<-w.done
}

// Missed is how often what was kept did not reach back to where the watcher was.
func (w *Watcher) Missed() uint64 { return w.exact.Behind() }

func (w *Watcher) step() error {
	n, err := w.follower.Next(w.life)
	if err != nil {
		return err
	}
	n.Events = slices.Clone(n.Events)
	return w.deliver(n)
}
