package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"

	"confcenter/client/internal/connection"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/protocol"
)

// WatchOptions say what to watch. The zero value watches every change of the
// namespace from now on; the KV with the empty name watches all namespaces.
type WatchOptions struct {
	// Key watches one key, Prefix all that begin with it; at most one of them.
	Key, Prefix string
	// From asks for the changes after that revision. If they are no longer kept
	// the watch begins with a Resync. 0: from now, unless Past is set.
	From kv.Revision
	// Epoch, with From, is that of the data which From is a revision of: KVWatch.Epoch when it
	// was told. If the server has other data by now the watch begins with a Resync. Empty: From
	// is taken for a revision of whatever the server has.
	Epoch string
	// Past makes From apply even if it is 0, the revision of an empty store: all
	// changes from the first one on.
	Past bool
	// State asks for the current state first: State notices, then Synced, then the
	// changes since. It excludes From and Past.
	State bool
	// Prev asks for Event.Prev. It is left out where the event with it would have more
	// than 4 MiB.
	Prev bool
	// Coalesce lets the server skip all but the last event of a key while changes
	// come faster than it can send.
	Coalesce bool
	// Buffer is about how many bytes, as they came, may wait here for Next; default 4 MiB. What comes
	// after so much is not kept: the server is asked to pause, and to continue once half
	// of it is read. Nothing is lost, and no other request waits for it.
	Buffer int
}

const (
	defaultWatchBuffer = 4 << 20
	// maxWatchState is how many bytes of a state, as they came, wait for Next, whatever the
	// buffer is: a state is of one revision, so the server cannot send the rest
	// of it later.
	maxWatchState = 512 << 20
)

// KVWatch follows keys. It survives lost connections and continues after the last
// revision it has, so Next misses nothing and repeats nothing. End it with Stop.
//
// If that is impossible, because the changes in between are no longer kept or the
// server has other data, there is a Resync notice: discard what you have; the state
// follows, as if WatchOptions.State were set.
type KVWatch struct {
	// set at open
	c       *Client
	kind    watchKind
	filter  kv.Filter
	options WatchOptions
	ctx     context.Context // ends with Stop and Close
	cancel  context.CancelFunc
	opened  chan struct{} // closed when a server has accepted the watch, or it has failed
	state   int           // limit on the bytes of a state that wait
	wake    chan struct{} // capacity 1: for the goroutine
	ready   chan struct{} // capacity 1: for Next

	mu sync.Mutex // guards the rest
	watchQueue
	watchPlace
}

// watchQueue is what waits for Next.
type watchQueue struct {
	queue []notice
	bytes int
	taken uint64 // number of notices that Next has returned
	told  string // the epoch of the last of them
	over  bool   // the buffer was full; nothing is queued until half of it is read
	err   error  // why the watch has ended
}

// watchPlace is a watch's position, its queue included, and the watch on a server.
type watchPlace struct {
	based    bool        // position is valid; otherwise a state must come first
	position kv.Revision // all changes up to it have come
	part     place       // and those of the next revision up to this key
	pieces   bool        // part of a state has come
	epoch    string      // of the server's data
	on       *session    // nil while there is no watch on a server
	id       uint32      // there
	open     bool        // opened is closed
}

type notice struct {
	kv.Notice
	cost  int
	epoch string
}

// place is a key within the events of a revision.
type place struct {
	revision kv.Revision
	ns, key  string
}

// covers reports whether e is at p or before it in the same revision.
func (p place) covers(e *kv.Entry) bool {
	return p.revision == e.Mod && (e.NS < p.ns || (e.NS == p.ns && e.Key <= p.key))
}

// Watch starts a watch and waits until a server has accepted it, at most until ctx
// ends. After that ctx has no effect, and the watch lasts until Stop or Close, across
// any number of connections. The error is ErrUnreachable if no server answers, and
// codes.FutureRevision if WatchOptions.From is in the future.
func (s *KV) Watch(ctx context.Context, o WatchOptions) (*KVWatch, error) {
	filter, err := o.filter(s.ns)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	kind := watchKind{
		watch: protocol.KVWatch, unwatch: protocol.KVUnwatch, event: protocol.KVEvent, parse: protocol.ParseKVEvents,
		append: func(dst []byte, r protocol.KVWatchRequest) []byte {
			r.Reveal = s.reveal
			return protocol.AppendKVWatch(dst, r)
		},
	}
	return s.c.watch(ctx, kind, filter, o)
}

