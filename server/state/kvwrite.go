package state

import (
	"errors"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// kvWriting is a transaction on its way through the store and back; it then makes the reply.
type kvWriting struct {
	kv.Write
	s       *gate.Session
	slot    uint64
	h       protocol.Header
	request protocol.KVWrite
	reveal  *edge.Revealer // of the reply; nil: nothing
}

// maxFree is how many of them a loop keeps for reuse.
const maxFree = 1024

func (d *local) newWriting(s *gate.Session, h protocol.Header) *kvWriting {
	var w *kvWriting
	if last := len(d.free) - 1; last >= 0 {
		w, d.free = d.free[last], d.free[:last]
	} else {
		w = new(kvWriting)
		w.For = w
	}
	w.s, w.h = s, h
	return w
}

// done releases w.
func (d *local) done(w *kvWriting) {
	w.request.Forget()
	w.Room(1) // which keeps no entries
	w.s, w.Txn, w.reveal = nil, nil, nil
	if len(d.free) < maxFree {
		d.free = append(d.free, w)
	}
}

// kvWrite collects a transaction for the store; the reply follows when it is durable
// and every watcher's event is on its way.
func (f *Handlers) kvWrite(s *gate.Session, h protocol.Header, _ []byte) bool {
	d := deskOf(s)
	w := d.newWriting(s, h)
	err := s.Local.Req.ReadKVWrite(&w.request, h.Command)
	if err == nil && s.Judged() {
		err = s.Judge(w.request.Things(s.Things()))
	}
	if err == nil {
		err = s.Seal(w.request.Txn)
	}
	if err != nil {
		d.done(w)
		s.Refuse(h, err)
		return true
	}
	d.collect(w)
	return true
}

// collect lets the store apply w together with the requests that came with it.
func (d *local) collect(w *kvWriting) {
	w.Txn, w.slot = w.request.Txn, w.s.Reserve(w.h.Command)
	w.Txn.Actor = w.s.Actor()
	d.writes = append(d.writes, &w.Write)
}

// handOver gives the store what was collected, or had to wait for room in its queue. It
// returns false if some of it must wait; then the session waits.
func (f *Handlers) handOver(s *gate.Session) bool {
	d := deskOf(s)
	list := d.writes
	if h, ok := s.Part(gate.OfState).(*holdings); ok && len(h.writes) > 0 {
		list, h.writes = append(h.writes, list...), nil
	}
	if len(list) == 0 {
		return true
	}
	count := &s.Group().Count
	defer func() {
		clear(d.writes)
		d.writes = d.writes[:0]
	}()
	for len(list) > 0 {
		taken, err := f.store.CommitEach(d, list)
		count.StateWrites.Add(uint64(taken))
		list = list[taken:]
		switch {
		case err == nil:
		case codes.Of(err) == codes.Busy && !s.Ending():
			count.StateBusy.Add(1)
			holdingsOf(s).writes = slices.Clone(list)
			s.Starve()
			return false
		default:
			list[0].Err = err
			s.Loop.Post(&committed{writes: slices.Clone(list[:1])})
			list = list[1:]
		}
	}
	return true
}

// taken handles the result of handing a request to the locks. It returns false if the
// store's queue is full; then the session waits for room.
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
		s.Refuse(h, err)
		return true
	}
}

// Committed is called by the store: it posts one mail for a whole group.
func (d *local) Committed(writes []*kv.Write) {
	d.loop.Post(&committed{writes: writes})
	d.loop.TellOthersOfRoom()
}

// committed is the mail that brings the results of transactions to the loop.
type committed struct {
	writes []*kv.Write
	next   int
}

// Deliver completes the replies. It does not stop in the middle of one session's writes, so
// that their replies leave together.
func (c *committed) Deliver(l *loop.Loop, budget int) (used int, done bool) {
	l.HasRoom()
	var s *gate.Session
	for ; c.next < len(c.writes); c.next++ {
		w := c.writes[c.next].For.(*kvWriting)
		if used >= budget && w.s != s {
			return used, false
		}
		s = w.s
		w.answer(l)
		used++
	}
	return used, true
}

// answer completes the reply. A worker first encodes a long one.
func (w *kvWriting) answer(l *loop.Loop) {
	s := w.s
	if s.Gone() {
		deskOf(s).done(w)
		return
	}
	size := 0
	if w.Err == nil {
		written(s, &w.Result)
		size = w.Result.Size()
		if w.request.Reveal {
			w.reveal = s.Revealer(true)
		}
	}
	switch {
	case size > maxReply:
		w.Err = codes.Errorf(codes.TooLarge, "the transaction was applied, at revision %d, but what it read has %d bytes and the limit of one reply is %d; read it again in parts",
			w.Result.Revision, size, maxReply)
	case size > loopBytes || w.reveal != nil:
		s.Group().Work(func() {
			frame := w.append(nil)
			l.Post(loop.MailFunc(func(*loop.Loop) { s.Fill(w.slot, frame) }))
		})
		return
	}
	s.FillWith(w.slot, w)
}

// AppendFrame appends the reply, on the loop, after which w may be used again.
func (w *kvWriting) AppendFrame(dst []byte) []byte {
	dst = w.append(dst)
	deskOf(w.s).done(w)
	return dst
}

func (w *kvWriting) append(dst []byte) []byte {
	start := len(dst)
	dst = protocol.BeginFrame(dst, w.h.Command.Reply(), w.h.Seq)
	if w.Err != nil {
		dst = w.refusal(dst)
	} else {
		w.Result.Ops = w.reveal.Results(w.Result.Ops)
		dst = w.request.AppendReply(dst, &w.Result)
	}
	return protocol.FinishFrame(dst, start)
}

// refusal appends the answer to a write that failed. If it was to a lock, the holder is told to those
// who may read it.
func (w *kvWriting) refusal(dst []byte) []byte {
	err := w.s.Rights.Told(w.Err)
	if taken := (*kv.Taken)(nil); errors.As(err, &taken) {
		_, text := w.s.Refused(w.h, err)
		return protocol.AppendKVHeld(dst, text, taken.Revision, taken.Holder, w.request.Raw)
	}
	return w.s.AppendRefusal(dst, w.h, err)
}

// pastVersion is a worker's result for KVRESTORE.
type pastVersion struct {
	entry *kv.Entry
	err   error
}

// kvRestore writes a past version of a key again. A worker reads it first; then the
// request is handled again and becomes a put.
func (f *Handlers) kvRestore(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Local.Req.KVRestore()
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	past, _ := s.TakePrepared().(*pastVersion)
	if past == nil {
		f.readPast(s, q.NS, q.Key, q.Rev)
		return false
	}
	switch {
	case past.err != nil:
		s.Refuse(h, past.err)
		return true
	case past.entry == nil:
		s.Refuse(h, codes.Errorf(codes.NotFound, "key %q did not exist at revision %d: there is nothing to restore", q.Key, q.Rev))
		return true
	}
	d := deskOf(s)
	w := d.newWriting(s, h)
	w.request = q.Write(past.entry.Value)
	d.collect(w)
	return true
}

// readPast makes a worker read a version; then the frame is handled again.
func (f *Handlers) readPast(s *gate.Session, ns, key string, rev kv.Revision) {
	var past pastVersion
	s.Away(func() { past.entry, past.err = f.store.GetAt(s.Gate.Life(), ns, key, rev) },
		func(*loop.Loop) { s.PrepareAgain(&past) })
}
