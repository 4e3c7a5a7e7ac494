package kvstore

import (
	"maps"
	"sync"
)

// shrinking is a map that gives room back after a peak: Go's maps only grow.
type shrinking[K comparable, V any] struct {
	of   map[K]V
	most int // it has had since it was made
}

// shrink puts a copy in the map's place if it has lost most of what it had. Only the goroutine that writes
// the map may call it, and spends 140 ns on each key that is left (BenchmarkShrink). mu guards the map's
// readers, who do not wait for the copy; it is nil if there are none, or if the caller holds it.
func (m *shrinking[K, V]) shrink(mu sync.Locker) {
	const few, part = 4096, 4 // below some thousand it does not matter
	if m.most = max(m.most, len(m.of)); m.most < few || len(m.of) > m.most/part {
		return
	}
	less := make(map[K]V, len(m.of))
	maps.Copy(less, m.of)
	if mu != nil {
		mu.Lock()
		defer mu.Unlock()
	}
	m.of, m.most = less, len(less)
}
