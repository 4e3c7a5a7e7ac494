package state

import (
	"confcenter/codes"
	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/kv/lock"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// lockWait is one KVLOCK from the request until it is refused or granted. Grants are pushed
// outside the order of replies, but never before the reply that announces them.
type lockWait struct {
	// set at open
	s    *gate.Session
	slot uint64
	h    protocol.Header
	req  lock.Request
	raw  bool // the holder's value may follow the reply's JSON

	// loop only
	waiter *lock.Waiter // nil: not queued, or not known yet
	grant  []byte       // the push, if it came before the reply left
}

// kvLock requests a lock, which is granted or queued at once.
func (f *Handlers) kvLock(s *gate.Session, h protocol.Header, _ []byte) bool {
	if !f.handOver(s) {
		return false
	}
	q, err := s.Local.Req.KVLock()
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err == nil {
		err = edge.Unsealed(q.Value)
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	if limit := s.Limits().LockWaits; q.Wait && len(holdingsOf(s).waits) >= limit {
		s.Group().Count.LockWaitLimit.Add(1)
		s.Refuse(h, codes.Errorf(codes.Limit, "a connection may wait for %d locks; give some up first", limit))
		return true
	}
	w := &lockWait{s: s, h: h, slot: s.Reserve(h.Command), raw: q.Raw, req: lock.Request{NS: q.NS, Key: q.Key, Lease: q.Lease, Value: q.Value, Wait: q.Wait, Actor: s.Actor()}}
	err = f.locks.Lock(w.req, w.done, w.granted)
	if err == nil && q.Wait {
		holdingsOf(s).waits[w] = struct{}{}
	}
	return taken(s, h, err)
}

// done is called by the locks' manager, before granted.
func (w *lockWait) done(out lock.Outcome, err error) {
	w.s.Loop.Post(loop.MailFunc(func(l *loop.Loop) {
		l.HasRoom()
		w.answer(out, err)
	}))
	w.s.Loop.TellOthersOfRoom()
}

// answer sends the reply: granted, queued or refused.
func (w *lockWait) answer(out lock.Outcome, err error) {
	s := w.s
	if s.Gone() {
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
		s.Group().Count.StateRefused.Add(1)
		frame = protocol.AppendKVHeld(frame, codes.Locked.Error(), out.Revision, out.Holder, w.raw)
	case err != nil:
		frame = s.AppendRefusal(frame, w.h, err)
	default:
		if out.Granted {
			holdingsOf(s).lock(roster.Lock{NS: w.req.NS, Key: w.req.Key, Lease: w.req.Lease, Fence: out.Fence})
		}
		frame = protocol.AppendKVLocked(frame, protocol.KVLocked{Granted: out.Granted, Fence: out.Fence, Revision: out.Revision})
	}
	s.Fill(w.slot, protocol.FinishFrame(frame, 0))
}

// granted is called by the locks' manager.
func (w *lockWait) granted(g lock.Grant) {
	w.s.Loop.Post(loop.MailFunc(func(l *loop.Loop) { w.push(g) }))
}

// push tells the peer that its turn has come, or that it never will.
func (w *lockWait) push(g lock.Grant) {
	s := w.s
	delete(holdingsOf(s).waits, w)
	if s.Ending() {
		return
	}
	granted := protocol.KVGranted{NS: g.NS, Key: g.Key, Lease: g.Lease, Fence: g.Fence}
	if g.Err == nil {
		holdingsOf(s).lock(roster.Lock{NS: g.NS, Key: g.Key, Lease: g.Lease, Fence: g.Fence})
	} else {
		_, granted.Desc = s.Refused(w.h, g.Err)
		granted.Code = codes.Of(g.Err)
	}
	frame := protocol.AppendMessage(protocol.BeginFrame(nil, protocol.KVGrant, s.Group().NextSeq()), &granted)
	frame = protocol.FinishFrame(frame, 0)
	s.Follow(w.slot, frame)
}

// kvUnlock releases a lock, or stops waiting for it.
func (f *Handlers) kvUnlock(s *gate.Session, h protocol.Header, _ []byte) bool {
	if !f.handOver(s) {
		return false
	}
	q, err := s.Local.Req.KVUnlock()
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	id := s.Reserve(h.Command)
	done := func(rev kv.Revision, err error) {
		s.Loop.Post(loop.MailFunc(func(l *loop.Loop) {
			l.HasRoom()
			if s.Gone() {
				return
			}
			if err == nil {
				holdingsOf(s).unlocked(q.NS, q.Key)
			}
			if err == nil && q.Lease != 0 {
				holdingsOf(s).forgetWaits(q)
			}
			s.Fill(id, unlocked(s, h, rev, err))
		}))
		s.Loop.TellOthersOfRoom()
	}
	if q.Lease != 0 {
		err = f.locks.GiveUp(s.Actor(), q.NS, q.Key, q.Lease, done)
	} else {
		err = f.locks.Unlock(s.Actor(), q.NS, q.Key, q.Fence, done)
	}
	return taken(s, h, err)
}

func unlocked(s *gate.Session, h protocol.Header, rev kv.Revision, err error) []byte {
	frame := protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)
	if err != nil {
		frame = s.AppendRefusal(frame, h, err)
	} else {
		frame = protocol.AppendKVDone(frame, rev)
	}
	return protocol.FinishFrame(frame, 0)
}
