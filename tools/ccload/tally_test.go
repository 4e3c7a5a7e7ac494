package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	tl.stop = tl.start
	require.Zero(t, tl.perSecond())
	tl.done, tl.stop = 500, tl.start+int64(2*time.Second)
	require.Equal(t, 250.0, tl.perSecond())
}

func TestTallySettlesInTheOrderOfSending(t *testing.T) {
	tl := newTally()
	c := &conn{sent: []batch{{100, 2}, {200, 2}}}
	tl.settle(c, 3, 1100)
	require.EqualValues(t, 3, tl.done)
	require.EqualValues(t, 900, tl.latency.Min())
	require.EqualValues(t, 1000, tl.latency.Max())
	require.Equal(t, []batch{{200, 1}}, c.sent)
}

func TestTallyBoundsWhatItIsGiven(t *testing.T) {
	tl := newTally()
	tl.settle(&conn{sent: []batch{{1 << 60, 1}, {-2 * maxLatency, 1}}}, 2, 0)
	require.EqualValues(t, 2, tl.latency.TotalCount(), "nothing is lost")
}
