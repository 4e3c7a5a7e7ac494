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
	ownPrevForm             // ownForm with the previous entry
	forms
)

// encoders append an event as it is sent, without its id and the final empty line.
// Lines end in LF; one of them is the data.
var encoders = [forms]func(b []byte, e *kv.Event) []byte{
	plumForm:    appendPlumFrame,
	ownForm:     appendOwnFrame,
	ownPrevForm: appendOwnPrevFrame,
}

func appendPlumFrame(b []byte, e *kv.Event) []byte {
	b = append(b, "event: kv\ndata: "...)
	return append(appendPlumEvent(b, e.Entry), '\n')
}

// eventStyle is how streams differ.
type eventStyle struct {
	form form
	// ids puts the revision into the id of the last event of each revision, and the
	// current position into heartbeats, so that a browser can resume.
	ids bool
	// first is what the stream begins with. synced and resync are frames, synced
	// without its final empty line; "" leaves them out.
	first, synced, resync string
}

// sseWriter writes a stream of events. Lines end in LF; flush sends what is in b.
// It gives up on a peer that does not read for too long.
type sseWriter struct {
	gateway *Gateway
	w       *reply
	control *http.ResponseController
	b       []byte
	err     error // why the peer is gone; nothing is sent any more
}

// sseChunk is how many bytes are collected before they are written.
const sseChunk = 32 << 10

// newSSE begins a stream. It starts with a comment and an empty line, so that the
// rest of an earlier stream in the peer's buffer is not joined with the first
// event.
func (g *Gateway) newSSE(w *reply) *sseWriter {
	s := &sseWriter{gateway: g, w: w, control: http.NewResponseController(w)}
	if s.err = s.control.SetReadDeadline(time.Time{}); s.err != nil { // the request's deadline must not end the stream
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

// flush sends what is in b.
func (s *sseWriter) flush() {
	if len(s.b) == 0 {
		return
	}
	if s.write(); s.err == nil {
		s.err = s.control.Flush()
	}
}

// writeIfLong writes when b is long.
func (s *sseWriter) writeIfLong() {
	if len(s.b) >= sseChunk {
		s.write()
	}
}

func (s *sseWriter) write() {
	if s.err == nil {
		s.err = s.control.SetWriteDeadline(time.Now().Add(s.gateway.cfg.WriteTimeout))
	}
	if s.gateway.ending() { // checked only now, so as not to undo what hurry has set
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

// run sends what next puts into b, until the peer is gone, the gateway ends or next
// fails. When next returns false, run calls it again after something arrives on
// wake or after a heartbeat, which beat puts into b.
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
// server stops.
const lastWrite = time.Second

// hurry shortens the time for writing. Any goroutine may call it.
func (w *reply) hurry() {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWrite))
}

// addID appends an id line.
func (s *sseWriter) addID(revision kv.Revision) {
	s.b = s.gateway.appendIDLine(s.b, int64(revision))
}

// runStream sends what the subscription brings until one of them ends. It closes
// the subscription.
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

// ending reports whether Shutdown has begun.
func (g *Gateway) ending() bool {
	select {
	case <-g.closing:
		return true
	default:
		return false
	}
}

// addNotice puts a notice into b, and writes when b is long.
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