// watch starts a watch of any kind.
func (c *Client) watch(ctx context.Context, kind watchKind, filter kv.Filter, o WatchOptions) (*KVWatch, error) {
	if o.Buffer <= 0 {
		o.Buffer = defaultWatchBuffer
	}
	w := &KVWatch{
		c: c, kind: kind, filter: filter, options: o, opened: make(chan struct{}),
		wake: make(chan struct{}, 1), ready: make(chan struct{}, 1),
		state: maxWatchState, watchPlace: watchPlace{based: !o.State, position: o.From, epoch: o.Epoch},
	}
	w.ctx, w.cancel = context.WithCancel(c.ctx)
	if !c.spawn(w.run) {
		w.cancel()
		return nil, fmt.Errorf("watch: %w", closedError())
	}
	if err := cmp.Or(c.wait(ctx, w.opened), w.failure()); err != nil {
		w.Stop()
		return nil, fmt.Errorf("watch: %w", err)
	}
	return w, nil
}

func (o *WatchOptions) filter(ns string) (kv.Filter, error) {
	f := kv.Filter{NS: ns, Text: o.Prefix}
	switch {
	case o.Key != "" && o.Prefix != "":
		return f, codes.Errorf(codes.BadRequest, "key and prefix exclude each other")
	case o.From < 0 || (o.State && (o.From != 0 || o.Past)):
		return f, codes.Errorf(codes.BadRequest, "from is %d: it is a revision, and excludes state", o.From)
	case o.Key != "":
		f.Text, f.Exact = o.Key, true
	}
	return f, f.Check()
}

// spawn runs fn on a goroutine that Close waits for; false after Close.
func (c *Client) spawn(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(fn)
	return true
}

// Next waits for the next notice. The events of one revision come together, or in
// notices that are marked More; entries must not be written to. An error is that
// of ctx, after which Next may be called again, or the end of the watch: ErrClosed,
// codes.TooLarge for a state of which more than 512 MiB wait to be read, or for an event
// of more than Config.MaxBody.
func (w *KVWatch) Next(ctx context.Context) (kv.Notice, error) {
	for {
		n, found, err := w.pop()
		if found || err != nil {
			return n, err
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return kv.Notice{}, connection.ContextError(ctx, false)
		}
	}
}

// Events yields the notices one by one. The loop ends after an error, which is that
// of Next.
func (w *KVWatch) Events(ctx context.Context) iter.Seq2[kv.Notice, error] { return each(ctx, w.Next) }

func each[N any](ctx context.Context, next func(context.Context) (N, error)) iter.Seq2[N, error] {
	return func(yield func(N, error) bool) {
		for {
			n, err := next(ctx)
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

func (w *KVWatch) pop() (n kv.Notice, found bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		clock.Nudge(w.ready) // for other waiting calls
		return n, false, w.err
	}
	if len(w.queue) == 0 {
		return n, false, nil
	}
	n, w.told = w.queue[0].Notice, w.queue[0].epoch
	w.bytes -= w.queue[0].cost
	w.queue[0] = notice{}
	w.queue = w.queue[1:]
	w.taken++
	if len(w.queue) > 0 {
		clock.Nudge(w.ready)
	}
	if w.over && w.roomLocked() {
		clock.Nudge(w.wake)
	}
	return n, true, nil
}

// Epoch names the server's data that the last notice of Next tells of, see Client.Epoch. A caller
// that keeps a revision for WatchOptions.From keeps it, too.
func (w *KVWatch) Epoch() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told
}

func (w *KVWatch) roomLocked() bool { return w.bytes <= w.options.Buffer/2 }

// Stop ends the watch. Next fails from now on.
func (w *KVWatch) Stop() { w.end(notSent(ErrClosed, "the watch has ended")) }

// end ends the watch because of err; only the first reason counts.
func (w *KVWatch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(err)
}

func (w *KVWatch) endLocked(err error) {
	w.err = cmp.Or(w.err, err)
	w.queue, w.bytes = nil, 0
	w.leaveLocked()
	w.openLocked()
	w.cancel()
	clock.Nudge(w.ready)
}

func (w *KVWatch) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *KVWatch) openLocked() {
	if !w.open {
		w.open = true
		close(w.opened)
	}
}

