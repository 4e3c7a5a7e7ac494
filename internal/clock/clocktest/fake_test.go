package clocktest_test

import (
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2018, 10, 15, 9, 49, 12, 0, time.UTC)

// fired receives from c, or returns the zero time.
func fired(c <-chan time.Time) time.Time {
	select {
	case t := <-c:
		return t
	default:
		return time.Time{}
	}
}

func TestFakeStandsStillUntilAdvanced(t *testing.T) {
	f := clocktest.NewFake(start)
	require.Equal(t, start, f.Now())
	f.Advance(3 * time.Second)
	require.Equal(t, start.Add(3*time.Second), f.Now())
	require.Panics(t, func() { f.Advance(-1) })
}

// Setting the time of day moves no timer, and nothing that is measured by Steady.
func TestFakeStep(t *testing.T) {
	f := clocktest.NewFake(start)
	require.Equal(t, start, f.Steady())
	timer := f.NewTimer(time.Minute)
	for _, d := range []time.Duration{time.Hour, -2 * time.Hour} {
		f.Step(d)
		require.Equal(t, start, f.Steady())
		require.Zero(t, fired(timer.C()))
	}
	require.Equal(t, start.Add(-time.Hour), f.Now())
	f.Advance(time.Minute)
	require.Equal(t, start.Add(time.Minute-time.Hour), fired(timer.C()))
	require.Equal(t, start.Add(time.Minute), f.Steady())
}

func TestFakeTimerFiresOnceAtItsTime(t *testing.T) {
	f := clocktest.NewFake(start)
	timer := f.NewTimer(time.Minute)
	f.Advance(time.Minute - 1)
	require.Zero(t, fired(timer.C()))
	require.Equal(t, 1, f.Waiters())
	f.Advance(time.Hour)
	require.Equal(t, start.Add(time.Minute), fired(timer.C()))
	require.Zero(t, f.Waiters())
	f.Advance(time.Hour)
	require.Zero(t, fired(timer.C()))
}

func TestFakeTimerWithoutDelayHasFired(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		f := clocktest.NewFake(start)
		require.Equal(t, start, fired(f.NewTimer(d).C()))
		require.Zero(t, f.Waiters())
	}
}

func TestFakeTimerStop(t *testing.T) {
	f := clocktest.NewFake(start)
	timer := f.NewTimer(time.Second)
	timer.Stop()
	timer.Stop()
	require.Zero(t, f.Waiters())
	f.Advance(time.Minute)
	require.Zero(t, fired(timer.C()))

	unread := f.NewTimer(time.Second)
	f.Advance(time.Minute)
	unread.Stop()
	require.Zero(t, fired(unread.C()), "Stop leaves no stale value")
}

func TestFakeTimerReset(t *testing.T) {
	f := clocktest.NewFake(start)
	timer := f.NewTimer(time.Second)
	f.Advance(time.Second)
	timer.Reset(5 * time.Second)
	require.Zero(t, fired(timer.C()), "Reset leaves no stale value")
	f.Advance(4 * time.Second)
	timer.Reset(2 * time.Second)
	f.Advance(time.Second)
	require.Zero(t, fired(timer.C()))
	f.Advance(time.Second)
	require.Equal(t, start.Add(7*time.Second), fired(timer.C()))
	timer.Reset(0)
	require.Equal(t, start.Add(7*time.Second), fired(timer.C()))
}

func TestFakeTickerKeepsOneUnreadTick(t *testing.T) {
	f := clocktest.NewFake(start)
	ticker := f.NewTicker(time.Second)
	f.Advance(10 * time.Second)
	require.Equal(t, start.Add(time.Second), fired(ticker.C()))
	require.Zero(t, fired(ticker.C()))
	f.Advance(time.Second)
	require.Equal(t, start.Add(11*time.Second), fired(ticker.C()))
	ticker.Stop()
	require.Zero(t, f.Waiters())
	f.Advance(time.Minute)
	require.Zero(t, fired(ticker.C()))
	require.Panics(t, func() { f.NewTicker(0) })
}

func TestBlockUntilWaitsForTheOthers(t *testing.T) {
	f := clocktest.NewFake(start)
	got := make(chan time.Time)
	for range 3 {
		go func() {
			timer := f.NewTimer(time.Second)
			got <- <-timer.C()
		}()
	}
	f.BlockUntil(3)
	f.Advance(time.Second)
	for range 3 {
		require.Equal(t, start.Add(time.Second), <-got)
	}
}

// Whatever timers exist and however time advances, exactly those that are due have
// fired, each with its own time.
func TestAdvanceInAnySteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := clocktest.NewFake(start)
		delays := rapid.SliceOfN(rapid.IntRange(1, 100), 0, 20).Draw(t, "delays")
		timers := make([]clock.Timer, len(delays))
		for i, d := range delays {
			timers[i] = f.NewTimer(time.Duration(d))
		}
		passed := 0
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 10).Draw(t, "steps") {
			f.Advance(time.Duration(step))
			passed += step
		}
		pending := 0
		for i, d := range delays {
			at := fired(timers[i].C())
			if d <= passed {
				require.Equal(t, start.Add(time.Duration(d)), at)
				continue
			}
			require.Zero(t, at)
			pending++
		}
		require.Equal(t, pending, f.Waiters())
	})
}
