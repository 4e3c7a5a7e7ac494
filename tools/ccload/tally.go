package main

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxLatency is the largest latency told apart, in nanoseconds.
const maxLatency = int64(2 * time.Minute)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 3) }

// record notes n latencies of ns nanoseconds; what is longer than maxLatency
// counts as that.
func record(h *hdrhistogram.Histogram, ns int64, n int) {
	_ = h.RecordValues(min(max(ns, 0), maxLatency), int64(n))
}

// tally is what a load has counted. Times are of the loop's clock.
type tally struct {
	start, end   int64
	done, failed int64
	firstFailure error
	latency      *hdrhistogram.Histogram
}

func newTally() *tally { return &tally{latency: newHistogram()} }

// reset forgets everything and starts the count at now.
func (t *tally) reset(now int64) {
	t.latency.Reset()
	*t = tally{start: now, latency: t.latency}
}

// judge notes a reply that is not code 0.
func (t *tally) judge(src source, body []byte) {
	if !replyOK(body) {
		if t.failed == 0 {
			t.firstFailure = replyError(src.expect(), body)
		}
		t.failed++
	}
}

// settle counts the replies c has had since the last time.
func (t *tally) settle(c *conn, now int64) {
	for c.answered > 0 {
		at, n := c.sent.take(c.answered)
		if n == 0 {
			break
		}
		c.answered -= n
		t.done += int64(n)
		record(t.latency, now-at, n)
	}
}

func (t *tally) elapsed() time.Duration { return time.Duration(t.end - t.start) }

// perSecond is the rate of replies; 0 of no time.
func (t *tally) perSecond() float64 {
	if t.end <= t.start {
		return 0
	}
	return float64(t.done) / t.elapsed().Seconds()
}

// err is the first reply that was not code 0, if any.
func (t *tally) err() error { return t.firstFailure }

// merge adds what another loop counted in the same time.
func (t *tally) merge(o *tally) {
	t.done += o.done
	t.failed += o.failed
	t.latency.Merge(o.latency)
	if t.firstFailure == nil {
		t.firstFailure = o.firstFailure
	}
	// Loops have clocks of their own; only lengths can be compared.
	if o.elapsed() > t.elapsed() {
		t.end = t.start + int64(o.elapsed())
	}
}

// quantile is the q-th part of samples, 0.5 the median, by the nearest rank; 0 of
// none. It does not change samples.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	i := int(q*float64(len(sorted)-1) + 0.5)
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func median(samples []float64) float64 { return quantile(samples, 0.5) }

// ratios divides pairwise; a pair with a zero below is left out.
func ratios(above, below []float64) []float64 {
	var r []float64
	for i := range min(len(above), len(below)) {
		if below[i] != 0 {
			r = append(r, above[i]/below[i])
		}
	}
	return r
}
