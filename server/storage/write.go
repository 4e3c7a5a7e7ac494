package storage

import (
	"errors"
	"sync"

	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
	"confcenter/storage"
)

// writing is a write on its way through the store and back; it then makes the reply.
type writing struct {
	storage.Write
	finish func(*storage.Outcome, error) // done, made once
	s      *gate.Session
	d      *desk
	slot   uint64
	h      protocol.Header

	// set when it is done
	outcome *storage.Outcome
	err     error
}

// maxFree is how many of them a loop keeps for reuse.
const maxFree = 1024

func (d *desk) newWriting(s *gate.Session, h protocol.Header) *writing {
	var w *writing
	if last := len(d.free) - 1; last >= 0 {
		w, d.free = d.free[last], d.free[:last]
	} else {
		w = &writing{d: d}
		w.finish = w.done
	}
	w.s, w.h = s, h
	return w
}

// release has w used again. The store is done with it, but has kept the values.
func (d *desk) release(w *writing) {
	const few = 16
	if len(d.free) >= maxFree || cap(w.Fields) > few {
		return
	}
	clear(w.Fields)
	*w = writing{Write: storage.Write{Fields: w.Fields[:0]}, finish: w.finish, d: d}
	d.free = append(d.free, w)
}

// write hands a write over; the reply follows when it is durable.
func (f *Handlers) write(s *gate.Session, h protocol.Header, _ []byte) bool {
	w := deskOf(s).newWriting(s, h)
	if err := s.Desk.Req.StorageWrite(h.Command, &w.Write); err != nil {
		w.d.release(w)
		s.RefuseState(h, err)
		return true
	}
	w.Actor = s.Actor()
	w.slot = s.Reserve(h.Command)
	s.Group().Count.StateWrites.Add(1)
	f.store.Do(&w.Write, w.finish)
	return true
}

// done is called by the store.
func (w *writing) done(outcome *storage.Outcome, err error) {
	w.outcome, w.err = outcome, err
	w.d.add(w)
}

// completed are writes that the store has finished. All that finish at about the same time
// come to the loop as one mail.
type completed struct {
	loop *loop.Loop // set at open

	mu   sync.Mutex
	list []*writing // guarded by mu
}

func (c *completed) add(w *writing) {
	c.mu.Lock()
	c.list = append(c.list, w)
	first := len(c.list) == 1
	c.mu.Unlock()
	if first {
		c.loop.Post(&answers{from: c})
		c.loop.FeedOthers()
	}
}

func (c *completed) take() []*writing {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

// answers is the mail that brings results to the loop.
type answers struct {
	from *completed
	list []*writing
	next int
}

// Deliver completes the replies.
func (a *answers) Deliver(l *loop.Loop, budget int) (used int, done bool) {
	l.HasRoom()
	if a.list == nil {
		a.list = a.from.take()
	}
	for ; a.next < len(a.list); a.next++ {
		if used >= budget {
			return used, false
		}
		a.list[a.next].answer(l)
		used++
	}
	return used, true
}

// answer completes the reply. A worker first encodes a long one.
func (w *writing) answer(l *loop.Loop) {
	s, size := w.s, 0
	if s.Gone() {
		w.d.release(w)
		return
	}
	if w.err == nil {
		size = sizeOf(w.outcome.Fields) + sizeOf(w.outcome.Prev)
	}
	switch {
	case size > protocol.MaxFieldBytes:
		w.err = codes.Errorf(codes.TooLarge, "the write was carried out, at revision %d, but the fields to tell have %d bytes and the limit of one reply is %d; read them in parts",
			w.outcome.Revision, size, protocol.MaxFieldBytes)
	case size > loopBytes:
		s.Group().Work(func() {
			frame := w.append(nil)
			l.Post(loop.MailFunc(func(*loop.Loop) { s.Fill(w.slot, frame) }))
		})
		return
	}
	s.FillWith(w.slot, w)
}

// AppendFrame appends the reply, on the loop, after which w may be used again.
func (w *writing) AppendFrame(dst []byte) []byte {
	d := w.d
	dst = w.append(dst)
	d.release(w)
	return dst
}

func (w *writing) append(dst []byte) []byte {
	start := len(dst)
	return protocol.FinishFrame(w.appendBody(protocol.BeginFrame(dst, w.h.Command.Reply(), w.h.Seq)), start)
}

func (w *writing) appendBody(dst []byte) []byte {
	if w.err == nil {
		return protocol.AppendStorageOutcome(dst, w.Kind, w.outcome, w.WantPrev)
	}
	w.s.Group().Count.StateRefused.Add(1)
	var other *storage.Mismatch
	if errors.As(w.err, &other) {
		return protocol.AppendStorageMismatch(dst, other)
	}
	return w.s.AppendRefusal(dst, w.h, w.err)
}
