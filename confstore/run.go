package confstore

import (
	"time"

	"confcenter/internal/clock"
)

// timers wake the store's goroutine.
type timers struct {
	settle, retry clock.Timer
	scan, report  clock.Ticker
}

// run is the store's goroutine.
func (s *Store) run() {
	c := s.cfg.Clock
	t := &timers{settle: c.NewTimer(time.Hour), retry: c.NewTimer(s.cfg.RetryPeriod), scan: c.NewTicker(s.cfg.ScanPeriod), report: c.NewTicker(s.cfg.ReportPeriod)}
	defer t.settle.Stop()
	defer t.retry.Stop()
	defer t.scan.Stop()
	defer t.report.Stop()
	for s.guarded(t) {
	}
}

// guarded is turn, but that a panic ends writing and looking for edits, not the process: nothing
// but the snapshots can be trusted then.
func (s *Store) guarded(t *timers) (more bool) {
	defer func() {
		s.troubles.turn.Store(0)
		if what := recover(); what != nil {
			s.dead, more = true, true
			s.writer.stop(s.troubles.panicked(what))
			s.queue.abandon()
		}
	}()
	if s.dead {
		return s.idle()
	}
	return s.turn(t)
}

// turn waits for something to do and does it. It is false when the store is closing.
func (s *Store) turn(t *timers) bool {
	s.arm(t.settle)
	in := &s.intake
	select {
	case <-s.closing:
		s.queue.refuse(errClosed)
		return false
	case job := <-s.queue.next():
		s.began()
		s.writer.serve(job)
	case <-s.directory.wake():
		s.began()
		in.takeEvents()
	case <-t.settle.C():
		s.began()
		in.settleNow()
	case list := <-in.scans:
		s.began()
		in.takeScan(list)
	case done := <-s.reloads:
		defer close(done)
		s.began()
		in.reload()
	case <-t.scan.C():
		s.began()
		in.startScan()
	case <-t.report.C():
		s.directory.problems.remind()
	case <-t.retry.C():
		s.began()
		t.retry.Reset(s.cfg.RetryPeriod)
		s.writer.retry()
		in.retryPlacing()
	}
	return true
}

// idle is turn after a panic: every caller gets an answer.
func (s *Store) idle() bool {
	select {
	case <-s.closing:
		s.queue.refuse(errClosed)
		return false
	case job := <-s.queue.held:
		s.queue.answer(job, nil, errPanicked)
	case job := <-s.queue.jobs:
		s.queue.answer(job, nil, errPanicked)
	case done := <-s.reloads:
		close(done)
	}
	return true
}

func (s *Store) began() { s.troubles.turn.Store(s.cfg.Clock.Now().UnixNano()) }

// arm sets the timer for the next change that settles.
func (s *Store) arm(timer clock.Timer) {
	if next := s.intake.settle.deadline(); !next.IsZero() {
		timer.Reset(next.Sub(s.cfg.Clock.Now()))
	} else {
		timer.Stop()
	}
}
