package lock

import (
	"slices"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// line is the queue for one lock. It exists while it has a waiter or a transaction of its
// own is pending.
//
// The first waiter asks the store to put the key if it is absent. The store's answer alone
// decides who holds the lock; the line only has to know when asking is worthwhile, and must
// never miss such a moment. So it compares revisions: freed is the newest at which the key
// was seen absent or deleted, held the newest at which it was seen present. Answers and
// events arrive in either order. The greater revision is the later truth, and while held is
// greater, an event with a still greater revision is yet to come.
type line struct {
	name    name
	waiters []*waiter
	asking  int  // first questions that the store has not answered
	trying  bool // the Manager is asking for a waiter in line
	freed   kv.Revision
	held    kv.Revision
	stalled bool // the store takes no writes for a while: asking has to wait for the next look after it

	// owner and fence are the holder that this Manager gave the lock last.
	owner kv.LeaseID
	fence kv.Revision
	// dropping is the fence of a lock that was granted to a cancelled waiter and is being
	// given back. kept is a fence that a lease was told it has, which must not be given back.
	dropping, kept kv.Revision
}

// waiter is one request, from Lock to its last answer.
type waiter struct {
	m       *Manager // set by Lock
	line    *line
	req     Request
	done    func(Outcome, error)
	granted func(Grant)

	// Guarded by m.mu.
	refused error // why it may not stand in line
	inLine  bool
	told    bool        // done has returned and said that it waits
	left    bool        // it was taken out of the line: by its grant, an error, or itself
	cancel  bool        // by itself
	seen    kv.Revision // at which its last question was answered
}

// Waiter is a place in line.
type Waiter struct{ w *waiter }

// Cancel leaves the line. True means that granted was not and will not be called, and that
// the lock is given back if the store grants it anyway. False means that granted was called
// or is being called. Cancel may be called several times, and from done.
func (p *Waiter) Cancel() bool {
	w := p.w
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.left {
		return w.cancel
	}
	w.cancel = true
	w.m.leave(w.line, w)
	w.m.next(w.line)
	return true
}

func (w *waiter) tell(fence kv.Revision, err error) {
	w.granted(Grant{NS: w.req.NS, Key: w.req.Key, Lease: w.req.Lease, Fence: fence, Err: err})
}

func (r *Request) cost() int64 {
	return int64(memory.WaiterCost + len(r.NS) + len(r.Key) + len(r.Value.Data))
}

// txn takes the lock if it is free, else reads it. The store owns a transaction, so each has
// its own copy of the value.
func (r *Request) txn() *kv.Txn {
	value := kv.Value{Type: r.Value.Type, Data: slices.Clone(r.Value.Data)}
	return &kv.Txn{If: []kv.Compare{kv.Absent(r.NS, r.Key)},
		Then: []kv.Op{{Kind: kv.OpPut, NS: r.NS, Key: r.Key, Value: value, Lease: r.Lease, Lock: true}},
		Else: []kv.Op{{Kind: kv.OpGet, NS: r.NS, Key: r.Key}}, Actor: r.Actor}
}

// look is txn for a waiter that is not first: it reads the lock, in order with the other
// transactions, but does not take it. Held is false in its result, as in txn's.
func (r *Request) look() *kv.Txn {
	never := kv.Compare{NS: r.NS, Key: r.Key, Target: kv.CompareVersion, Relation: kv.Less}
	return &kv.Txn{If: []kv.Compare{never}, Else: []kv.Op{{Kind: kv.OpGet, NS: r.NS, Key: r.Key}}, Actor: r.Actor}
}

// own makes a transaction the server's own if all of the Manager's are.
func (m *Manager) own(txn *kv.Txn) *kv.Txn {
	txn.System = m.cfg.System
	return txn
}

func freeTxn(by *access.Actor, ns, key string, fence kv.Revision) *kv.Txn {
	return &kv.Txn{If: []kv.Compare{{NS: ns, Key: key, Target: kv.CompareCreate, Relation: kv.Equal, Number: int64(fence)}},
		Then: []kv.Op{{Kind: kv.OpDelete, NS: ns, Key: key}}, Actor: by}
}

// arrive puts w at the end of the line before the store is asked, so that no later request
// can overtake it.
func (m *Manager) arrive(w *waiter) (*line, *kv.Txn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, errClosed()
	}
	id := name{w.req.NS, w.req.Key}
	l := m.byName[id]
	if l == nil {
		l = &line{name: id}
		m.byName[id] = l
		m.lines.Add(1)
	}
	first := len(l.waiters) == 0 && !l.trying && l.dropping == 0
	w.line = l
	l.asking++
	if w.req.Wait {
		if w.refused = m.room(l, w); w.refused == nil {
			w.inLine = true
			l.waiters = append(l.waiters, w)
			m.waiting++
			m.keep(w.req.cost())
		}
	}
	if first {
		return l, m.own(w.req.txn()), nil
	}
	return l, w.req.look(), nil
}

func (m *Manager) room(l *line, w *waiter) error {
	switch {
	case len(l.waiters) >= m.cfg.MaxWaiters:
		return codes.Errorf(codes.Limit, "lock %q has %d waiters, the limit is %d", l.name.key, len(l.waiters), m.cfg.MaxWaiters)
	case m.waiting >= m.cfg.MaxAllWaiters:
		return codes.Errorf(codes.Limit, "%d requests wait for locks, the limit is %d", m.waiting, m.cfg.MaxAllWaiters)
	}
	const share = 3 // the pool's other uses are transactions and versions
	if most := m.cfg.Queues.Limit() / share; m.bytes+w.req.cost() > most {
		m.cfg.Queues.Refuse()
		return codes.Errorf(codes.Limit, "requests that wait for locks take %d bytes of memory, the limit is %d", m.bytes, most)
	}
	return nil
}

// keep counts what a waiter takes.
func (m *Manager) keep(bytes int64) {
	m.bytes += bytes
	m.cfg.Queues.Add(bytes)
}

// leave takes w out of the line.
func (m *Manager) leave(l *line, w *waiter) {
	w.left = true
	if !w.inLine {
		return
	}
	w.inLine = false
	m.waiting--
	m.keep(-w.req.cost())
	i := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, i, i+1)
}

// next asks for the lock on behalf of the first waiter, if it may be free, and forgets a
// line that is no longer needed. A waiter whose done has not run yet gets its turn after it.
func (m *Manager) next(l *line) {
	if l.trying || l.stalled || l.dropping != 0 {
		return
	}
	if len(l.waiters) == 0 {
		if l.asking == 0 && m.byName[l.name] == l {
			delete(m.byName, l.name)
			m.lines.Add(-1)
		}
		return
	}
	if w := l.waiters[0]; w.told && l.freed >= l.held {
		m.try(l, w, m.own(w.req.txn()))
	}
}

func (m *Manager) try(l *line, w *waiter, txn *kv.Txn) {
	l.trying = true
	m.enqueue(job{txn, func(res *kv.Result, err error) {
		m.mu.Lock()
		l.trying = false
		l.asking++ // answer takes it back
		m.mu.Unlock()
		m.answer(l, w, res, err)
	}})
}

// follow receives the store's changes and asks again for locks whose key was deleted.
func (m *Manager) follow(batch *kv.Batch) {
	if m.lines.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, change := range batch.Changes {
		for i := range change.Events {
			event := &change.Events[i]
			if event.Kind == kv.Put {
				continue
			}
			if l := m.byName[name{event.Entry.NS, event.Entry.Key}]; l != nil {
				l.freed = max(l.freed, change.Revision)
				m.next(l)
			}
		}
	}
}
