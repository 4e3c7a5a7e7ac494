package clock_test

import (
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2018, 10, 15, 9, 49, 12, 0, time.UTC)

func TestRealSteadyGoesOn(t *testing.T) {
	a := clock.Real().Steady()
	require.WithinDuration(t, clock.Real().Now(), a, time.Second)
	require.False(t, clock.Real().Steady().Before(a))
}

func TestRealClockRuns(t *testing.T) {
	c := clock.Real()
	before := c.Now()
	timer := c.NewTimer(time.Hour)
	timer.Reset(time.Millisecond)
	<-timer.C()
	timer.Stop()
	ticker := c.NewTicker(time.Millisecond)
	defer ticker.Stop()
	<-ticker.C()
	<-ticker.C()
	require.GreaterOrEqual(t, c.Now().Sub(before), 2*time.Millisecond)
}

func TestNudgesCountAsOne(t *testing.T) {
	c := make(chan struct{}, 1)
	for range 3 {
		clock.Nudge(c)
	}
	<-c
	require.Empty(t, c)
}

func TestWithin(t *testing.T) {
	f := clocktest.NewFake(start)
	done, got := make(chan struct{}), make(chan bool)
	for _, inTime := range []bool{false, true} {
		go func() { got <- clock.Within(f, time.Second, done) }()
		f.BlockUntil(1)
		if inTime {
			close(done)
		} else {
			f.Advance(time.Second)
		}
		require.Equal(t, inTime, <-got)
		require.Zero(t, f.Waiters(), "the timer is stopped")
	}
}
