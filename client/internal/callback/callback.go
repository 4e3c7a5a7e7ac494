// Package callback runs the functions of a program that uses the client. Each has a job of its
// own, so that a slow one does not delay the others, and a panic is told instead of ending the
// program. No lock is held while they run.
package callback

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
)

// Runner runs jobs until Stop.
type Runner struct {
	failed func(error) // gets panics

	mu      sync.Mutex // guards the rest
	running int        // jobs that have a goroutine
	closed  bool
	idle    chan struct{} // closed when closed is set and running is 0
}

// Job is something to run repeatedly, one run at a time. However often it is posted, it
// is due at most once and looks up the newest state when it runs. This bounds the work
// and lets a slow callback skip states.
type Job struct {
	Run  func()
	last bool // a run that is due at Stop still happens

	// guarded by Runner.mu
	running bool
	due     bool
}

// NewRunner returns a Runner that has failed called with panics. The caller must Stop it.
func NewRunner(failed func(error)) *Runner { return &Runner{failed: failed, idle: make(chan struct{})} }

// Post makes j run. After Stop it does nothing.
func (r *Runner) Post(j *Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	j.due = true
	if !j.running {
		j.running = true
		r.running++
		go r.work(j) // Stop waits for it
	}
}

// work is a job's goroutine. It ends when the job is no longer due.
func (r *Runner) work(j *Job) {
	for r.next(j) {
		j.Run()
	}
}

// Call calls a function of the program, which what names, and reports its panic.
func (r *Runner) Call(what string, fn func()) {
	if err := Guarded(fn); err != nil {
		r.failed(codes.Errorf(codes.Internal, "%s: %w", what, err))
	}
}

// next begins a run of j, or ends its goroutine.
func (r *Runner) next(j *Job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.due && (j.last || !r.closed) {
		j.due = false
		return true
	}
	j.running = false
	r.running--
	r.settleLocked()
	return false
}

func (r *Runner) settleLocked() {
	if r.closed && r.running == 0 {
		close(r.idle)
	}
}

// Stop drops all jobs that are due, except those of a Backlog of the first items, and waits up
// to limit for those that run. It returns false if one still runs. Called from a callback it
// does not wait, because that would be waiting for itself.
func (r *Runner) Stop(c clock.Clock, limit time.Duration) bool {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.settleLocked()
	}
	r.mu.Unlock()
	return withinCallback() || clock.Within(c, limit, r.idle)
}

// withinCallback reports whether the caller runs in a callback of any client.
func withinCallback() bool {
	pcs := make([]uintptr, 64)
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); frame.Function == workName {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// workName is the runtime's name for Runner.work.
var workName = runtime.FuncForPC(reflect.ValueOf((*Runner).work).Pointer()).Name()

// Guarded calls fn and returns its panic as an error.
func Guarded(fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = codes.Errorf(codes.Internal, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	fn()
	return nil
}

// Backlog passes items to a function of the program, in order. While the function is
// busy a limited number of items wait.
type Backlog[T any] struct {
	// set at open
	runner *Runner
	job    *Job
	limit  int

	mu      sync.Mutex
	waiting []T // guarded by mu
}

// NewBacklog returns a Backlog of at most limit items for tell. With first the first of more stay,
// and what waits is passed on even after Stop; without it the newest stay.
func NewBacklog[T any](r *Runner, limit int, first bool, tell func(T)) *Backlog[T] {
	b := &Backlog[T]{runner: r, limit: limit}
	b.job = &Job{last: first, Run: func() {
		b.mu.Lock()
		waiting := b.waiting
		b.waiting = nil
		b.mu.Unlock()
		for _, item := range waiting {
			tell(item)
		}
	}}
	return b
}

// Put passes on an item.
func (b *Backlog[T]) Put(item T) {
	b.mu.Lock()
	if len(b.waiting) == b.limit && !b.job.last {
		b.waiting = b.waiting[1:]
	}
	if len(b.waiting) < b.limit {
		b.waiting = append(b.waiting, item)
	}
	b.mu.Unlock()
	b.runner.Post(b.job)
}
