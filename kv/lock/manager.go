// Package lock makes locks out of a kv.Store: first come, first served, ended by
// a lease, and fenced.
//
// A lock is a key that exists while the lock is held. The holder's lease ends it
// if the holder dies. The key's create revision is the holder's fence: it grows
// with every holder, so a write with an old kv.Fence is refused once another
// client has had the lock. Nothing else is kept: locks outlive the Manager and the
// process, and several managers on one store exclude each other. A Manager adds
// only the line of waiters, which is fair among its own callers.
//
// A newcomer reads [Manager.Lock], then line.go for how a lock goes from one holder
// to the next without a lost wake-up. Nothing here waits in the caller's goroutine.
package lock

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// Config is what a Manager may use. The zero value works.
type Config struct {
	MaxWaiters    int // most waiters of one lock; 0: 10,000
	MaxAllWaiters int // most waiters of all locks; 0: 100,000
	// Queues is the memory that waiters may use a third of, with their keys and values; the
	// rest is the store's. nil: one of 192 MiB.
	Queues *memory.Pool
	Tend   time.Duration // how often waiters whose lease has ended are looked for, and a store that took no writes is tried again; 0: 1 s
	Clock  clock.Clock   // nil: the machine's
	// System has the Manager make its transactions as the server's own, for locks in
	// namespaces that are kv.Reserved. No request of a peer may get to such a Manager.
	System bool
}

func (c Config) withDefaults() Config {
	c.MaxWaiters = cmp.Or(c.MaxWaiters, 10_000)
	c.MaxAllWaiters = cmp.Or(c.MaxAllWaiters, 100_000)
	c.Queues = c.Queues.Or(192 << 20)
	c.Tend = cmp.Or(c.Tend, time.Second)
	c.Clock = cmp.Or(c.Clock, clock.Real())
	return c
}

// Request asks for a lock.
type Request struct {
	NS, Key string
	// Lease ends the lock, and the wait for it. It is required: a lock without one
	// would outlive a holder that died.
	Lease kv.LeaseID
	// Value is what others read in the lock's key, such as the holder's name. The zero
	// Value is an empty string. The Manager owns it from then on.
	Value kv.Value
	Wait  bool          // stand in line if someone else holds the lock
	Actor *access.Actor // who asks
}

// Outcome is the first answer to a Request.
type Outcome struct {
	Granted  bool
	Fence    kv.Revision // if Granted: the fencing token
	Revision kv.Revision // at which this was so
	Waiter   *Waiter     // if not Granted and there is no error: the place in line
	// Holder is the lock's key while another client holds it. It is nil if Granted, or if
	// the lock is just passing from one holder to the next.
	Holder *kv.Entry
}

// Grant is the second answer to a Request that had to wait.
type Grant struct {
	NS, Key string
	Lease   kv.LeaseID
	Fence   kv.Revision // the fencing token, if Err is nil
	// Err is why the wait ended without the lock: codes.LeaseGone, codes.Closed, or
	// another error of the store.
	Err error
}

// Manager keeps the lines of waiters for the locks of one store. Its methods may be
// called from any goroutine and do not wait. It must be closed before its store.
type Manager struct {
	store      kv.Store // set by New
	cfg        Config
	stopFollow func()
	wake       chan struct{} // for the goroutine; holds one
	closing    chan struct{} // closed by Close
	ended      chan struct{} // closed by the goroutine
	lines      atomic.Int64  // len(byName), so that most batches need no lock

	mu      sync.Mutex // guards what follows, and all lines and waiters
	byName  map[name]*line
	waiting int
	bytes   int64   // of memory, that waiters keep
	jobs    []job   // transactions that the goroutine has to commit
	pending int     // jobs that are not completed, and first answers that are being given
	stalled []*line // whose next holder the store did not take
	closed  bool
}

type name struct{ ns, key string }

// New makes a Manager for store, which it follows until it is closed.
func New(store kv.Store, cfg Config) *Manager {
	m := &Manager{store: store, cfg: cfg.withDefaults(), byName: map[name]*line{},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	m.stopFollow = store.Follow(m.follow)
	go m.run()
	return m
}

// Close ends all waits with codes.Closed. When it returns nothing of the Manager is
// running; only the first answers to requests that the store is still working on come
// later. Locks that are held stay held.
func (m *Manager) Close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		<-m.ended
		return
	}
	m.closed = true
	var told []*waiter
	for _, l := range m.byName {
		for _, w := range append([]*waiter(nil), l.waiters...) {
			if w.told {
				m.leave(l, w)
				told = append(told, w)
			}
		}
	}
	m.mu.Unlock()
	for _, w := range told {
		w.tell(0, errClosed())
	}
	m.stopFollow()
	close(m.closing)
	<-m.ended
}

func errClosed() error { return codes.Errorf(codes.Closed, "the lock manager is closed") }

