// Package followtest follows a store from a goroutine: for the tests of stores, and for fakes that
// push what a server would.
package followtest

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"confcenter/kv"
	"confcenter/kv/follow"
)

// Limits of a Watcher: small, so that it takes little to make it fall behind.
const (
	Memory    = 512 << 10
	piece     = 64 << 10 // bytes that it takes at a time
	MaxEvents = 256      // of one notice of Cut
)

// Cut has MaxEvents of any size in a notice.
var Cut = follow.Cut{Max: MaxEvents, Cost: func(*kv.Event) int { return 1 }}

// Watcher drives a cursor from a goroutine of its own: the minimum that following a store takes.
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

	missed atomic.Int64 // see Missed
}

// Watch passes what the request asks for to deliver, in notices of that cut, until Close or an
// error. deliver may keep the notices.
func Watch(store kv.Store, request follow.Request, cut follow.Cut, deliver func(kv.Notice) error) (*Watcher, error) {
	w := &Watcher{
		source:  follow.Source{Store: store, Piece: piece, Holders: 1},
		recent:  follow.NewRecent(Memory, nil),
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

// Missed is how often the feed did not reach back to where the watcher was.
func (w *Watcher) Missed() int64 { return w.missed.Load() }

// step delivers a notice, or waits for news.
func (w *Watcher) step() error {
	n, ok, err := w.cursor.Poll(w.life, w.since, w.cut)
	switch {
	case w.life.Err() != nil || err != nil:
		return cmp.Or(w.life.Err(), err)
	case ok:
		n.Events = slices.Clone(n.Events)
		return w.deliver(n)
	}
	select {
	case <-w.life.Done():
	case <-w.wake:
	}
	return nil
}

func (w *Watcher) since(revision kv.Revision) follow.Chunk {
	chunk := w.recent.Since(revision, piece)
	if revision < chunk.After {
		w.missed.Add(1)
	}
	return chunk
}
