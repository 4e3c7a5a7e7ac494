package client

import (
	"cmp"
	"context"
	"sync"

	"confcenter/client/internal/callback"
	"confcenter/client/internal/connection"
	"confcenter/internal/clock"
)

// follower is the common part of a watch and a handle. It is attached to a feed and
// receives its states; for the main config, to one feed after another.
type follower struct {
	// set at open
	c       *Client
	query   Query
	deliver func(*Document) // called with each state that differs from the last
	ready   chan struct{}   // closed with the first state, or when there cannot be one
	settle  func()          // closes ready

	// turn is held during deliver, since two feeds may have a state at the same moment
	// while the main config moves. It is locked before mu.
	turn sync.Mutex

	mu      sync.Mutex // guards the rest
	feed    *feed      // nil if there is no main config
	current *Document
	err     error // why current is nil
	stopped bool
}

func (c *Client) newFollower(q Query, deliver func(*Document)) *follower {
	ready := make(chan struct{})
	return &follower{c: c, query: q, deliver: deliver, ready: ready, settle: sync.OnceFunc(func() { close(ready) })}
}

// follow starts following the query and returns when the first state has been delivered.
// After an error nothing is delivered any more.
func (w *follower) follow(ctx context.Context) error {
	if w.query.Name == "" {
		if err := w.c.followMeta(ctx); err != nil {
			return err
		}
	}
	w.begin()
	err := w.c.wait(ctx, w.ready)
	w.mu.Lock()
	if w.current != nil {
		w.mu.Unlock()
		return nil
	}
	w.stopped = true
	err = cmp.Or(err, w.err)
	w.mu.Unlock()
	w.stop()
	return err
}

func (c *Client) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return connection.ContextError(ctx, false)
	case <-c.ctx.Done():
		return closedError()
	}
}

func (w *follower) begin() {
	if w.query.Name != "" {
		w.move(w.query.Name)
		return
	}
	w.c.moving.Lock()
	defer w.c.moving.Unlock()
	w.c.mu.Lock()
	w.c.mains[w] = struct{}{}
	name := w.c.identity.MainConf
	w.c.mu.Unlock()
	w.move(name)
}

// move attaches w to the feed of another file; without a name the document is absent.
func (w *follower) move(name string) {
	var next *feed
	if name != "" {
		var err error
		if next, err = w.c.join(feedKey{name, w.query.Path, w.query.Merged, w.query.Marks}, w); err != nil {
			w.fail(nil, err)
			return
		}
	}
	w.mu.Lock()
	last := w.feed
	if w.stopped {
		last = next
	} else {
		w.feed = next
	}
	w.mu.Unlock()
	if next == nil {
		w.update(nil, &Document{Path: w.query.Path, Merged: w.query.Merged, stored: w.c.cfg.Clock.Now(), clock: w.c.cfg.Clock})
	} else {
		clock.Nudge(next.wake)
	}
	if last != nil {
		w.c.leave(last, w)
	}
}

// update takes a state from f. Unchanged contents are not delivered.
func (w *follower) update(f *feed, doc *Document) {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.mu.Lock()
	if w.stopped || f != w.feed {
		w.mu.Unlock()
		return
	}
	same := sameContents(w.current, doc)
	w.current = doc
	w.mu.Unlock()
	if !same {
		w.deliver(doc)
	}
	w.settle()
}

// fail takes the reason from f why there is no state.
func (w *follower) fail(f *feed, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f == w.feed {
		w.err = err
		w.settle()
	}
}

func (w *follower) document() *Document {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

func (w *follower) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// stop ends following. It may be called twice.
func (w *follower) stop() {
	w.mu.Lock()
	f := w.feed
	w.feed, w.stopped = nil, true
	w.mu.Unlock()
	w.c.mu.Lock()
	delete(w.c.mains, w)
	w.c.mu.Unlock()
	if f != nil {
		w.c.leave(f, w)
	}
}

// Watch is a document that is followed. End it with Stop.
type Watch struct {
	follower *follower
	fn       func(*Document)
	job      *callback.Job

	last *Document // job only: what fn was last called with
}

// Watch follows a document: fn gets its current state first and then every change, in
// order and one call at a time; functions of different watches run concurrently. If
// changes come faster than fn returns, fn gets only the newest state; unchanged
// contents are not reported again. Across lost connections and restarts of the server it
// never gets an older state than before, and in the end the newest; to learn of every
// change use [Client.WatchDocuments]. A panic of fn goes to Config.OnError, and fn is
// called with the next change. A missing or deleted file is reported as a Document
// that does not Exist.
//
// An empty Query.Name follows the main config, also when _meta.json assigns
// another file.
//
// Watch waits for the current state, at most until ctx ends. After that ctx has no
// effect, and the watch lasts until Stop or Close, across any number of connections.
// If no server answers, the state comes from the disk cache; if that lacks it, the
// error is ErrUnreachable.
func (c *Client) Watch(ctx context.Context, q Query, fn func(*Document)) (*Watch, error) {
	w := &Watch{fn: fn}
	w.job = &callback.Job{Run: w.run}
	w.follower = c.newFollower(q, func(*Document) { c.callbacks.Post(w.job) })
	if err := w.follower.follow(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// WatchMain is Watch for the program's main config, merged over what it inherits.
func (c *Client) WatchMain(ctx context.Context, fn func(*Document)) (*Watch, error) {
	return c.Watch(ctx, Query{Merged: true}, fn)
}

// run is the watch's job.
func (w *Watch) run() {
	doc := w.follower.document()
	if w.follower.ended() || sameContents(doc, w.last) {
		return
	}
	w.last = doc
	w.follower.c.callbacks.Call("the function given to Watch of "+doc.where(""), func() { w.fn(doc) })
}

// Document returns the newest state known, which fn may not have seen yet.
func (w *Watch) Document() *Document { return w.follower.document() }

// Stop ends the watch. fn is not called again, but a call that has begun may
// still be running when Stop returns.
func (w *Watch) Stop() { w.follower.stop() }
