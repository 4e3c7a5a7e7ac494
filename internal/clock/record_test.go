package clock_test

import (
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However the time of day is set, a Record knows of what was written down when it was, or the last time
// that had the same time of day.
func TestRecordKnowsWhenSomethingWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := clocktest.NewFake(start)
		r := clock.NewRecord(f)
		type note struct{ said, at int64 }
		var notes []note
		for range rapid.IntRange(1, 12).Draw(t, "notes") {
			f.Advance(time.Duration(rapid.IntRange(1, 5000).Draw(t, "wait")) * time.Millisecond)
			if rapid.Bool().Draw(t, "set") {
				r.When(0) // as often as it is asked
				f.Step(time.Duration(rapid.IntRange(-20000, 20000).Draw(t, "step")) * time.Millisecond)
				r.When(0)
			}
			notes = append(notes, note{f.Now().UnixMilli(), f.Steady().UnixMilli()})
		}
		now := f.Steady().UnixMilli()
		for _, n := range notes {
			at := r.When(n.said)
			require.GreaterOrEqual(t, at, n.at-clock.Set, "it is not taken for older than it is")
			require.LessOrEqual(t, at, now+clock.Set, "nor for something that is yet to be")
			d := time.Duration(now-n.at+clock.Set) * time.Millisecond
			require.LessOrEqual(t, r.Earliest(d), n.said+clock.Set, "what is older is found by its time")
		}
	})
}

func TestRecordOfWhatWasBefore(t *testing.T) {
	f := clocktest.NewFake(start)
	r := clock.NewRecord(f)
	hour := time.Hour.Milliseconds()
	require.Equal(t, start.UnixMilli()-hour, r.When(start.UnixMilli()-hour))
	require.Equal(t, start.UnixMilli()+hour, r.When(start.UnixMilli()+hour), "a clock was ahead")
	require.Equal(t, start.UnixMilli()-hour, r.Earliest(time.Hour))
	f.Advance(time.Minute)
	f.Step(48 * time.Hour)
	require.Equal(t, start.UnixMilli()-hour, r.When(start.UnixMilli()-hour))
	f.Advance(time.Minute)
	require.Equal(t, f.Steady().UnixMilli()-hour, r.Earliest(time.Hour))
	written := f.Now().UnixMilli()
	f.Advance(time.Minute)
	require.Equal(t, f.Steady().UnixMilli()-60_000, r.When(written))
	f.Step(-96 * time.Hour)
	require.Equal(t, f.Steady().UnixMilli()-60_000, r.When(written))
	f.Advance(2 * time.Hour)
	require.Equal(t, f.Now().UnixMilli()-hour, r.Earliest(time.Hour))
	for range 3 * clock.MostEras {
		f.Step(time.Hour)
		r.When(0)
	}
	require.Equal(t, clock.MostEras, r.Eras())
}