// take handles an event of a connection, or why it is refused. The connection's reader calls it.
func (w *KVWatch) take(on *session, body []byte, refused error) (err error) {
	var ev protocol.KVEvents
	if refused == nil {
		if ev, err = w.kind.parse(body); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := notice{Notice: kv.Notice{Revision: ev.Revision, Events: ev.Events}, cost: len(body)}
	switch {
	case w.err != nil || w.on != on:
	case refused != nil:
		w.endLocked(refused)
	case w.id != ev.Watch:
	case ev.Resync:
		w.restartLocked()
	case ev.Synced:
		n.Kind = kv.Synced
		w.based, w.pieces, w.position, w.part = true, false, ev.Revision, place{}
		w.pushLocked(n)
	case ev.State:
		n.Kind = kv.State
		w.pieces = true
		if w.bytes+n.cost > w.state && len(w.queue) > 0 {
			w.endLocked(codes.Errorf(codes.TooLarge, "more than %d bytes of state wait to be read; read faster, or watch less", w.state))
		} else {
			w.pushLocked(n)
		}
	case !w.based: // a change cannot be part of a state
	default:
		n.Kind, n.More = kv.Changed, ev.More
		w.pushChangedLocked(n)
	}
	return nil
}

func (w *KVWatch) pushLocked(n notice) {
	n.epoch = w.epoch
	w.queue = append(w.queue, n)
	w.bytes += n.cost
	clock.Nudge(w.ready)
}

// pushChangedLocked queues a change. It leaves out events that were queued before the
// connection broke in the middle of their revision. If the buffer is full, the server is
// asked for the change again later. The buffer is not full because of the change itself:
// else the server would be asked for it over and over while too much waits for it to fit,
// but little enough to continue.
func (w *KVWatch) pushChangedLocked(n notice) {
	if w.bytes >= w.options.Buffer {
		w.over = true
		w.leaveLocked()
		clock.Nudge(w.wake)
		return
	}
	known := func(e *kv.Entry) bool { return e.Mod <= w.position || w.part.covers(e) }
	for len(n.Events) > 0 && known(n.Events[0].Entry) {
		n.Events = n.Events[1:]
	}
	if !n.More {
		before := w.position
		continued := w.part != place{}
		w.position, w.part = max(w.position, n.Revision), place{}
		if len(n.Events) == 0 && !continued && (!w.kind.marks || n.Revision <= before) {
			return
		}
	} else if len(n.Events) == 0 {
		return
	} else {
		last := n.Events[len(n.Events)-1].Entry
		w.part = place{last.Mod, last.NS, last.Key}
		for i := range n.Events {
			if mod := n.Events[i].Entry.Mod; mod < last.Mod {
				w.position = max(w.position, mod)
			}
		}
	}
	w.pushLocked(n)
}

// restartLocked starts the watch again, because a state follows or must follow. What
// waits for Next is still delivered, except pieces of a state that will not be
// completed.
func (w *KVWatch) restartLocked() {
	for n := len(w.queue); w.pieces && n > 0 && w.queue[n-1].Kind == kv.State; n-- {
		w.bytes -= w.queue[n-1].cost
		w.queue = w.queue[:n-1]
	}
	w.based, w.pieces, w.position, w.part, w.over = false, false, 0, place{}, false
	last := len(w.queue) - 1
	fresh := w.taken == 0 && last < 0 && w.options.State
	if !fresh && (last < 0 || w.queue[last].Kind != kv.Resync) {
		w.pushLocked(notice{Notice: kv.Notice{Kind: kv.Resync}})
	}
}

// run is the watch's goroutine. On each session it requests the watch again, from where
// the last one stopped.
func (w *KVWatch) run() {
	pause := w.c.newBackoff()
	for w.ctx.Err() == nil {
		sess, err := w.c.awaitSession(w.ctx, nil, w.accepted() || w.c.cfg.StateWaits)
		if err != nil {
			if w.ctx.Err() == nil {
				w.end(err)
			}
			break
		}
		err = w.attach(sess)
		switch {
		case w.ctx.Err() != nil, sess.Err() != nil:
		case err == nil:
			pause.reset()
			w.attend(sess)
		case w.restartable(err):
		case sess.Later(w.ctx, nil, codes.RetryAfter(err)):
		case !w.accepted():
			w.end(err)
		default:
			w.c.report(err)
			pause.sleep(w.ctx)
		}
	}
	w.Stop()
}

// accepted reports whether a server has ever accepted the watch. From then on it lasts
// whatever happens.
func (w *KVWatch) accepted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// attach requests the watch on sess. The reader handles the answer, since events may
// follow right behind it.
func (w *KVWatch) attach(sess *session) error {
	if err := w.c.take(w.ctx, nil, w.c.fetches); err != nil {
		return err
	}
	defer give(w.c.fetches)
	request := w.request(sess.epoch)
	frame := protocol.FinishFrame(w.kind.append(begin(w.kind.watch), request), 0)
	return sess.RequestInOrder(w.ctx, w.kind.watch, frame, func(body []byte) error { return w.answered(sess, request.Past, body) })
}

// request returns the request that continues the watch.
func (w *KVWatch) request(epoch string) protocol.KVWatchRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Before the first revision all stores are equal: empty.
	begun := w.position != 0 || w.part != place{}
	other := begun && w.epoch != "" && epoch != "" && w.epoch != epoch
	if other || (!w.based && w.pieces) {
		w.restartLocked()
	}
	return protocol.KVWatchRequest{
		Filter: w.filter, From: w.position, Past: w.based && (w.open || w.options.Past), State: !w.based,
		Prev: w.options.Prev, Coalesce: w.options.Coalesce, Raw: true,
	}
}

