package lock

import (
	"slices"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
)

// job is a transaction of the Manager's own. Stores call back from goroutines that must not
// be held up, and possibly while they hold a lock, so the transactions that follow from a
// callback are committed by the Manager's goroutine.
type job struct {
	txn  *kv.Txn
	done func(*kv.Result, error)
}

// enqueue is called with m.mu held.
func (m *Manager) enqueue(j job) {
	m.jobs = append(m.jobs, j)
	m.pending++
	m.rouse()
}

// complete is called without m.mu once something pending is done.
func (m *Manager) complete() {
	m.mu.Lock()
	m.pending--
	m.mu.Unlock()
	m.rouse()
}

func (m *Manager) rouse() { clock.Nudge(m.wake) }

// run is the Manager's goroutine. It ends when the Manager is closed and nothing is pending:
// unwanted locks still have to be given back, and who is being told that he waits has to
// hear that he no longer does.
func (m *Manager) run() {
	defer close(m.ended)
	ticker := m.cfg.Clock.NewTicker(m.cfg.Tend)
	defer ticker.Stop()
	closing := m.closing
	for {
		m.work()
		select {
		case <-m.wake:
		case <-closing:
			closing = nil
		case <-ticker.C():
			m.tend()
		}
		if closing == nil && m.idle() {
			return
		}
	}
}

func (m *Manager) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pending == 0
}

// work commits all jobs in their order. A busy store is asked again for the same
// job: it would not take the next one either.
func (m *Manager) work() {
	for {
		m.mu.Lock()
		if len(m.jobs) == 0 {
			m.jobs = nil
			m.mu.Unlock()
			return
		}
		j := m.jobs[0]
		m.jobs = m.jobs[1:]
		m.mu.Unlock()
		m.commit(j)
	}
}

func (m *Manager) commit(j job) {
	done := func(res *kv.Result, err error) {
		j.done(res, err)
		m.complete()
	}
	for {
		err := m.store.Commit(j.txn, done)
		if err == nil {
			return
		}
		if codes.Of(err) != codes.Busy || clock.Within(m.cfg.Clock, busyPause, m.closing) {
			done(nil, err)
			return
		}
	}
}

// busyPause is how long a busy store is left alone.
const busyPause = 10 * time.Millisecond

// tend handles what no event reports: leases that ended without having had a key, and
// stores that accept writes again.
func (m *Manager) tend() {
	m.mu.Lock()
	for _, l := range m.stalled {
		l.stalled = false
		m.next(l)
	}
	m.stalled = nil
	var waiters []*waiter
	for _, l := range m.byName {
		waiters = append(waiters, l.waiters...)
	}
	m.mu.Unlock()

	waiters = slices.DeleteFunc(waiters, func(w *waiter) bool {
		_, err := m.store.Lease(w.req.Lease)
		return codes.Of(err) != codes.LeaseGone
	})
	for _, w := range waiters {
		m.dismiss(w)
	}
}

// dismiss ends the wait of a waiter whose lease is gone.
func (m *Manager) dismiss(w *waiter) {
	m.mu.Lock()
	mine := w.told && !w.left
	if mine {
		m.leave(w.line, w)
		m.next(w.line)
	}
	m.mu.Unlock()
	if mine {
		w.tell(0, codes.Errorf(codes.LeaseGone, "lease %d ended while it waited for lock %q", w.req.Lease, w.req.Key))
	}
}
