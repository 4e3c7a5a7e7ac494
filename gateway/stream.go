package gateway

import (
	"net/http"
	"time"

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

// sseWriter writes a stream of events: lines end in LF, what is put into b is sent by
// flush, and a peer that takes nothing for too long is given up.
type sseWriter struct {
	gateway *Gateway
	w       *reply
	control *http.ResponseController
	b       []byte
	err     error // the peer is gone; what is sent after that is lost
}

// sseChunk is how much is put together before it is written.
const sseChunk = 32 << 10

// newSSE begins a stream. It starts with a comment and an empty line, so that what a
// peer has left of an earlier one in its buffer is not joined with the first event.
func (g *Gateway) newSSE(w *reply) *sseWriter {
	s := &sseWriter{gateway: g, w: w, control: http.NewResponseController(w)}
	if s.err = s.control.SetReadDeadline(time.Time{}); s.err != nil { // the request's must not end the stream
		return s
	}
	h := w.Header()
	h["Content-Type"] = contentStream
	h["Cache-Control"] = noStore
	h["X-Accel-Buffering"] = []string{"no"} // of nginx
	w.WriteHeader(http.StatusOK)
	s.b = append(s.b, ":\n\n"...)
	s.flush()
	return s
}

// flush sends what was put in.
func (s *sseWriter) flush() {
	if len(s.b) == 0 {
		return
	}
	if s.write(); s.err == nil {
		s.err = s.control.Flush()
	}
}

// writeIfLong writes when much was put in.
func (s *sseWriter) writeIfLong() {
	if len(s.b) >= sseChunk {
		s.write()
	}
}

func (s *sseWriter) write() {
	if s.err == nil {
		s.err = s.control.SetWriteDeadline(time.Now().Add(s.gateway.cfg.WriteTimeout))
	}
	if s.gateway.ending() { // only now: what hurry sets must not be undone
		s.w.hurry()
	}
	if s.err == nil {
		_, s.err = s.w.Write(s.b)
	}
	s.b = s.b[:0]
	if cap(s.b) > 2*sseChunk {
		s.b = nil
	}
}

// run sends what next puts in, until the peer is gone, the gateway ends or next
// fails. After next returns false it is called again when there is something on wake;
// meanwhile beat puts in a heartbeat from time to time.
func (s *sseWriter) run(r *http.Request, wake <-chan struct{}, next func() (more bool, err error), beat func()) error {
	g := s.gateway
	ticker := g.clock.NewTicker(g.cfg.Heartbeat)
	defer ticker.Stop()
	for s.err == nil && !g.ending() {
		more, err := next()
		if more && err == nil {
			continue
		}
		if s.flush(); err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-g.closing:
			return nil
		case <-wake:
		case <-ticker.C():
			beat()
			s.flush()
		}
	}
	return nil
}

// lastWrite is how long a peer may take to read what is being written when the
// server ends.
const lastWrite = time.Second

// hurry may be called by any goroutine.
func (w *reply) hurry() {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWrite))
}

// addID appends an id line.
func (s *sseWriter) addID(revision kv.Revision) {
	s.b = s.gateway.appendIDLine(s.b, int64(revision))
}

// runStream tells the peer what the subscription has, until one of both ends. It
// closes the subscription.
func (g *Gateway) runStream(w *reply, r *http.Request, sub *subscription, style eventStyle) error {
	defer sub.close()
	s := g.newSSE(w)
	s.b = append(s.b, style.first...)
	s.flush()
	return s.run(r, sub.wake, func() (bool, error) {
		n, ok, err := sub.poll(r.Context())
		if ok && err == nil {
			s.addNotice(n, sub, style)
		}
		return ok, err
	}, func() {
		if at := sub.cursor.At().Rev; style.ids && at > 0 {
			s.addID(at) // without data it is no event, but the browser remembers it
		} else {
			s.b = append(s.b, ":\n"...)
		}
		s.b = append(s.b, '\n')
	})
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
func (s *sseWriter) addNotice(n kv.Notice, sub *subscription, style eventStyle) {
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
		s.writeIfLong()
	}
}
