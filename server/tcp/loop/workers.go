package loop

import (
	"runtime"
	"slices"
	"sync"
)

// workers run jobs that would take a loop too long, or that wait for others. The queue needs
// no limit: every session has at most one job, or Limits.Besides, and every loop one more.
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

// crews are all workers: those who wait for one thing are not held up by another.
type crews struct {
	workers workers // for jobs that take long
	waiters workers // for jobs that wait for a network
	writers workers // for jobs that wait for this server's disk
}

// maxWaits is how many jobs may wait for a network at a time, and how many for the disk: those
// of many sessions often wait for the same.
const maxWaits = 64

func (c *crews) all() [3]*workers { return [...]*workers{&c.workers, &c.waiters, &c.writers} }

func (c *crews) start() {
	c.workers.start(runtime.GOMAXPROCS(0))
	c.waiters.start(maxWaits)
	c.writers.start(maxWaits)
}

func (c *crews) close() {
	for _, w := range c.all() {
		w.close()
	}
}

// Jobs is the number of jobs that wait for a worker of any kind.
func (c *crews) Jobs() (n int) {
	for _, w := range c.all() {
		n += w.waiting()
	}
	return n
}

// DoJob runs the job at place i on the caller's goroutine, for tests without workers.
func (c *crews) DoJob(i int) {
	for _, w := range c.all() {
		if n := w.waiting(); i >= n {
			i -= n
			continue
		}
		w.take(i)()
		return
	}
}
