package server

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvlock"
	"confcenter/protocol"
)

// lockWait is one KVLOCK from its request until it is refused or the lock is
// granted. Grants are pushed outside the order of replies, but never before the
// reply that announces them.
type lockWait struct {
	// set at open
	s    *session
	slot uint64
	h    protocol.Header
	req  kvlock.Request
	raw  bool // the holder's value may follow the reply's JSON

	// loop only
	waiter *kvlock.Waiter // nil: not queued, or not yet known
	grant  []byte         // the push, if it came before the reply left
}

// kvLock asks for a lock: granted or queued at once.
func (f *stateHandlers) kvLock(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVLock()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	if limit := s.limits().LockWaits; q.Wait && len(holdingsOf(s).waits) >= limit {
		s.group().count.LockWaitLimit.Add(1)
		s.refuseState(h, codes.Errorf(codes.Limit, "a connection may wait for %d locks; give some up with KVUNLOCK", limit))
		return true
	}
	w := &lockWait{s: s, h: h, slot: s.reserve(h.Command), raw: q.Raw, req: kvlock.Request{NS: q.NS, Key: q.Key, Lease: q.Lease, Value: q.Value, Wait: q.Wait, Actor: s.actor()}}
	err = f.locks.Lock(w.req, w.done, w.granted)
	if err == nil && q.Wait {
		holdingsOf(s).waits[w] = struct{}{}
	}
	return taken(s, h, err)
}

// done is called by the locks' manager, before granted.
func (w *lockWait) done(out kvlock.Outcome, err error) {
	w.s.loop.post(mailFunc(func(l *loop) {
		l.hasRoom()
		w.answer(out, err)
	}))
	w.s.loop.feedOthers()
}

// answer gives the reply: granted, queued or refused.
func (w *lockWait) answer(out kvlock.Outcome, err error) {
	s := w.s
	if s.gone() {
		if out.Waiter != nil {
			out.Waiter.Cancel()
		}
		return
	}
	if w.waiter = out.Waiter; w.waiter == nil {
		delete(holdingsOf(s).waits, w)
	}
	frame := protocol.BeginFrame(nil, w.h.Command.Reply(), w.h.Seq)
	switch {
	case codes.Of(err) == codes.Locked:
		s.group().count.StateRefused.Add(1)
		frame = protocol.AppendKVHeld(frame, out.Revision, out.Holder, w.raw)
	case err != nil:
		s.group().count.StateRefused.Add(1)
		frame = s.appendRefusal(frame, w.h, err)
	default:
		if out.Granted {
			holdingsOf(s).lock(LockInfo{NS: w.req.NS, Key: w.req.Key, Lease: w.req.Lease, Fence: out.Fence})
		}
		frame = protocol.AppendKVLocked(frame, protocol.KVLocked{Granted: out.Granted, Fence: out.Fence, Revision: out.Revision})
	}
	s.fill(w.slot, protocol.FinishFrame(frame, 0))
}

// granted is called by the locks' manager.
func (w *lockWait) granted(g kvlock.Grant) {
	w.s.loop.post(mailFunc(func(l *loop) { w.push(g) }))
}

// push tells the peer that its turn has come, or that it never will.
func (w *lockWait) push(g kvlock.Grant) {
	s := w.s
	delete(holdingsOf(s).waits, w)
	if s.ending() {
		return
	}
	granted := protocol.KVGranted{NS: g.NS, Key: g.Key, Lease: g.Lease, Fence: g.Fence}
	if g.Err == nil {
		holdingsOf(s).lock(LockInfo{NS: g.NS, Key: g.Key, Lease: g.Lease, Fence: g.Fence})
	} else {
		granted.Code, granted.Desc = codes.Of(g.Err), s.wireText(w.h, g.Err)
	}
	frame := protocol.AppendKVGranted(protocol.BeginFrame(nil, protocol.KVGrant, s.group().nextSeq()), granted)
	frame = protocol.FinishFrame(frame, 0)
	s.follow(w.slot, frame)
}

// kvUnlock gives a lock back, or gives up the wait for it.
func (f *stateHandlers) kvUnlock(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVUnlock()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	id := s.reserve(h.Command)
	done := func(rev kv.Revision, err error) {
		s.loop.post(mailFunc(func(l *loop) {
			l.hasRoom()
			if s.gone() {
				return
			}
			if err == nil {
				holdingsOf(s).unlocked(q.NS, q.Key)
			}
			if err == nil && q.Lease != 0 {
				holdingsOf(s).forgetWaits(q)
			}
			s.fill(id, unlocked(s, h, rev, err))
		}))
		s.loop.feedOthers()
	}
	if q.Lease != 0 {
		err = f.locks.GiveUp(s.actor(), q.NS, q.Key, q.Lease, done)
	} else {
		err = f.locks.Unlock(s.actor(), q.NS, q.Key, q.Fence, done)
	}
	return taken(s, h, err)
}

func unlocked(s *session, h protocol.Header, rev kv.Revision, err error) []byte {
	frame := protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)
	if err != nil {
		s.group().count.StateRefused.Add(1)
		frame = s.appendRefusal(frame, h, err)
	} else {
		frame = protocol.AppendKVDone(frame, rev)
	}
	return protocol.FinishFrame(frame, 0)
}
