package loop

import (
	"slices"
	"sync"
)

// workers run jobs that would take a loop too long, or that wait for others. The queue needs
// no limit: every session has at most one job, and every loop one more.
type workers struct {
	mu   sync.Mutex
	cond sync.Cond
	// guarded by mu
	jobs   []func()
	closed bool

	done sync.WaitGroup
}

func (w *workers) start(n int) {
	w.cond.L = &w.mu
	for range n {
		w.done.Go(w.run)
	}
}

func (w *workers) submit(job func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, job)
	w.cond.Signal()
}

// submitFirst is for jobs that a whole loop waits for.
func (w *workers) submitFirst(job func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = slices.Insert(w.jobs, 0, job)
	w.cond.Signal()
}

func (w *workers) run() {
	for {
		job := w.next()
		if job == nil {
			return
		}
		job()
	}
}

// next waits for a job and returns nil once the workers are closed.
func (w *workers) next() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.jobs) == 0 && !w.closed {
		w.cond.Wait()
	}
	if w.closed {
		return nil
	}
	job := w.jobs[0]
	w.jobs[0] = nil
	w.jobs = w.jobs[1:]
	return job
}

func (w *workers) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs)
}

// take removes the job at place i from the queue.
func (w *workers) take(i int) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	job := w.jobs[i]
	w.jobs = slices.Delete(w.jobs, i, i+1)
	return job
}

// close drops jobs that have not begun and waits for the rest.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.cond.Broadcast()
	w.mu.Unlock()
	w.done.Wait()
}
