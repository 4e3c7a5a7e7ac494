package http

import (
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"confcenter/kv"
)

// form is how events are encoded on a stream.
type form uint8

// The forms.
const (
	plumForm              form = iota // Plum's, for its SDK
	ownForm                           // the entry as our own REST has it
	ownPrevForm                       // ownForm with the previous entry
	documentForm                      // a document with its contents
	documentPrevForm                  // with the contents before
	documentPathsForm                 // with the paths that have changed, in place of the contents
	documentPathsPrevForm             // of a deletion, with the contents before
	forms
)

// encoders append an event as it is sent, without its id and the final empty line.
// Lines end in LF; one of them is the data.
var encoders = [forms]func(b []byte, e *kv.Event) []byte{
	plumForm:    appendPlumFrame,
	ownForm:     appendOwn(false),
	ownPrevForm: appendOwn(true),

	documentForm:          appendDocument(false, false),
	documentPrevForm:      appendDocument(true, false),
	documentPathsForm:     appendDocument(false, true),
	documentPathsPrevForm: appendDocument(true, true),
}

// appendPlumFrame appends an event. A deleted key has the type deleted.
func appendPlumFrame(b []byte, e *kv.Event) []byte {
	return append(appendPlumTyped(append(b, "event: kv\ndata: "...), e.Entry), "}\n"...)
}

// eventStyle is how streams differ.
type eventStyle struct {
	form form
	// ids puts the revision into the id of the last event of each revision, and the
	// current position into heartbeats, so that a browser can resume.
	ids bool
	// first is what the stream begins with, and resync a frame; "" leaves it out. synced
	// appends a frame without its final empty line; nil leaves it out.
	first, resync string
	synced        func(dst []byte, revision kv.Revision) []byte
}

// sseWriter writes a stream of events. Lines end in LF; flush sends what is in b.
// It gives up on a peer that does not read for too long. It works in turns, and between
// them it holds little more than what it has begun to write.
type sseWriter struct {
	gateway *Gateway
	w       *reply
	control *http.ResponseController
	socket  *socket // nil in tests
	out     outlet
	b       []byte
	big     *frame // goes between b[:split] and b[split:]; nil: none
	split   int
	written bool  // net/http may still have some of it
	err     error // why the peer is gone; nothing is sent any more

	cut atomic.Bool // it was told to end because it held too much for too long
}

// sseChunk is how many bytes are collected before they are written. With its framing that
// is what net/http writes at a time, and what a stream holds whose peer does not read.
const sseChunk = 4000

// newSSE begins a stream, in its first turn. It starts with a comment and an empty line,
// so that the rest of an earlier stream in the peer's buffer is not joined with the first
// event. rest lets go of what the stream can read again. The caller closes it.
func (g *Gateway) newSSE(w *reply, r *http.Request, rest func()) *sseWriter {
	s := &sseWriter{gateway: g, w: w, control: http.NewResponseController(w)}
	s.out = outlet{turn: turn{turns: g.turns, rest: rest}, stalls: g.stalls, size: s.size}
	if p := peerOf(r); p != nil {
		s.socket = p.socket
		s.out.open(p.socket)
	}
	s.out.begin()
	if s.err == nil {
		s.err = s.control.SetReadDeadline(time.Time{}) // the request's deadline must not end the stream
	}
	if s.err != nil {
		return s
	}
	h := w.Header()
	h["Content-Type"] = contentStream
	h["Cache-Control"] = noStore
	h["X-Accel-Buffering"] = []string{"no"} // of nginx
	w.WriteHeader(http.StatusOK)
	s.b = append(make([]byte, 0, sseChunk+sseChunk/4), ":\n\n"...)
	s.flush()
	return s
}

// close ends the stream's last turn. What net/http still writes is written as usual.
func (s *sseWriter) close() {
	s.out.end()
	s.release()
	if s.socket != nil {
		s.socket.out = nil
	}
	if errors.Is(s.err, os.ErrDeadlineExceeded) && !s.gateway.ending() {
		s.gateway.streams.unread.Add(1)
		if s.socket != nil {
			s.socket.Forget() // or the kernel would go on for minutes
		}
	}
}

// size is what the stream holds while it waits for its peer.
func (s *sseWriter) size() stalled {
	held := stalled{own: int64(cap(s.b)) + sseChunk, end: s.giveUp} // net/http has a buffer, too
	if s.big != nil {
		held.shared, held.event = s.big.share(), int64(s.big.bytes)
	}
	return held
}

