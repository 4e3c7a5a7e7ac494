package client

import (
	"bufio"
	"fmt"

	"confcenter/codes"
	"confcenter/protocol"
)

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
		case w.ctx.Err() != nil, sess.conn.failed() != nil:
		case err == nil:
			pause.reset()
			w.attend(sess)
		case w.restartable(err):
		case sess.conn.later(w.ctx, nil, codes.RetryAfter(err)):
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
	if !w.c.takeFetch(w.ctx) {
		return w.ctx.Err()
	}
	defer w.c.giveFetch()
	request, attempt := w.request(sess.epoch)
	var refusal error
	frame := protocol.FinishFrame(w.kind.append(begin(w.kind.watch), request), 0)
	cl := sess.conn.startWith(w.kind.watch, frame, func(body []byte) {
		refusal = w.answered(sess, attempt, request.Past, body)
	})
	select {
	case <-cl.done:
		if cl.err != nil {
			return cl.err
		}
		return refusal
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// request returns the request that continues the watch.
func (w *KVWatch) request(epoch string) (r protocol.KVWatchRequest, attempt uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Before the first revision all stores are equal: empty.
	begun := w.position != 0 || w.part != place{}
	other := begun && w.epoch != "" && epoch != "" && w.epoch != epoch
	if other || (!w.based && w.pieces) {
		w.restartLocked()
	}
	w.attempt++
	return protocol.KVWatchRequest{
		Filter: w.filter, From: w.position, Past: w.based && (w.open || w.options.Past), State: !w.based,
		Prev: w.options.Prev, Coalesce: w.options.Coalesce, Raw: true,
	}, w.attempt
}

// answered handles the answer to a request for the watch; past tells whether the request
// named the revision to continue from.
func (w *KVWatch) answered(sess *session, attempt uint64, past bool, body []byte) error {
	revision, id, err := protocol.ParseKVWatching(body)
	if err != nil {
		return unreadable(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || attempt != w.attempt {
		w.unwatch(sess.conn, id)
		return nil
	}
	w.on, w.id, w.epoch = sess.conn, id, sess.epoch
	sess.conn.watches.Store(watchID{w.kind.event, id}, w)
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
	dead := sess.conn.dead
	for !w.resumable() {
		select {
		case <-dead:
			w.leave()
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
	if w.on == nil && w.over && w.roomLocked() {
		w.over = false
	}
	return w.on == nil && !w.over
}

func (w *KVWatch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveLocked()
}

// leaveLocked ends the watch on the server.
func (w *KVWatch) leaveLocked() {
	if w.on == nil {
		return
	}
	w.on.watches.Delete(watchID{w.kind.event, w.id})
	w.unwatch(w.on, w.id)
	w.on, w.id = nil, 0
}

// current reports whether the watch has a live connection and Next has returned
// everything that came: taken notices in all.
func (w *KVWatch) current() (taken uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok = w.based && w.on != nil && len(w.queue) == 0 && w.on.failed() == nil
	return w.taken, ok
}

// watchID is a watch by the server's number, which is one among those with such events.
type watchID struct {
	event protocol.Command
	id    uint32
}

// watchKind is how watches of a kind are asked for and told.
type watchKind struct {
	watch, unwatch, event protocol.Command
	append                func(dst []byte, r protocol.KVWatchRequest) []byte
	parse                 func(body []byte) (protocol.KVEvents, error)
	marks                 bool // Next returns bookmarks
}

// readEvents handles a KVEVENT or CFEVENT with a body of n bytes. One for an unknown number was on its
// way when the watch ended, and there may be many of them: they are not read.
func (c *conn) readEvents(r *bufio.Reader, event protocol.Command, n int) error {
	start, err := r.Peek(min(n, protocol.KVEventStart))
	if err != nil {
		return err
	}
	id, err := protocol.KVEventWatch(start)
	if err != nil {
		return unreadableEvent(err)
	}
	found, ok := c.watches.Load(watchID{event, id})
	if !ok {
		_, err = r.Discard(n)
		return err
	}
	w := found.(*KVWatch)
	if n > c.cfg.MaxBody {
		w.refuse(c, codes.Errorf(codes.TooLarge, "an event of %d bytes is more than Config.MaxBody, %d", n, c.cfg.MaxBody))
		_, err = r.Discard(n)
		return err
	}
	body, err := readBody(r, n)
	if err != nil {
		return err
	}
	ev, err := w.kind.parse(body)
	if err != nil {
		return unreadableEvent(err)
	}
	w.take(c, &ev, n)
	return nil
}

func unreadableEvent(err error) error {
	return fmt.Errorf("an event that cannot be read: %w", withoutCode(err))
}

// unwatch ends a watch on the server and does not wait for the answer.
func (w *KVWatch) unwatch(on *conn, id uint32) {
	on.start(w.kind.unwatch, protocol.FinishFrame(protocol.AppendKVUnwatch(begin(w.kind.unwatch), id), 0)).ignore()
}
