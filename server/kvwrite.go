package server

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// kvWriting is a transaction on its way through the store, and then the mail that
// brings its result to the loop.
type kvWriting struct {
	// set at open
	s     *session
	slot  uint64
	h     protocol.Header
	write protocol.KVWrite

	// the store's, then the loop's
	res *kv.Result
	err error
}

// kvWrite hands a transaction to the store; the reply follows when it is durable
// and every watcher's event is on its way.
func (f *stateHandlers) kvWrite(s *session, h protocol.Header, _ []byte) bool {
	write, err := s.desk.req.KVWrite(h.Command)
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	return f.commit(s, h, write)
}

// commit has the store apply write. false means that its queue is full and the
// session waits for room.
func (f *stateHandlers) commit(s *session, h protocol.Header, write protocol.KVWrite) bool {
	write.Txn.Actor = s.actor()
	w := &kvWriting{s: s, h: h, write: write, slot: s.reserve(h.Command)}
	return taken(s, h, f.store.Commit(write.Txn, w.done))
}

// taken deals with what handing a write over has said: false means that the
// store's queue is full and the session waits for room.
func taken(s *session, h protocol.Header, err error) bool {
	switch {
	case err == nil:
		s.group().count.StateWrites.Add(1)
		return true
	case codes.Of(err) == codes.Busy:
		s.unreserve()
		s.group().count.StateBusy.Add(1)
		s.starve()
		return false
	default:
		s.unreserve()
		s.refuseState(h, err)
		return true
	}
}

// done is called by the store.
func (w *kvWriting) done(res *kv.Result, err error) {
	w.res, w.err = res, err
	w.s.loop.post(w)
	w.s.loop.feedOthers()
}

// deliver fills the reply's place. A long reply is encoded by a worker first.
func (w *kvWriting) deliver(l *loop, _ int) (int, bool) {
	l.hasRoom()
	s := w.s
	if s.gone() {
		return 1, true
	}
	if w.err == nil {
		written(s, w.res)
	}
	switch size := resultSize(w.res); {
	case w.err != nil:
	case size > maxReply:
		w.err = codes.Errorf(codes.TooLarge, "the transaction was applied, at revision %d, but what it read has %d bytes and the limit of one reply is %d; read it again in parts",
			w.res.Revision, size, maxReply)
	case size > loopBytes:
		s.group().work(func() {
			frame := w.appendFrame(nil)
			l.post(mailFunc(func(*loop) { s.fill(w.slot, frame) }))
		})
		return 1, true
	}
	s.fillWith(w.slot, w)
	return 1, true
}

func resultSize(res *kv.Result) (n int) {
	if res == nil {
		return 0
	}
	for i := range res.Ops {
		for _, e := range [2]*kv.Entry{res.Ops[i].Entry, res.Ops[i].Prev} {
			if e != nil {
				n += e.Size()
			}
		}
	}
	return n
}

// appendFrame appends the reply.
func (w *kvWriting) appendFrame(dst []byte) []byte {
	start := len(dst)
	dst = protocol.BeginFrame(dst, w.h.Command.Reply(), w.h.Seq)
	if w.err != nil {
		w.s.group().count.StateRefused.Add(1)
		dst = w.s.appendRefusal(dst, w.h, w.err)
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
func (f *stateHandlers) kvRestore(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVRestore()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	past, _ := s.takePrepared().(*pastVersion)
	if past == nil {
		f.readPast(s, q.NS, q.Key, q.Rev)
		return false
	}
	switch {
	case past.err != nil:
		s.refuseState(h, past.err)
		return true
	case past.entry == nil:
		s.refuseState(h, codes.Errorf(codes.NotFound, "key %q did not exist at revision %d: there is nothing to restore", q.Key, q.Rev))
		return true
	}
	if !f.commit(s, h, q.Write(past.entry.Value)) {
		s.prepareAgain(past)
		return false
	}
	return true
}

// readPast has a worker read a version and then the frame handled again.
func (f *stateHandlers) readPast(s *session, ns, key string, rev kv.Revision) {
	var past pastVersion
	s.away(func() { past.entry, past.err = f.store.GetAt(f.life, ns, key, rev) },
		func(*loop) { s.prepareAgain(&past) })
}
