package follow

import (
	"slices"
	"sync"
)

// Subscribers are callbacks. The mutex is held while they run, so that cancel waits for
// them. The zero value has none.
type Subscribers[T any] struct {
	mu   sync.Mutex
	list []*subscriber[T] // guarded by mu
}

type subscriber[T any] struct{ fn func(T) }

// Add has fn called until cancel returns.
func (s *Subscribers[T]) Add(fn func(T)) (cancel func()) {
	one := &subscriber[T]{fn}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, one)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = slices.DeleteFunc(s.list, func(other *subscriber[T]) bool { return other == one })
	}
}

// Tell calls them all, in the order in which they came.
func (s *Subscribers[T]) Tell(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.list {
		one.fn(v)
	}
}
