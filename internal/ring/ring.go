// Package ring keeps the last of many: log lines, slow requests, samples.
package ring

import "sync"

// Ring keeps what was added last. Any goroutine may use it.
type Ring[T any] struct {
	Size int // set at open: how many are kept

	mu sync.Mutex
	// guarded by mu
	items []T
	next  int // place of the oldest once it is full
}

// Add adds item; the oldest is forgotten once there are Size.
func (r *Ring[T]) Add(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.items) < r.Size {
		r.items = append(r.items, item)
		return
	}
	r.items[r.next] = item
	r.next = (r.next + 1) % r.Size
}

// Newest returns up to n items, the newest first.
func (r *Ring[T]) Newest(n int) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(max(n, 0), len(r.items))
	items := make([]T, 0, n)
	for i := range n {
		items = append(items, r.items[(r.next+len(r.items)-1-i)%len(r.items)])
	}
	return items
}
