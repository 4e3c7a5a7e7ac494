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
func (s *session) kvLock(h protocol.Header, _ []byte) bool {
	q, err := s.loop.req.KVLock()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	if limit := s.limits().LockWaits; q.Wait && len(s.waits) >= limit {
		s.srv.count.LockWaitLimit.Add(1)
		s.refuseState(h, codes.Errorf(codes.Limit, "a connection may wait for %d locks; give some up with KVUNLOCK", limit))
		return true
	}
	w := &lockWait{s: s, h: h, slot: s.reserve(h.Command), raw: q.Raw, req: kvlock.Request{NS: q.NS, Key: q.Key, Lease: q.Lease, Value: q.Value, Wait: q.Wait, Actor: s.actor()}}
	err = s.srv.locks.Lock(w.req, w.done, w.granted)
	if err == nil && q.Wait {
		s.addWait(w)
	}
	return s.taken(h, err)
}

func (s *session) addWait(w *lockWait) {
	if s.waits == nil {
		s.waits = make(map[*lockWait]struct{})
	}
	s.waits[w] = struct{}{}
}

// done is called by the locks' manager, before granted.
func (w *lockWait) done(out kvlock.Outcome, err error) {
	w.s.loop.post(mailFunc(func(l *loop) {
		l.hungry.room = true
		w.answer(out, err)
	}))
	w.s.loop.feedOthers()
}

// answer gives the reply: granted, queued or refused.
func (w *lockWait) answer(out kvlock.Outcome, err error) {
	s := w.s
	if s.state == dead {
		if out.Waiter != nil {
			out.Waiter.Cancel()
		}
		return
	}
	if w.waiter = out.Waiter; w.waiter == nil {
		delete(s.waits, w)
	}
	frame := protocol.BeginFrame(nil, w.h.Command.Reply(), w.h.Seq)
	switch {
	case codes.Of(err) == codes.Locked:
		s.srv.count.StateRefused.Add(1)
		frame = protocol.AppendKVHeld(frame, out.Revision, out.Holder, w.raw)
	case err != nil:
		s.srv.count.StateRefused.Add(1)
		frame = s.appendRefusal(frame, w.h, err)
	default:
		if out.Granted {
			s.grants.lock(LockInfo{NS: w.req.NS, Key: w.req.Key, Lease: w.req.Lease, Fence: out.Fence})
		}
		frame = protocol.AppendKVLocked(frame, protocol.KVLocked{Granted: out.Granted, Fence: out.Fence, Revision: out.Revision})
	}
	s.fill(w.slot, slot{frame: protocol.FinishFrame(frame, 0)})
}

// granted is called by the locks' manager.
func (w *lockWait) granted(g kvlock.Grant) {
	w.s.loop.post(mailFunc(func(l *loop) { w.push(g) }))
}

// push tells the peer that its turn has come, or that it never will.
func (w *lockWait) push(g kvlock.Grant) {
	s := w.s
	delete(s.waits, w)
	if s.state.over() {
		return
	}
	granted := protocol.KVGranted{NS: g.NS, Key: g.Key, Lease: g.Lease, Fence: g.Fence}
	if g.Err == nil {
		s.grants.lock(LockInfo{NS: g.NS, Key: g.Key, Lease: g.Lease, Fence: g.Fence})
	} else {
		granted.Code, granted.Desc = codes.Of(g.Err), s.wireText(w.h, g.Err)
	}
	frame := protocol.AppendKVGranted(protocol.BeginFrame(nil, protocol.KVGrant, s.srv.nextSeq()), granted)
	frame = protocol.FinishFrame(frame, 0)
	if reply := s.slot(w.slot); reply != nil {
		// The reply waits behind another one: the grant leaves right after it.
		reply.frame = append(reply.frame, frame...)
		return
	}
	s.out.sendFrame(frame)
}

// dropWaits takes the session out of all lines it stands in.
func (s *session) dropWaits() {
	for w := range s.waits {
		if w.waiter != nil {
			w.waiter.Cancel()
		}
	}
	s.waits = nil
}

// forgetWaits drops what the session waits for at a lock that its lease has given
// up; the manager has taken it out of the line.
func (s *session) forgetWaits(q protocol.KVUnlockRequest) {
	for w := range s.waits {
		if w.waiter != nil && w.req.NS == q.NS && w.req.Key == q.Key && w.req.Lease == q.Lease {
			delete(s.waits, w)
		}
	}
}

// kvUnlock gives a lock back, or gives up the wait for it.
func (s *session) kvUnlock(h protocol.Header, _ []byte) bool {
	q, err := s.loop.req.KVUnlock()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	id := s.reserve(h.Command)
	done := func(rev kv.Revision, err error) {
		s.loop.post(mailFunc(func(l *loop) {
			l.hungry.room = true
			if s.state == dead {
				return
			}
			if err == nil {
				s.grants.unlocked(q.NS, q.Key)
			}
			if err == nil && q.Lease != 0 {
				s.forgetWaits(q)
			}
			s.fill(id, slot{frame: s.unlocked(h, rev, err)})
		}))
		s.loop.feedOthers()
	}
	if q.Lease != 0 {
		err = s.srv.locks.GiveUp(s.actor(), q.NS, q.Key, q.Lease, done)
	} else {
		err = s.srv.locks.Unlock(s.actor(), q.NS, q.Key, q.Fence, done)
	}
	return s.taken(h, err)
}

func (s *session) unlocked(h protocol.Header, rev kv.Revision, err error) []byte {
	frame := protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)
	if err != nil {
		s.srv.count.StateRefused.Add(1)
		frame = s.appendRefusal(frame, h, err)
	} else {
		frame = protocol.AppendKVDone(frame, rev)
	}
	return protocol.FinishFrame(frame, 0)
}
