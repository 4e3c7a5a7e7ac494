package serving

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// How much garbage is let grow before it is collected. The store keeps everything in
// memory: with Go's 100 percent a process with a large one would take twice what it
// holds. One with a small one would collect many times a second while it is written
// to, so it may in any case let some grow, but no more than a quarter of the budget: the
// pools hold six tenths of it, and at nine Go collects all the time.
const (
	heapGrowth  = 45 // percent of what is in use
	heapGarbage = 128 << 20
)

// growthOf is the percentage for a heap of which live bytes are in use, and which may in
// any case let so much garbage grow.
func growthOf(live, garbage uint64) int {
	const least = 4 << 20 // Go's own for small heaps
	return max(heapGrowth, int(garbage*100/max(live, least)))
}

// heapPace sets anew after each collection how much garbage is let grow until the
// next, unless GOGC says it. GOMEMLIMIT goes before both.
type heapPace struct {
	live    func() uint64     // at open; liveHeap
	set     func(percent int) // at open; debug.SetGCPercent
	garbage uint64            // at open: what growthOf takes
	percent int               // set last
	ended   atomic.Bool
}

// paceHeap begins for a process with so large a budget; end ends it.
func paceHeap(budget int64) *heapPace {
	p := &heapPace{live: liveHeap, set: func(percent int) { debug.SetGCPercent(percent) }, garbage: uint64(min(heapGarbage, budget/4))}
	if os.Getenv("GOGC") == "" {
		p.again()
	}
	return p
}

func (p *heapPace) end() { p.ended.Store(true) }

// again is called once nothing refers to what the last call has made, which is after
// the next collection.
func (p *heapPace) again() {
	if p.ended.Load() {
		return
	}
	// Setting stops everything for a moment: small steps are not worth it.
	if now := growthOf(p.live(), p.garbage); now < p.percent*7/8 || now > p.percent*9/8 {
		p.percent = now
		p.set(now)
	}
	runtime.AddCleanup(&struct{ _ *heapPace }{}, (*heapPace).again, p)
}

// liveHeap is what the last collection has found in use, in bytes.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
