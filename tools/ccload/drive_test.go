package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

func TestPacerKeepsItsTimes(t *testing.T) {
	p := newPacer(1000, 1e6) // each microsecond
	at, due := p.take(999)
	require.False(t, due)
	require.Zero(t, at)
	at, due = p.take(1000)
	require.True(t, due)
	require.EqualValues(t, 1000, at)
	require.EqualValues(t, 2000, p.next())
	// Asked late, it gives the times at which it should have been asked.
	for _, want := range []int64{2000, 3000, 4000} {
		at, due = p.take(4999)
		require.True(t, due)
		require.Equal(t, want, at)
	}
	_, due = p.take(4999)
	require.False(t, due)
}

// However often it is asked, the number given out by a time matches the rate.
func TestPacerGivesTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1, 1e6).Draw(t, "rate")
		p := newPacer(0, rate)
		now, taken := int64(0), 0
		for range rapid.IntRange(1, 50).Draw(t, "asks") {
			now += rapid.Int64Range(0, int64(time.Second)/100).Draw(t, "passed")
			for {
				at, due := p.take(now)
				if !due {
					break
				}
				require.LessOrEqual(t, at, now)
				taken++
			}
		}
		want := float64(now)*rate/1e9 + 1
		require.InDelta(t, want, taken, 1.01)
	})
}

func TestOpenLoopKeepsTheRate(t *testing.T) {
	l := testLoop(t)
	conns, err := l.identify(ceilingAddr(t), 3, false)
	require.NoError(t, err)
	tl, err := newLoad(l, conns, readTape(newRandom(0), fileNames(5), "")).open(5000, 200*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, tl.err)
	require.Positive(t, tl.done)
	require.LessOrEqual(t, float64(tl.done), 5000*tl.elapsed().Seconds()+1, "never faster than the rate")
	require.EqualValues(t, tl.done, tl.latency.TotalCount())
}

// A server that stops for a while delays the requests that were due in that time, though
// none of them was sent slowly.
func TestOpenLoopCountsFromTheTimeDue(t *testing.T) {
	l := testLoop(t)
	const hold = int64(50 * time.Millisecond)
	now := l.clock
	fake := serveFake(t, func(w *fakeWriter, h protocol.Header, body []byte) { w.reply(h, `{"code":0}`) })
	conns, err := l.identify(fake, 2, false)
	require.NoError(t, err)
	open := newLoad(l, conns, readTape(newRandom(0), fileNames(5), ""))
	open.begin(1000)
	// The load side itself is what stops here: its clock jumps.
	l.clock = func() int64 { return now() + hold }
	require.NoError(t, l.wait(20*time.Millisecond))
	tl, err := open.end()
	require.NoError(t, err)
	require.GreaterOrEqual(t, tl.done, int64(50), "what was due in the pause is sent after it")
	require.Greater(t, tl.latency.Max(), hold/2)
}