// giveUp ends the stream. Any goroutine may call it.
func (s *sseWriter) giveUp() {
	s.cut.Store(true)
	_ = s.control.SetWriteDeadline(time.Unix(1, 0))
}

// flush sends what is in b.
func (s *sseWriter) flush() {
	if len(s.b) > 0 || s.big != nil {
		s.write()
	}
	if s.written && s.err == nil {
		s.err = s.control.Flush()
		s.written = false
	}
}

// writeIfLong writes when b is long.
func (s *sseWriter) writeIfLong() {
	if len(s.b) >= sseChunk || s.big != nil {
		s.write()
	}
}

func (s *sseWriter) write() {
	if s.big != nil {
		s.send(s.b[:s.split])
		s.send(s.big.text)
		s.release()
		s.send(s.b[s.split:])
	} else {
		s.send(s.b)
	}
	s.b = s.b[:0]
	if cap(s.b) > 2*sseChunk {
		s.b = nil
	}
}

// send gives the peer time to read b.
func (s *sseWriter) send(b []byte) {
	if s.err == nil {
		s.err = s.control.SetWriteDeadline(time.Now().Add(s.gateway.cfg.WriteTimeout))
	}
	if s.gateway.ending() { // checked only now, so as not to undo what hurry has set
		s.w.hurry()
	}
	if s.cut.Load() { // likewise
		s.err = os.ErrDeadlineExceeded
	}
	if s.err == nil {
		_, s.err = s.w.Write(b)
		s.written = true
	}
}

func (s *sseWriter) release() {
	if s.big != nil {
		s.big.release()
		s.big = nil
	}
}

// run sends what next puts into b, until the peer is gone, the gateway ends or next
// fails. When next returns false, run calls it again after something arrives on
// wake or after a heartbeat, which beat puts into b. All of that is called in the
// stream's turns.
func (s *sseWriter) run(r *http.Request, wake <-chan struct{}, next func() (more bool, err error), beat func()) error {
	g := s.gateway
	ticker := g.clock.NewTicker(g.cfg.Heartbeat)
	defer ticker.Stop()
	for s.err == nil && !g.ending() && r.Context().Err() == nil {
		if s.out.over() {
			s.out.end()
		}
		s.out.begin()
		more, err := next()
		if s.writeIfLong(); more && err == nil {
			continue
		}
		s.flush()
		s.out.end()
		if err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-g.closing:
			return nil
		case <-wake:
		case <-ticker.C():
			s.out.begin()
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
	s := g.newSSE(w, r, sub.Rest)
	defer s.close()
	sub.turn = &s.out.turn
	s.b = append(s.b, style.first...)
	s.flush()
	return s.run(r, sub.Wake(), func() (bool, error) {
		n, ok, err := sub.poll(r.Context())
		if ok && err == nil {
			s.addNotice(n, sub, style)
		}
		return ok, err
	}, func() {
		if at := sub.At(); style.ids && at > 0 {
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

// addNotice puts a notice into b, or into big if its only event is long. It does not
// write: while a stream waits for its peer it must not hold the notice.
func (s *sseWriter) addNotice(n kv.Notice, sub *subscription, style eventStyle) {
	switch n.Kind {
	case kv.Resync:
		s.b = append(s.b, style.resync...)
	case kv.Synced:
		if style.synced != nil {
			s.b = style.synced(s.b, n.Revision)
			if style.ids {
				s.addID(n.Revision)
			}
			s.b = append(s.b, '\n')
		}
	}
	for i := range n.Events {
		e := &n.Events[i]
		if f := sub.frameOf(e, n.Kind == kv.State, style.form); f == nil {
			s.b = encoders[style.form](s.b, e)
		} else if len(f.text) < sseChunk || len(n.Events) > 1 {
			s.b = append(s.b, f.text...)
			f.release()
		} else {
			s.big, s.split = f, len(s.b)
		}
		if style.ids && n.Kind == kv.Changed && !n.More && i == len(n.Events)-1 {
			s.addID(n.Revision)
		}
		s.b = append(s.b, '\n')
	}
	if style.ids && n.Kind == kv.Changed && !n.More && len(n.Events) == 0 { // the rest of a revision is not wanted
		s.addID(n.Revision)
		s.b = append(s.b, '\n')
	}
}
