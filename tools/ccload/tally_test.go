package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	samples := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		require.Equal(t, want, quantile(samples, q))
	}
	require.Equal(t, []float64{5, 1, 4, 2, 3}, samples, "the samples keep their order")
	require.Zero(t, median(nil))
	require.Equal(t, 7.0, median([]float64{7}))
}

func TestRatiosArePairwise(t *testing.T) {
	require.Equal(t, []float64{0.5, 2}, ratios([]float64{1, 4}, []float64{2, 2}))
	require.Equal(t, []float64{2}, ratios([]float64{1, 4}, []float64{0, 2}), "a pair without a measurement does not count")
	require.Equal(t, []float64{3}, ratios([]float64{3}, []float64{1, 1}))
}

func TestTallyRate(t *testing.T) {
	tl := newTally()
	tl.reset(int64(time.Second))
	require.Zero(t, tl.perSecond())
	tl.done, tl.end = 500, int64(3*time.Second)
	require.Equal(t, 250.0, tl.perSecond())
}

func TestTallyMerge(t *testing.T) {
	a, b := newTally(), newTally()
	a.reset(0)
	b.reset(int64(time.Hour))
	a.done, a.end = 100, int64(time.Second)
	b.done, b.end = 300, int64(time.Hour+2*time.Second)
	b.failed, b.err = 1, errors.New("first")
	record(a.latency, 10, 100)
	record(b.latency, 1000, 300)
	a.merge(b)
	require.Equal(t, 200.0, a.perSecond(), "400 in the longer of the two times")
	require.EqualValues(t, 1, a.failed)
	require.EqualError(t, a.err, "first")
	require.EqualValues(t, 400, a.latency.TotalCount())
	require.EqualValues(t, 10, a.latency.ValueAtQuantile(25))
}

func TestTallySettlesInTheOrderOfSending(t *testing.T) {
	tl := newTally()
	c := &conn{pipeline: pipeline{answered: 3}}
	c.sent.push(100, 2)
	c.sent.push(200, 2)
	tl.settle(c, 1100)
	require.EqualValues(t, 3, tl.done)
	require.Zero(t, c.answered)
	require.EqualValues(t, 900, tl.latency.Min())
	require.EqualValues(t, 1000, tl.latency.Max())
	at, n := c.sent.take(9)
	require.EqualValues(t, 200, at)
	require.Equal(t, 1, n)
}

func TestRecordBoundsWhatItIsGiven(t *testing.T) {
	h := newHistogram()
	record(h, -5, 1)
	record(h, maxLatency*10, 1)
	require.EqualValues(t, 2, h.TotalCount(), "nothing is lost")
}

// The timeline behaves like a queue of single times.
func TestTimelineIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var line timeline
		var model []int64
		now := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				now += int64(rapid.IntRange(0, 2).Draw(t, "passed"))
				n := rapid.IntRange(1, 5).Draw(t, "n")
				line.push(now, n)
				for range n {
					model = append(model, now)
				}
			},
			"take": func(t *rapid.T) {
				want := rapid.IntRange(1, 6).Draw(t, "want")
				for want > 0 {
					at, n := line.take(want)
					if n == 0 {
						require.Empty(t, model)
						return
					}
					for range n {
						require.Equal(t, model[0], at)
						model = model[1:]
					}
					want -= n
				}
			},
		})
	})
}

// Taken entries free their room: the timeline of a connection that never drains does not
// grow.
func TestTimelineStaysSmall(t *testing.T) {
	var line timeline
	line.push(0, 1)
	for i := range int64(100_000) {
		line.push(i+1, 1)
		at, n := line.take(1)
		require.Equal(t, i, at)
		require.Equal(t, 1, n)
	}
	require.Less(t, cap(line.runs), 1000)
}
