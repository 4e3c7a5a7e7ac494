package metric

import (
	"sync/atomic"
	"time"
)

// bounds are the upper ends of the buckets of all histograms.
var bounds = [...]time.Duration{
	5 * time.Microsecond, 10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Histogram counts how long something took. Its zero value is ready, and any
// goroutine may use it.
type Histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

// Add notes n times d.
func (h *Histogram) Add(d time.Duration, n uint64) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(n)
	h.sum.Add(int64(d) * int64(n))
}

// Times are what histograms counted up to one moment.
type Times struct {
	Count   uint64
	Sum     time.Duration
	Buckets []Bucket // ordered; what is in none of them took longer than the last
}

// Bucket counts what took at most UpTo and longer than the bucket before it.
type Bucket struct {
	UpTo  time.Duration
	Count uint64
}

// Add adds what h has counted.
func (t *Times) Add(h *Histogram) {
	if t.Buckets == nil {
		t.Buckets = make([]Bucket, len(bounds))
	}
	for i := range h.counts {
		n := h.counts[i].Load()
		t.Count += n
		if i < len(bounds) {
			t.Buckets[i].UpTo = bounds[i]
			t.Buckets[i].Count += n
		}
	}
	t.Sum += time.Duration(h.sum.Load())
}

// Quantile is about what the share q of all took at most, 0 if there was nothing.
// What is beyond the last bucket counts as its end.
func (t *Times) Quantile(q float64) time.Duration {
	if t.Count == 0 {
		return 0
	}
	rank := q * float64(t.Count)
	var below time.Duration
	for _, b := range t.Buckets {
		if n := float64(b.Count); n > 0 && rank <= n {
			return below + time.Duration(float64(b.UpTo-below)*rank/n)
		}
		rank -= float64(b.Count)
		below = b.UpTo
	}
	return below
}

// Mean is 0 if there was nothing.
func (t *Times) Mean() time.Duration {
	if t.Count == 0 {
		return 0
	}
	return t.Sum / time.Duration(t.Count)
}

// Slow is one request that took longer than a threshold.
type Slow struct {
	When     time.Time // when it was answered
	Name     string    // of the command or the route
	Duration time.Duration
}
