package follow

import "sync"

// Queue passes on what is published to one who takes it on another goroutine. What is published stays
// separate while it is little; beyond a limit the newest is joined, so that publishing never waits,
// and who takes never has much left. All methods may be called from any goroutine.
type Queue[T any] struct {
	// set at open
	Limit int64                // of the weight, except for the first
	Join  func(last, next T) T // says both at once; others share last, unless it was joined before

	mu sync.Mutex
	// guarded by mu
	waiting []queued[T]
	weight  int64
}

type queued[T any] struct {
	what   T
	weight int64
}

// Put adds what was published. It reports whether Take has one more to return; otherwise it was
// joined to the last one, which has not been taken yet.
func (q *Queue[T]) Put(what T, weight int64) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.waiting); n > 0 && q.weight+weight > q.Limit {
		q.waiting[n-1].what = q.Join(q.waiting[n-1].what, what)
		return false
	}
	q.waiting = append(q.waiting, queued[T]{what, weight})
	q.weight += weight
	return true
}

// Weight returns how much what waits weighs.
func (q *Queue[T]) Weight() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.weight
}

// Take returns the oldest; false if there is none.
func (q *Queue[T]) Take() (what T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return what, false
	}
	first := q.waiting[0]
	q.waiting[0] = queued[T]{}
	if len(q.waiting) == 1 {
		q.waiting = q.waiting[:0] // as mostly: the next one needs no memory
	} else {
		q.waiting = q.waiting[1:]
	}
	q.weight -= first.weight
	return first.what, true
}
