package client

import (
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
)

// callbacks runs the functions of the program: those given to Watch and OnChange, and
// Config.OnError. Each has its own job, so that a slow one does not delay the others.
// No lock is held while they run.
type callbacks struct {
	failed func(error) // gets panics; set before the first post

	mu      sync.Mutex // guards the rest
	running int        // jobs that have a goroutine
	closed  bool
	idle    chan struct{} // closed when closed is set and running is 0
}

// job is something to run repeatedly, one run at a time. However often it is posted, it
// is due at most once and looks up the newest state when it runs. This bounds the work
// and lets a slow callback skip states.
type job struct {
	run func()
	// last lets a run that is due at stop still happen.
	last bool

	// guarded by callbacks.mu
	running bool
	due     bool
}

func newCallbacks() *callbacks { return &callbacks{idle: make(chan struct{})} }

// post makes j run. After stop it does nothing.
func (cb *callbacks) post(j *job) {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	if cb.closed {
		return
	}
	j.due = true
	if !j.running {
		j.running = true
		cb.running++
		go cb.work(j) // stop waits for it
	}
}

// work is a job's goroutine. It ends when the job is no longer due.
func (cb *callbacks) work(j *job) {
	for cb.next(j) {
		j.run()
	}
}

// call calls a function of the program, which what names, and reports its panic.
func (cb *callbacks) call(what string, fn func()) {
	if err := guarded(fn); err != nil {
		cb.failed(codes.Errorf(codes.Internal, "%s: %w", what, err))
	}
}

// next begins a run of j, or ends its goroutine.
func (cb *callbacks) next(j *job) bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	if j.due && (j.last || !cb.closed) {
		j.due = false
		return true
	}
	j.running = false
	cb.running--
	cb.settleLocked()
	return false
}

func (cb *callbacks) settleLocked() {
	if cb.closed && cb.running == 0 {
		close(cb.idle)
	}
}

// stop drops all jobs that are due, except those marked last, and waits up to limit for
// those that run. It returns false if one still runs. Called from a callback it does
// not wait, because that would be waiting for itself.
func (cb *callbacks) stop(c clock.Clock, limit time.Duration) bool {
	cb.mu.Lock()
	if !cb.closed {
		cb.closed = true
		cb.settleLocked()
	}
	cb.mu.Unlock()
	return withinCallback() || clock.Within(c, limit, cb.idle)
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

// workName is the runtime's name for callbacks.work.
var workName = runtime.FuncForPC(reflect.ValueOf((*callbacks).work).Pointer()).Name()

// guarded calls fn and returns its panic as an error.
func guarded(fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	fn()
	return nil
}

// panicked is the error for a panic of the program's code. It must be called while the
// goroutine's stack still shows the panic.
func panicked(value any) error {
	return codes.Errorf(codes.Internal, "panic: %v\n%s", value, debug.Stack())
}

// backlog passes items to a function of the program, in order. While the function is
// busy at most limit items wait; beyond that the oldest or the newest are dropped.
type backlog[T any] struct {
	// set at open
	callbacks *callbacks
	job       *job
	limit     int
	oldest    bool // drop the oldest, not the newest

	mu      sync.Mutex
	waiting []T // guarded by mu
}

func newBacklog[T any](cb *callbacks, limit int, oldest bool, tell func(T)) *backlog[T] {
	b := &backlog[T]{callbacks: cb, limit: limit, oldest: oldest}
	b.job = &job{run: func() {
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

func (b *backlog[T]) put(item T) {
	b.mu.Lock()
	if len(b.waiting) == b.limit && b.oldest {
		b.waiting = b.waiting[1:]
	}
	if len(b.waiting) < b.limit {
		b.waiting = append(b.waiting, item)
	}
	b.mu.Unlock()
	b.callbacks.post(b.job)
}

// maxErrors is how many errors wait for OnError. Later ones are dropped, since the first
// ones say most about what happened.
const maxErrors = 16

// tellError calls Config.OnError. Its own panic is only logged: reporting it to OnError
// could go on forever.
func (c *Client) tellError(err error) {
	if p := guarded(func() { c.cfg.OnError(err) }); p != nil {
		slog.Error("confcenter: Config.OnError has panicked", "error", p)
	}
}
