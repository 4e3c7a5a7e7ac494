package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOpenLoopKeepsTheRate(t *testing.T) {
	conns := dial(t, ceilingAddr(t), 3)
	script(t, func() {
		d := newLoad(conns, benchReads(0))
		d.begin(5000)
		d.loop.wait(200 * time.Millisecond)
		tl := d.end()
		require.Positive(t, tl.done)
		require.LessOrEqual(t, float64(tl.done), 5000*seconds(tl.stop-tl.start)+1, "never faster than the rate")
		require.EqualValues(t, tl.done, tl.latency.TotalCount())
	})
}

// The times at which requests are due do not depend on when the load is asked: what was due
// while it was not is sent after that, and counts from the time at which it was due.
func TestOpenLoopCountsFromTheTimeDue(t *testing.T) {
	conns := dial(t, ceilingAddr(t), 2)
	script(t, func() {
		d := newLoad(conns, benchReads(0))
		d.begin(1000)
		d.tally.start -= int64(50 * time.Millisecond) // as if the loop had not turned since
		begun := now()
		next := d.tick(begun)
		require.Greater(t, next, begun)
		require.LessOrEqual(t, next, begun+int64(time.Millisecond))
		tl := d.end()
		require.GreaterOrEqual(t, tl.done, int64(50), "what was due in the pause is sent after it")
		require.Greater(t, tl.latency.Max(), int64(25*time.Millisecond))
	})
}

// However often it is asked, the number sent by a time matches the rate.
func TestOpenLoopSendsWhatIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1, 1e6).Draw(t, "rate")
		d := &load{tally: newTally(), interval: float64(time.Second) / rate}
		at := int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "asks") {
			at += rapid.Int64Range(0, int64(time.Second)/100).Draw(t, "passed")
			for d.due() <= d.tally.start+at {
				d.turn++
			}
		}
		require.InDelta(t, float64(at)*rate/1e9+1, d.turn, 1.01)
	})
}
