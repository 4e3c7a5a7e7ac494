package gateway

import (
	"net/http"
	"sync"
	"time"

	"confcenter/internal/clock"
	"confcenter/kv"
)

// form is how events are encoded on a stream.
type form uint8

// The forms.
const (
	plumForm    form = iota // Plum's, for its SDK
	ownForm                 // the entry as our own REST has it
	ownPrevForm             // with the entry before it
	forms
)

// encoders append an event as it is sent, but for its id and the empty line at its
// end: lines that end in LF, one of them the data.
var encoders = [forms]func(b []byte, e *kv.Event) []byte{
	plumForm:    appendPlumFrame,
	ownForm:     appendOwnFrame,
	ownPrevForm: appendOwnPrevFrame,
}

func appendPlumFrame(b []byte, e *kv.Event) []byte {
	b = append(b, "event: kv\ndata: "...)
	return append(appendPlumEvent(b, e.Entry), '\n')
}

// eventStyle is what streams differ in besides their form.
type eventStyle struct {
	form form
	// ids has the last event of each revision carry the revision in its id, and a
	// heartbeat the one that the stream stands at, for a browser to go on from.
	ids bool
	// first is what the stream begins with. synced and resync are frames, synced
	// without the empty line at its end; "" for a stream that is not told.
	first, synced, resync string
}

// sseWriter writes a stream of events: lines end in LF, what is put in is sent by
// flush, and a peer that takes nothing for too long is given up.
type sseWriter struct {
	gateway *Gateway
	w       http.ResponseWriter
	control *http.ResponseController
	b       []byte
}

// sseChunk is how much is put together before it is written.
const sseChunk = 32 << 10

// newSSE begins a stream. It starts with a comment and an empty line, so that what a
// peer has left of an earlier one in its buffer is not joined with the first event.
// Who has it closes it.
func (g *Gateway) newSSE(w *reply) (*sseWriter, error) {
	s := &sseWriter{gateway: g, w: w, control: http.NewResponseController(w)}
	if err := s.control.SetReadDeadline(time.Time{}); err != nil { // the request's must not end the stream
		return nil, err
	}
	h := w.Header()
	h["Content-Type"] = contentStream
	h["Cache-Control"] = noStore
	h["X-Accel-Buffering"] = []string{"no"} // of nginx
	w.WriteHeader(http.StatusOK)
	s.b = append(s.b, ":\n\n"...)
	g.streams.add(s)
	if err := s.flush(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close is called when nothing is written any more.
func (s *sseWriter) close() { s.gateway.streams.remove(s) }

// flush sends what was put in. An error means that the peer is gone.
func (s *sseWriter) flush() error {
	if err := s.write(); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *sseWriter) write() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.gateway.cfg.WriteTimeout)); err != nil {
		return err
	}
	if s.gateway.ending() { // looked at only now: what is set by hurry must not be undone
		s.hurry()
	}
	_, err := s.w.Write(s.b)
	s.b = s.b[:0]
	if cap(s.b) > 2*sseChunk {
		s.b = nil
	}
	return err
}

// lastWrite is how long a peer may take to read what is being written when the
// server ends.
const lastWrite = time.Second

// hurry may be called by any goroutine.
func (s *sseWriter) hurry() { _ = s.control.SetWriteDeadline(time.Now().Add(lastWrite)) }

// streams are those that are open: a peer that takes nothing would otherwise hold the
// end of the server for as long as a write may take.
type streams struct {
	mu   sync.Mutex
	open map[*sseWriter]struct{} // guarded by mu
}

func (l *streams) add(s *sseWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*sseWriter]struct{}{}
	}
	l.open[s] = struct{}{}
}

func (l *streams) remove(s *sseWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
}

// end is called after closing was closed.
func (l *streams) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.open {
		s.hurry()
	}
}

// addID appends an id line.
func (s *sseWriter) addID(revision kv.Revision) {
	s.b = s.gateway.appendIDLine(s.b, int64(revision))
}

// runStream tells the peer what the subscription has until one of both ends, or the
// gateway does. It closes the subscription.
func (g *Gateway) runStream(w *reply, r *http.Request, sub *subscription, style eventStyle) error {
	defer sub.close()
	s, err := g.newSSE(w)
	if err != nil {
		return gone(err)
	}
	defer s.close()
	if s.b = append(s.b, style.first...); len(s.b) > 0 {
		if err := s.flush(); err != nil {
			return gone(err)
		}
	}
	beat := g.clock.NewTicker(g.cfg.Heartbeat)
	defer beat.Stop()
	for {
		n, ok, err := sub.poll(r.Context())
		if err != nil {
			_ = s.flush()
			return err
		}
		if ok {
			err = s.addNotice(n, sub, style)
		} else {
			var ended bool
			if ended, err = g.awaitStream(r, sub, s, beat, style); ended {
				return nil
			}
		}
		if err != nil {
			return gone(err)
		}
		if g.ending() {
			return nil
		}
	}
}

// awaitStream sends what was put in and returns when there may be more to tell.
func (g *Gateway) awaitStream(r *http.Request, sub *subscription, s *sseWriter, beat clock.Ticker, style eventStyle) (ended bool, err error) {
	if len(s.b) > 0 {
		if err := s.flush(); err != nil {
			return false, err
		}
	}
	select {
	case <-r.Context().Done():
		return true, nil
	case <-g.closing:
		return true, nil
	case <-sub.wake:
		return false, nil
	case <-beat.C():
	}
	if at := sub.cursor.At().Rev; style.ids && at > 0 {
		s.addID(at) // without data it is no event, but remembered
	} else {
		s.b = append(s.b, ":\n"...)
	}
	s.b = append(s.b, '\n')
	return false, s.flush()
}

// ending says that Shutdown has begun.
func (g *Gateway) ending() bool {
	select {
	case <-g.closing:
		return true
	default:
		return false
	}
}

// addNotice puts a notice in, and writes when there is much.
func (s *sseWriter) addNotice(n kv.Notice, sub *subscription, style eventStyle) error {
	switch n.Kind {
	case kv.Resync:
		s.b = append(s.b, style.resync...)
	case kv.Synced:
		if style.synced != "" {
			s.b = append(s.b, style.synced...)
			if style.ids {
				s.addID(n.Revision)
			}
			s.b = append(s.b, '\n')
		}
	}
	for i := range n.Events {
		s.b = sub.appendFrame(s.b, &n.Events[i], style.form)
		if style.ids && n.Kind == kv.Changed && i == len(n.Events)-1 {
			s.addID(n.Revision)
		}
		s.b = append(s.b, '\n')
		if len(s.b) >= sseChunk {
			if err := s.write(); err != nil {
				return err
			}
		}
	}
	return nil
}
