package lock

import (
	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// answer handles the store's answer to any transaction made for w and notifies the
// waiters it concerns. Callbacks run without the lock; done runs before the same waiter
// can be told anything else.
func (m *Manager) answer(l *line, w *waiter, res *kv.Result, err error) {
	m.mu.Lock()
	l.asking--
	if err == nil {
		l.learn(w, res)
		w.seen = res.Revision
	}
	var calls []func()
	if w.told {
		calls = m.answerLater(l, w, res, err)
	} else {
		calls = m.answerFirst(l, w, res, err)
	}
	m.next(l)
	m.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// learn records what the result says about the lock.
func (l *line) learn(w *waiter, res *kv.Result) {
	entry := res.Ops[0].Entry
	switch {
	case res.Held:
		if entry.Create > l.fence {
			l.owner, l.fence = w.req.Lease, entry.Create
		}
		l.held = max(l.held, entry.Create)
	case entry != nil:
		l.held = max(l.held, res.Revision)
	default:
		l.freed = max(l.freed, res.Revision)
	}
}

// has returns the fence with which res shows that w holds the lock. Answers may
// come late: a key created before it was last seen absent no longer counts.
func (l *line) has(w *waiter, res *kv.Result) (kv.Revision, bool) {
	entry := res.Ops[0].Entry
	if entry == nil || entry.Lease != w.req.Lease || entry.Create == l.dropping || entry.Create < l.freed {
		return 0, false
	}
	return entry.Create, true
}

func (m *Manager) answerFirst(l *line, w *waiter, res *kv.Result, err error) []func() {
	if err != nil {
		m.leave(l, w)
		return []func(){func() { w.done(Outcome{}, err) }}
	}
	if fence, ok := l.has(w, res); ok {
		l.kept = fence
		m.leave(l, w)
		out := Outcome{Granted: true, Fence: fence, Revision: res.Revision}
		return append([]func(){func() { w.done(out, nil) }}, m.twins(l, w.req.Lease, fence)...)
	}
	out := Outcome{Revision: res.Revision, Holder: res.Ops[0].Entry}
	switch {
	case m.closed:
		m.leave(l, w)
		err = errClosed()
	case !w.req.Wait:
		err = codes.Errorf(codes.Locked, "lock %q is held by another client", w.req.Key)
	case w.refused != nil:
		err = w.refused
	default:
		out.Waiter = &Waiter{w}
		m.pending++ // until toldToWait: Close waits for what it says
	}
	return []func(){func() {
		w.done(out, err)
		if err == nil {
			m.toldToWait(l, w)
		}
	}}
}

// toldToWait makes w eligible for its turn, which may come at once: the lock may be free,
// or another request of the same lease may have got it since w's answer.
func (m *Manager) toldToWait(l *line, w *waiter) {
	m.mu.Lock()
	w.told = true
	closed := m.closed && !w.left
	granted := !closed && !w.left && l.owner == w.req.Lease && l.fence > l.freed && l.fence > w.seen && l.kept == l.fence
	fence := l.fence
	if closed || granted {
		m.leave(l, w)
	}
	m.next(l)
	m.mu.Unlock()
	switch {
	case closed:
		w.tell(0, errClosed())
	case granted:
		w.tell(fence, nil)
	}
	m.complete()
}

func (m *Manager) answerLater(l *line, w *waiter, res *kv.Result, err error) []func() {
	if err != nil {
		return m.failed(l, w, err)
	}
	fence, ok := l.has(w, res)
	if !ok {
		return nil // someone else was faster: w stays where it is
	}
	var calls []func()
	if !w.left {
		m.leave(l, w)
		l.kept = fence
		calls = append(calls, func() { w.tell(fence, nil) })
	}
	if twins := m.twins(l, w.req.Lease, fence); len(twins) > 0 {
		l.kept = fence
		calls = append(calls, twins...)
	}
	if l.kept != fence && res.Held {
		m.drop(l, fence)
	}
	return calls
}

// failed ends the wait of w, unless the store merely refuses writes for a while.
func (m *Manager) failed(l *line, w *waiter, err error) []func() {
	switch {
	case w.left:
		return nil
	case !m.closed && temporary(err):
		l.stalled = true
		m.stalled = append(m.stalled, l)
		return nil
	}
	m.leave(l, w)
	return []func(){func() { w.tell(0, err) }}
}

func temporary(err error) bool {
	switch codes.Of(err) {
	case codes.Busy, codes.Storage, codes.Quota:
		return true
	}
	return false
}

// twins are further requests of the lease that has just got the lock, for example from a
// connection that replaced another. They have it too: otherwise they would wait for their
// own lease for ever. One that was answered at a later revision is no twin: by then the
// lease had given that lock back.
func (m *Manager) twins(l *line, lease kv.LeaseID, fence kv.Revision) []func() {
	var calls []func()
	for _, w := range append([]*waiter(nil), l.waiters...) {
		if w.told && w.req.Lease == lease && w.seen < fence && l.freed < fence {
			m.leave(l, w)
			calls = append(calls, func() { w.tell(fence, nil) })
		}
	}
	return calls
}

// tidying is the actor that gives back unwanted locks.
var tidying = &access.Actor{Origin: access.Server}

// drop gives back a lock that was granted to a waiter who no longer wants it.
func (m *Manager) drop(l *line, fence kv.Revision) {
	l.dropping = fence
	m.enqueue(job{m.own(freeTxn(tidying, l.name.ns, l.name.key, fence)), func(res *kv.Result, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		l.dropping = 0
		if err == nil && res.Held {
			l.freed = max(l.freed, res.Revision)
		}
		m.next(l)
	}})
}