// Waiting returns how many requests are in line at present.
func (m *Manager) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting
}

// Lock requests a lock. done is called exactly once, unless Lock itself fails. If its
// Outcome is not Granted and there is no error, the request is in line, and granted is
// called exactly once after done unless [Waiter.Cancel] returned true. Both are called from
// goroutines of the store or the Manager, which they must not hold up. A lease that asks
// for a lock it already holds is granted it with the fence it has.
//
// Errors, of Lock itself or in done: codes.LeaseGone; codes.Locked with Holder if the
// request does not wait; codes.Limit if the line is full; and the errors of a transaction.
// After codes.Busy nothing has happened: ask again.
func (m *Manager) Lock(req Request, done func(Outcome, error), granted func(Grant)) error {
	if req.Value.Type == 0 && len(req.Value.Data) == 0 {
		req.Value = kv.StringValue("")
	}
	if req.Lease <= 0 {
		return codes.Errorf(codes.BadRequest, "a lock needs a lease")
	}
	if err := m.own(req.txn()).Check(); err != nil {
		return err
	}
	if lease, err := m.store.Lease(req.Lease); err != nil {
		return err
	} else if !m.mayUse(req.Actor, lease) {
		return kv.NoLease(req.Lease)
	}
	w := &waiter{m: m, req: req, done: done, granted: granted}
	l, txn, err := m.arrive(w)
	if err != nil {
		return err
	}
	err = m.store.Commit(txn, func(res *kv.Result, err error) { m.answer(l, w, res, err) })
	if err != nil {
		m.mu.Lock()
		l.asking--
		m.leave(l, w)
		m.next(l)
		m.mu.Unlock()
	}
	return err
}

// mayUse reports whether by may use a lease.
func (m *Manager) mayUse(by *access.Actor, lease kv.Lease) bool {
	return m.cfg.System || by.Has(lease.Owner)
}

// Unlock gives back the lock that was granted with fence. done is called once with the
// revision that freed it, or codes.FenceLost if that holder no longer has it, or the lock's
// lease is another's. If Unlock
// itself fails, done is not called; codes.Busy means ask again.
func (m *Manager) Unlock(by *access.Actor, ns, key string, fence kv.Revision, done func(rev kv.Revision, err error)) error {
	if e, _ := m.store.Get([]byte(ns), []byte(key)); e != nil && e.Create == fence && e.Lease != 0 {
		if lease, err := m.store.Lease(e.Lease); err == nil && !m.mayUse(by, lease) {
			return kv.NotHeld(kv.Fence{NS: ns, Key: key, Token: fence})
		}
	}
	txn := &kv.Txn{Fences: []kv.Fence{{NS: ns, Key: key, Token: fence}}, Then: []kv.Op{{Kind: kv.OpDelete, NS: ns, Key: key}}, Actor: by}
	return m.store.Commit(m.own(txn), func(res *kv.Result, err error) {
		if err != nil {
			done(0, err)
			return
		}
		done(res.Revision, nil)
	})
}

// GiveUp ends a lease's interest in a lock: it removes the lease's requests from the line
// without calling their granted, and gives back the lock if the lease holds it. done is
// called once, with the revision as of which this holds, even if there was nothing to give
// up, or the lease is another's. If GiveUp itself fails, done is not called; codes.Busy means ask again.
func (m *Manager) GiveUp(by *access.Actor, ns, key string, lease kv.LeaseID, done func(rev kv.Revision, err error)) error {
	if l, err := m.store.Lease(lease); err == nil && !m.mayUse(by, l) {
		lease = -1 // which no key has, as if there was nothing to give up
	}
	look := &kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: ns, Key: key}}, Actor: by}
	if err := look.Check(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return errClosed()
	}
	if l := m.byName[name{ns, key}]; l != nil {
		for _, w := range append([]*waiter(nil), l.waiters...) {
			if w.req.Lease == lease {
				m.leave(l, w)
			}
		}
		m.next(l)
	}
	m.mu.Unlock()
	return m.store.Commit(look, func(res *kv.Result, err error) {
		switch {
		case err != nil:
			done(0, err)
		case res.Ops[0].Entry == nil || res.Ops[0].Entry.Lease != lease:
			done(res.Revision, nil)
		default:
			m.free(by, ns, key, res.Ops[0].Entry.Create, done)
		}
	})
}

// free gives back a lock; it succeeds also if the holder has lost it already.
func (m *Manager) free(by *access.Actor, ns, key string, fence kv.Revision, done func(kv.Revision, error)) {
	m.mu.Lock()
	if m.closed { // the goroutine may have ended
		m.mu.Unlock()
		done(0, errClosed())
		return
	}
	defer m.mu.Unlock()
	m.enqueue(job{m.own(freeTxn(by, ns, key, fence)), func(res *kv.Result, err error) {
		if err != nil {
			done(0, err)
			return
		}
		done(res.Revision, nil)
	}})
}
