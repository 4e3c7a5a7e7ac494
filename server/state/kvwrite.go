package state

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
)

// kvWriting is a transaction on its way through the store, and then the mail that
// brings its result to the loop.
type kvWriting struct {
	// set at open
	s     *gate.Session
	slot  uint64
	h     protocol.Header
	write protocol.KVWrite

	// the store's, then the loop's
	res *kv.Result
	err error
}

// kvWrite hands a transaction to the store; the reply follows when it is durable
// and every watcher's event is on its way.
func (f *Handlers) kvWrite(s *gate.Session, h protocol.Header, _ []byte) bool {
	write, err := s.Desk.Req.KVWrite(h.Command)
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	return f.commit(s, h, write)
}

// commit has the store apply write. false means that its queue is full and the
// session waits for room.
func (f *Handlers) commit(s *gate.Session, h protocol.Header, write protocol.KVWrite) bool {
	write.Txn.Actor = s.Actor()
	w := &kvWriting{s: s, h: h, write: write, slot: s.Reserve(h.Command)}
	return taken(s, h, f.store.Commit(write.Txn, w.done))
}

// taken deals with what handing a write over has said: false means that the
// store's queue is full and the session waits for room.
func taken(s *gate.Session, h protocol.Header, err error) bool {
	switch {
	case err == nil:
		s.Group().Count.StateWrites.Add(1)
		return true
	case codes.Of(err) == codes.Busy:
		s.Unreserve()
		s.Group().Count.StateBusy.Add(1)
		s.Starve()
		return false
	default:
		s.Unreserve()
		s.RefuseState(h, err)
		return true
	}
}

// done is called by the store.
func (w *kvWriting) done(res *kv.Result, err error) {
	w.res, w.err = res, err
	w.s.Loop.Post(w)
	w.s.Loop.FeedOthers()
}

// Deliver fills the reply's place. A long reply is encoded by a worker first.
func (w *kvWriting) Deliver(l *loop.Loop, _ int) (int, bool) {
	l.HasRoom()
	s := w.s
	if s.Gone() {
		return 1, true
	}
	size := 0
	if w.err == nil {
		written(s, w.res)
		size = w.res.Size()
	}
	switch {
	case size > maxReply:
		w.err = codes.Errorf(codes.TooLarge, "the transaction was applied, at revision %d, but what it read has %d bytes and the limit of one reply is %d; read it again in parts",
			w.res.Revision, size, maxReply)
	case size > loopBytes:
		s.Group().Work(func() {
			frame := w.AppendFrame(nil)
			l.Post(loop.MailFunc(func(*loop.Loop) { s.Fill(w.slot, frame) }))
		})
		return 1, true
	}
	s.FillWith(w.slot, w)
	return 1, true
}

// AppendFrame appends the reply.
func (w *kvWriting) AppendFrame(dst []byte) []byte {
	start := len(dst)
	dst = protocol.BeginFrame(dst, w.h.Command.Reply(), w.h.Seq)
	if w.err != nil {
		w.s.Group().Count.StateRefused.Add(1)
		dst = w.s.AppendRefusal(dst, w.h, w.err)
	} else {
		dst = w.write.AppendReply(dst, w.res)
	}
	return protocol.FinishFrame(dst, start)
}

// pastVersion is what a worker has read for KVRESTORE.
type pastVersion struct {
	entry *kv.Entry
	err   error
}

// kvRestore writes a past version of a key anew. A worker reads it first; then
// the request is handled again and becomes a put.
func (f *Handlers) kvRestore(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.KVRestore()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	past, _ := s.TakePrepared().(*pastVersion)
	if past == nil {
		f.readPast(s, q.NS, q.Key, q.Rev)
		return false
	}
	switch {
	case past.err != nil:
		s.RefuseState(h, past.err)
		return true
	case past.entry == nil:
		s.RefuseState(h, codes.Errorf(codes.NotFound, "key %q did not exist at revision %d: there is nothing to restore", q.Key, q.Rev))
		return true
	}
	if !f.commit(s, h, q.Write(past.entry.Value)) {
		s.PrepareAgain(past)
		return false
	}
	return true
}

// readPast has a worker read a version and then the frame handled again.
func (f *Handlers) readPast(s *gate.Session, ns, key string, rev kv.Revision) {
	var past pastVersion
	s.Away(func() { past.entry, past.err = f.store.GetAt(f.life, ns, key, rev) },
		func(*loop.Loop) { s.PrepareAgain(&past) })
}