// answered handles the answer to a request for the watch; past tells whether the request
// named the revision to continue from.
func (w *KVWatch) answered(sess *session, past bool, body []byte) error {
	revision, id, err := protocol.ParseKVWatching(body)
	if err != nil {
		return unreadable(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		w.unwatch(sess, id)
		return nil
	}
	w.on, w.id, w.epoch = sess, id, sess.epoch
	sess.OnEvent(w.kind.event, id, func(body []byte, refused error) error { return w.take(sess, body, refused) })
	if w.based && w.position == 0 && !past {
		w.position = revision
	}
	w.openLocked()
	return nil
}

// restartable reports whether err means that the changes since the watch's position are
// not available. It then makes the watch start again with the state.
func (w *KVWatch) restartable(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	code := codes.Of(err)
	if !w.based || (code != codes.Compacted && (code != codes.FutureRevision || !w.open)) {
		return false
	}
	w.restartLocked()
	return true
}

// attend waits until the session has ended, or a full buffer has room again.
func (w *KVWatch) attend(sess *session) {
	dead := sess.Done()
	for !w.resumable() {
		select {
		case <-dead:
			dead = nil
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// resumable reports whether there is no watch on a server, and room for its events.
func (w *KVWatch) resumable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on != nil && w.on.Err() != nil {
		w.leaveLocked()
	}
	if w.on == nil && w.over && w.roomLocked() {
		w.over = false
	}
	return w.on == nil && !w.over
}

// leaveLocked ends the watch on the server.
func (w *KVWatch) leaveLocked() {
	if w.on == nil {
		return
	}
	w.on.OnEvent(w.kind.event, w.id, nil)
	w.unwatch(w.on, w.id)
	w.on, w.id = nil, 0
}

// current reports whether the watch has a live connection and Next has returned
// everything that came: taken notices in all.
func (w *KVWatch) current() (taken uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok = w.based && w.on != nil && len(w.queue) == 0 && w.on.Err() == nil
	return w.taken, ok
}

// watchKind is how watches of a kind are asked for and told.
type watchKind struct {
	watch, unwatch, event protocol.Command
	append                func(dst []byte, r protocol.KVWatchRequest) []byte
	parse                 func(body []byte) (protocol.KVEvents, error)
	marks                 bool // Next returns bookmarks
}

// unwatch ends a watch on the server and does not wait for the answer.
func (w *KVWatch) unwatch(on *session, id uint32) {
	on.Start(w.kind.unwatch, protocol.FinishFrame(protocol.AppendKVUnwatch(begin(w.kind.unwatch), id), 0)).Ignore()
}
