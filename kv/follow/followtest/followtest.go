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
	done     chan struct{}
}

// Watch passes what the request asks for to deliver, in notices of that cut, until Close or an
// error. deliver may keep the notices.
func Watch(store kv.Store, request follow.Request, cut follow.Cut, deliver func(kv.Notice) error) (*Watcher, error) {
	exact := follow.NewExact(follow.Config{Store: store, Keep: Memory, Piece: piece, Holders: 1, Readers: 1, Cut: cut})
	follower, err := exact.Follow(request)
	if err != nil {
		exact.Close()
		return nil, err
	}
	w := &Watcher{exact, follower, make(chan struct{})}
	go func() {
		defer close(w.done)
		defer exact.Close()
		defer follower.Stop()
		for err == nil {
			var n kv.Notice
			if n, err = follower.Next(context.Background()); err == nil {
				n.Events = slices.Clone(n.Events)
				err = deliver(n)
			}
		}
	}()
	return w, nil
}

// Close ends the watch and waits until deliver has returned.
func (w *Watcher) Close() {
	w.follower.Stop()
	<-w.done
}

// Missed is how often what was kept did not reach back to where the watcher was.
func (w *Watcher) Missed() uint64 { return w.exact.Behind() }
