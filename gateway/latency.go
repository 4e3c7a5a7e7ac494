package gateway

import (
	"sync/atomic"
	"time"
)

// latencyBounds are the upper ends of the histograms' buckets.
var latencyBounds = [...]time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// histogram counts how long something took. Any goroutine may use it.
type histogram struct {
	counts [len(latencyBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// addTo adds what was counted to l.
func (h *histogram) addTo(l *Latency) {
	if l.Buckets == nil {
		l.Buckets = make([]Bucket, len(latencyBounds))
	}
	for i := range h.counts {
		n := h.counts[i].Load()
		l.Count += n
		if i < len(latencyBounds) {
			l.Buckets[i].UpTo = latencyBounds[i]
			l.Buckets[i].Count += n
		}
	}
	l.Sum += time.Duration(h.sum.Load())
}

// quantile is about what the share q of all took at most, 0 if there was nothing.
// What is beyond the last bucket counts as its end.
func (l *Latency) quantile(q float64) time.Duration {
	if l.Count == 0 {
		return 0
	}
	rank := q * float64(l.Count)
	var below time.Duration
	for _, b := range l.Buckets {
		if n := float64(b.Count); n > 0 && rank <= n {
			return below + time.Duration(float64(b.UpTo-below)*rank/n)
		}
		rank -= float64(b.Count)
		below = b.UpTo
	}
	return below
}

func (l *Latency) mean() time.Duration {
	if l.Count == 0 {
		return 0
	}
	return l.Sum / time.Duration(l.Count)
}
