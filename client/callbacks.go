package client

import (
	"bytes"
	"runtime"
	"sync"
)

// callbacks runs everything that belongs to the program (functions given to
// Watch and OnChange, Config.OnError) on one goroutine, one at a time, in the
// order in which it became due. No lock is held meanwhile.
type callbacks struct {
	wake     chan struct{} // capacity 1
	finished chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex // guards the rest
	queue  []*job
	closed bool
	id     string // of the goroutine while a job runs
}

// job is something to run again and again. It stands in the queue once at most
// and looks for the newest state when it is its turn: that is what bounds the
// queue and makes a slow callback skip states.
type job struct {
	run func()

	queued bool // guarded by callbacks.mu
}

// newCallbacks starts the goroutine. The caller ends it with stop.
func newCallbacks() *callbacks {
	cb := &callbacks{wake: make(chan struct{}, 1), finished: make(chan struct{})}
	go cb.loop()
	return cb
}

// post has j run. After stop it does nothing.
func (cb *callbacks) post(j *job) {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	if j.queued || cb.closed {
		return
	}
	j.queued = true
	cb.queue = append(cb.queue, j)
	cb.nudge()
}

func (cb *callbacks) nudge() {
	select {
	case cb.wake <- struct{}{}:
	default:
	}
}

func (cb *callbacks) loop() {
	defer close(cb.finished)
	id := goroutineID()
	for range cb.wake {
		for j := cb.next(id); j != nil; j = cb.next(id) {
			j.run()
		}
		if cb.ended() {
			return
		}
	}
}

// next takes the first job off the queue.
func (cb *callbacks) next(id string) *job {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	cb.id = ""
	if len(cb.queue) == 0 || cb.closed {
		return nil
	}
	j := cb.queue[0]
	cb.queue = cb.queue[1:]
	j.queued = false
	cb.id = id
	return j
}

func (cb *callbacks) ended() bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	return cb.closed
}

// stop drops what is queued and waits for the job that runs, unless that is the
// caller itself.
func (cb *callbacks) stop() {
	cb.mu.Lock()
	cb.closed, cb.queue = true, nil
	cb.nudge()
	own := cb.id != "" && cb.id == goroutineID()
	cb.mu.Unlock()
	if !own {
		<-cb.finished
	}
}

// goroutineID names the calling goroutine. A callback that calls Close would
// otherwise wait for itself, and a function without a context can be recognised
// by nothing else.
func goroutineID() string {
	var buf [64]byte
	head, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine ")), []byte(" "))
	return string(head)
}

// maxErrors is how many errors wait for OnError; while it is busy, later ones are
// dropped, since the first ones say most about what happened.
const maxErrors = 16

// errorBox brings errors to Config.OnError.
type errorBox struct {
	callbacks *callbacks
	tell      func(error)
	job       *job

	mu      sync.Mutex
	waiting []error // guarded by mu
}

func newErrorBox(cb *callbacks, tell func(error)) *errorBox {
	b := &errorBox{callbacks: cb, tell: tell}
	b.job = &job{run: b.run}
	return b
}

func (b *errorBox) put(err error) {
	b.mu.Lock()
	if len(b.waiting) < maxErrors {
		b.waiting = append(b.waiting, err)
	}
	b.mu.Unlock()
	b.callbacks.post(b.job)
}

func (b *errorBox) run() {
	b.mu.Lock()
	waiting := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	for _, err := range waiting {
		b.tell(err)
	}
}
