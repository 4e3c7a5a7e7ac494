package http

import (
	"net/http"

	"confcenter/kv"
	"confcenter/server/http/plum"
	"confcenter/server/http/sse"
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
	plumForm:    plum.AppendEvent,
	ownForm:     appendOwn(false),
	ownPrevForm: appendOwn(true),

	documentForm:          appendDocument(false, false),
	documentPrevForm:      appendDocument(true, false),
	documentPathsForm:     appendDocument(false, true),
	documentPathsPrevForm: appendDocument(true, true),
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

// runStream sends what the subscription brings until one of them ends. It closes
// the subscription.
func (g *Gateway) runStream(w *reply, r *http.Request, sub *subscription, style eventStyle) error {
	defer sub.close()
	s := g.sse.Begin(w, connOf(r), sub.Rest, nil)
	defer s.Close()
	sub.turn = &s.Turn
	s.Buf = append(s.Buf, style.first...)
	s.Flush()
	return s.Run(r.Context(), sub.Wake(), func() (bool, error) {
		n, ok, err := sub.poll(r.Context())
		if ok && err == nil {
			addNotice(s, n, sub, style)
		}
		return ok, err
	}, func() {
		if at := sub.At(); style.ids && at > 0 {
			s.ID(int64(at))
		} else {
			s.Buf = append(s.Buf, ":\n"...)
		}
		s.Buf = append(s.Buf, '\n')
	})
}

// addNotice tells of a notice. It does not write: while a stream waits for its peer it must not
// hold the notice.
func addNotice(s *sse.Stream, n kv.Notice, sub *subscription, style eventStyle) {
	switch n.Kind {
	case kv.Resync:
		s.Buf = append(s.Buf, style.resync...)
	case kv.Synced:
		if style.synced != nil {
			s.Buf = style.synced(s.Buf, n.Revision)
			if style.ids {
				s.ID(int64(n.Revision))
			}
			s.Buf = append(s.Buf, '\n')
		}
	}
	for i := range n.Events {
		e := &n.Events[i]
		if f := sub.frameOf(e, n.Kind == kv.State, style.form); f == nil {
			s.Buf = encoders[style.form](s.Buf, e)
		} else {
			s.Put(f, len(n.Events) == 1)
		}
		if style.ids && n.Kind == kv.Changed && !n.More && i == len(n.Events)-1 {
			s.ID(int64(n.Revision))
		}
		s.Buf = append(s.Buf, '\n')
	}
	if style.ids && n.Kind == kv.Changed && !n.More && len(n.Events) == 0 { // the rest of a revision is not wanted
		s.ID(int64(n.Revision))
		s.Buf = append(s.Buf, '\n')
	}
}
