// Package parallel does many like things on several goroutines.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Each calls fn for all numbers below n, on as many goroutines as there are workers if there are enough
// numbers, and waits. It panics if fn has.
func Each(n, workers int, fn func(i int)) {
	workers = min(workers, n)
	if workers < 2 {
		for i := range n {
			fn(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	var panicked atomic.Pointer[string]
	for range workers {
		group.Go(func() {
			defer func() {
				if what := recover(); what != nil {
					text := fmt.Sprintf("%v\n%s", what, debug.Stack())
					panicked.Store(&text)
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	group.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text)
	}
}
