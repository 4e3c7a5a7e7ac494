package replica

import (
	"container/heap"
	"slices"
)

// agenda is a priority queue by time. Its items know their position, so that they can
// be moved and removed.
type agenda[T timed] struct{ heap []T }

// timed is an item of an agenda. place points at its position, which is below 0 while
// it is in none.
type timed interface {
	when() int64
	place() *int
}

// set adds an item, or moves it after its time has changed.
func (a *agenda[T]) set(one T) {
	if at := *one.place(); at >= 0 {
		heap.Fix(a, at)
	} else {
		heap.Push(a, one)
	}
}

// remove takes an item out, if it is in.
func (a *agenda[T]) remove(one T) {
	if at := *one.place(); at >= 0 {
		heap.Remove(a, at)
	}
}

// first returns the earliest item; false if there is none.
func (a *agenda[T]) first() (one T, ok bool) {
	if len(a.heap) == 0 {
		return one, false
	}
	return a.heap[0], true
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (a *agenda[T]) Len() int           { return len(a.heap) }
func (a *agenda[T]) Less(i, j int) bool { return a.heap[i].when() < a.heap[j].when() }

func (a *agenda[T]) Swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	*a.heap[i].place(), *a.heap[j].place() = i, j
}

// Push is for the heap.
func (a *agenda[T]) Push(one any) {
	*one.(T).place() = len(a.heap)
	a.heap = append(a.heap, one.(T))
}

// Pop is for the heap.
func (a *agenda[T]) Pop() any {
	last := len(a.heap) - 1
	one := a.heap[last]
	*one.place() = -1
	clear(a.heap[last:])
	a.heap = a.heap[:last]
	if few := 4096; cap(a.heap) > few && last < cap(a.heap)/4 {
		a.heap = slices.Grow(slices.Clip(a.heap), last) // elsewhere, with less room
	}
	return one
}
