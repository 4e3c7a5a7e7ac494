package kvtest

import (
	"context"
	"slices"
	"sync/atomic"

	"confcenter/kv"
	"confcenter/kv/follow"
)

// Limits of a Watcher: small, so that it takes little to make it fall behind.
const (
	watcherMemory = 512 << 10
	watcherNotice = 256 // events of one notice
)

// watcherCut is what the suite makes notices of.
var watcherCut = follow.Cut{Max: watcherNotice, Cost: func(*kv.Event) int { return 1 }}

// Watcher has a cursor tell what it can from a goroutine of its own: the least that
// following a store takes.
type Watcher struct {
	// set at start
	source  follow.Source
	recent  *follow.Recent
	cursor  *follow.Cursor // the goroutine's
	cut     follow.Cut
	deliver func(kv.Notice) error
	wake    chan struct{} // capacity 1: something is new in recent
	life    context.Context
	end     context.CancelFunc
	done    chan struct{}

	fetched atomic.Int64 // how often it had to ask the store
}

// Watch tells deliver what the request asks for, in notices of that cut, until Close
// or an error. deliver may keep the notices.
func Watch(store kv.Store, request follow.Request, cut follow.Cut, deliver func(kv.Notice) error) (*Watcher, error) {
	w := &Watcher{
		source:  follow.Source{Store: store, Piece: 64 << 10, Holders: 1},
		recent:  follow.NewRecent(watcherMemory),
		cut:     cut,
		deliver: deliver,
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	unhook := store.Follow(func(b *kv.Batch) {
		w.recent.Add(b)
		select {
		case w.wake <- struct{}{}:
		default:
		}
	})
	cursor, newest, err := w.source.Open(request)
	if err != nil {
		unhook()
		return nil, err
	}
	w.cursor = cursor
	w.recent.Begin(newest)
	w.life, w.end = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		defer unhook()
		defer w.cursor.Close()
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

// step tells a notice, or finds or waits for more.
func (w *Watcher) step() error {
	if w.life.Err() != nil {
		return w.life.Err()
	}
	n, ok := w.cursor.Next(w.cut)
	if !ok {
		if !w.cursor.Offer(w.recent.Since(w.cursor.At().Rev)) {
			w.fetched.Add(1)
			return w.cursor.Fetch(w.life)
		}
		if n, ok = w.cursor.Next(w.cut); !ok {
			select {
			case <-w.life.Done():
			case <-w.wake:
			}
			return nil
		}
	}
	n.Events = slices.Clone(n.Events)
	return w.deliver(n)
}
