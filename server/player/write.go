package player

import (
	"errors"

	"confcenter/codes"
	"confcenter/op"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// writing is a write on its way through the store and back; it then makes the reply.
type writing struct {
	player.Call
	s    *gate.Session
	d    *local
	slot uint64
	h    protocol.Header
}

// maxFree is how many of them a loop keeps for reuse.
const maxFree = 1024

func (d *local) newWriting(s *gate.Session, h protocol.Header) *writing {
	var w *writing
	if last := len(d.free) - 1; last >= 0 {
		w, d.free = d.free[last], d.free[:last]
	} else {
		w = new(writing)
	}
	w.s, w.d, w.h, w.For = s, d, h, w
	return w
}

// release has w used again. The store is done with it, but has kept the values.
func (d *local) release(w *writing) {
	const few = 16
	if len(d.free) >= maxFree || cap(w.Fields) > few || w.Kept() {
		return
	}
	clear(w.Fields)
	*w = writing{Call: player.Call{Write: field.Write{Fields: w.Fields[:0]}}}
	d.free = append(d.free, w)
}

func newLocal(l *loop.Loop) *local {
	return &local{caller: player.Caller{Done: func(calls []*player.Call) {
		l.Post(&answers{list: calls}) // one mail for a whole group, behind the events of its changes
		l.TellOthersOfRoom()
	}}}
}

// write collects a write for the store; the reply follows when it is durable.
func (f *Handlers) write(s *gate.Session, h protocol.Header, _ []byte) bool {
	d := deskOf(s)
	w := d.newWriting(s, h)
	err := s.Local.Req.StorageWrite(h.Command, &w.Write)
	if err == nil && s.Judged() {
		err = s.Judge(op.Fields(s.Things(), &w.Write))
	}
	if err != nil {
		d.release(w)
		s.Refuse(h, err)
		return true
	}
	w.Actor = s.Actor()
	w.slot = s.Reserve(h.Command)
	d.calls = append(d.calls, &w.Call)
	return true
}

// handOver gives the store what was collected.
func (d *local) handOver(s *gate.Session, store Store) {
	if len(d.calls) == 0 {
		return
	}
	calls := d.calls
	d.calls = calls[:0]
	defer clear(calls)
	s.Group().Count.StateWrites.Add(uint64(len(calls)))
	store.DoEach(&d.caller, calls)
}

// answers is the mail that brings results to the loop.
type answers struct {
	list []*player.Call
	next int
}

// Deliver completes the replies.
func (a *answers) Deliver(l *loop.Loop, budget int) (used int, done bool) {
	l.HasRoom()
	for ; a.next < len(a.list); a.next++ {
		if used >= budget {
			return used, false
		}
		a.list[a.next].For.(*writing).answer(l)
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
	if w.Err == nil {
		size = sizeOf(w.Outcome.Fields) + sizeOf(w.Outcome.Prev)
	}
	switch {
	case size > protocol.MaxFieldBytes:
		w.Err = codes.Errorf(codes.TooLarge, "the write was carried out, at revision %d, but the fields to tell have %d bytes and the limit of one reply is %d; read them in parts",
			w.Outcome.Revision, size, protocol.MaxFieldBytes)
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
	if w.Err == nil {
		return protocol.AppendStorageOutcome(dst, w.Kind, w.Outcome, w.WantPrev)
	}
	if other, ok := errors.AsType[*field.Mismatch](w.Err); ok {
		w.s.Refused(w.h, w.Err)
		return protocol.AppendStorageMismatch(dst, other)
	}
	return w.s.AppendRefusal(dst, w.h, w.Err)
}
