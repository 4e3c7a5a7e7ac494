package kvstore

import (
	"container/heap"
	"slices"
)

// minHeap is a priority queue by time. Its items know their position, so that they can
// be moved and removed.
type minHeap[T any] struct {
	when  func(one T) int64 // set at open
	place func(one T) *int  // set at open: points at its position, which is below 0 while it is in none
	heap  []T
}

// set adds an item, or moves it after its time has changed.
func (a *minHeap[T]) set(one T) {
	if at := *a.place(one); at >= 0 {
		heap.Fix(a, at)
	} else {
		heap.Push(a, one)
	}
}

// remove takes an item out, if it is in.
func (a *minHeap[T]) remove(one T) {
	if at := *a.place(one); at >= 0 {
		heap.Remove(a, at)
	}
}

// first returns the earliest item; false if there is none.
func (a *minHeap[T]) first() (one T, ok bool) {
	if len(a.heap) == 0 {
		return one, false
	}
	return a.heap[0], true
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (a *minHeap[T]) Len() int           { return len(a.heap) }
func (a *minHeap[T]) Less(i, j int) bool { return a.when(a.heap[i]) < a.when(a.heap[j]) }

func (a *minHeap[T]) Swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	*a.place(a.heap[i]), *a.place(a.heap[j]) = i, j
}

// Push is for the heap.
func (a *minHeap[T]) Push(one any) {
	*a.place(one.(T)) = len(a.heap)
	a.heap = append(a.heap, one.(T))
}

// Pop is for the heap.
func (a *minHeap[T]) Pop() any {
	last := len(a.heap) - 1
	one := a.heap[last]
	*a.place(one) = -1
	clear(a.heap[last:])
	a.heap = a.heap[:last]
	if few := 4096; cap(a.heap) > few && last < cap(a.heap)/4 {
		a.heap = slices.Grow(slices.Clip(a.heap), last) // elsewhere, with less room
	}
	return one
}
