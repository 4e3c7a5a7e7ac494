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

// callbacks runs everything that belongs to the program: functions given to Watch
// and OnChange, Config.OnError. Each has a job of its own, so that one that takes its
// time, or never returns, holds up nobody else. No lock is held meanwhile.
type callbacks struct {
	failed func(error) // told of a panic; set before the first post

	mu      sync.Mutex // guards the rest
	running int        // jobs that have a goroutine
	closed  bool
	idle    chan struct{} // closed when closed is set and running is 0
}

// job is something to run again and again, one run at a time. However often it is
// posted it is due once at most and looks for the newest state when it runs: that is
// what bounds it and makes a slow callback skip states.
type job struct {
	run func()
	// last says that what was due before stop still runs.
	last bool

	// guarded by callbacks.mu
	running bool
	due     bool
}

func newCallbacks() *callbacks { return &callbacks{idle: make(chan struct{})} }

// post has j run. After stop it does nothing.
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

// work is the goroutine of a job, as long as that is due.
func (cb *callbacks) work(j *job) {
	for cb.next(j) {
		j.run()
	}
}

// call calls a function of the program; what names it. A panic of it is told.
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

// stop drops what is due, but for errors, and waits for what runs, but no longer than that; false if
// something still runs. A callback that calls it would wait for itself, so it does
// not wait then.
func (cb *callbacks) stop(clock clock.Clock, limit time.Duration) bool {
	cb.mu.Lock()
	if !cb.closed {
		cb.closed = true
		cb.settleLocked()
	}
	cb.mu.Unlock()
	return withinCallback() || within(clock, limit, cb.idle)
}

// withinCallback says that a callback, of whatever client, is what calls.
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

// workName is what the runtime calls callbacks.work.
var workName = runtime.FuncForPC(reflect.ValueOf((*callbacks).work).Pointer()).Name()

// guarded calls fn and makes an error of its panic.
func guarded(fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	fn()
	return nil
}

// panicked is the error for a panic of the program's code, with the stack of the
// goroutine, which is still in it.
func panicked(value any) error {
	return codes.Errorf(codes.Internal, "panic: %v\n%s", value, debug.Stack())
}

// backlog brings items to a function of the program, in order and no more than limit
// of them at a time: while the function is busy, the oldest or the newest are dropped.
type backlog[T any] struct {
	// set at open
	callbacks *callbacks
	job       *job
	limit     int
	oldest    bool // are dropped

	mu      sync.Mutex
	waiting []T // guarded by mu
}

func newBacklog[T any](cb *callbacks, limit int, oldest bool, tell func(T)) *backlog[T] {
	b := &backlog[T]{callbacks: cb, limit: limit, oldest: oldest}
	b.job = &job{run: func() {
		for _, item := range b.take() {
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

func (b *backlog[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := b.waiting
	b.waiting = nil
	return waiting
}

// maxErrors is how many errors wait for OnError; while it is busy, later ones are
// dropped, since the first ones say most about what happened.
const maxErrors = 16

// tellError calls Config.OnError. Telling it of its own panics would not end.
func (c *Client) tellError(err error) {
	if p := guarded(func() { c.cfg.OnError(err) }); p != nil {
		slog.Error("confcenter: Config.OnError has panicked", "error", p)
	}
}
