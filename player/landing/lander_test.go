//go:build !race || soak

package landing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
	"confcenter/player/landing/landingtest"
)

func TestASourceThatIsAwayIsToldOnce(t *testing.T) {
	d := landingtest.SQLite.Open(t)
	s := landingtest.NewSource()
	s.Fail(codes.Errorf(codes.Unreachable, "no server answers"))
	s.Put(someone, "a", "1")
	l := landingtest.Start(t, s, d, "a")
	l.Pass(t, "it has tried", func() bool { return l.Readings().Get("landing_failures_total") >= 5 })
	s.Fail(nil)
	l.Lands(t, s)
	require.Equal(t, 2, strings.Count(l.Log.String(), "\n"), l.Log)
}

func TestH31ATableHasOneLanderAtATime(t *testing.T) {
	d := landingtest.SQLite.Open(t)
	s := landingtest.NewSource()
	s.Change(func(set *field.Settings) { set.Tables = 4 })
	owner := someone
	s.Hold(1, "another", 7) // that died with it
	for i := range 4 {
		owner.ID = strings.Repeat("x", 4+i)
		s.Put(owner, "a", "1")
	}
	l := landingtest.Start(t, s, d, "a")
	l.Pass(t, "the others are landed", func() bool { return s.Left() == 1 })
	require.Equal(t, "another", s.Holder(1))
	for _, i := range []int{0, 2, 3} {
		require.Empty(t, s.Holder(i), "given back")
	}
	b := landingtest.Start(t, s, d, "another")
	b.Lands(t, s)
	s.Agree(t, d)
}

func TestH32AClaimThatIsLostCountsForNothing(t *testing.T) {
	d := landingtest.SQLite.Open(t)
	s := landingtest.NewSource()
	s.Put(someone, "a", "1")
	s.Steal()
	l := landingtest.Start(t, s, d, "a")
	l.Lands(t, s)
	s.Agree(t, d)
	require.EqualValues(t, 1, l.Readings().Get("landing_lost_claims_total"))
}

// A lock time may be shorter than a slow database takes for a batch.
func TestAClaimIsKeptWhileTheDatabaseTakesItsTime(t *testing.T) {
	d := landingtest.SQLite.Open(t)
	write(t, d, row(someone, "there", "1", 1))
	other, err := d.DB.Conn(ctx)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.ExecContext(ctx, "BEGIN IMMEDIATE") // the database takes no other rows for now
	require.NoError(t, err)
	s := landingtest.NewSource()
	s.Change(func(set *field.Settings) { set.LockTime = 3 * time.Second })
	s.Put(someone, "a", "1")
	l := landingtest.Start(t, s, d, "a")
	for want := 2; want <= 5; want++ {
		l.Clock.BlockUntil(1)
		l.Clock.Advance(time.Second)
		require.Eventually(t, func() bool { return s.Asked() >= want }, patience, time.Millisecond)
	}
	s.Hold(0, "another", 0) // as if this lander had been stopped
	require.Eventually(t, func() bool {
		l.Clock.Advance(time.Second)
		return l.Readings().Get("landing_lost_claims_total") == 1
	}, patience, time.Millisecond, "it does not wait for the database for nothing")
	_, err = other.ExecContext(ctx, "ROLLBACK")
	require.NoError(t, err)
	s.Hold(0, "", 0)
	require.Eventually(t, func() bool {
		l.Clock.Advance(time.Second)
		return s.Left() == 0
	}, patience, time.Millisecond)
	s.Agree(t, d)
}

func TestH37SettingsCountAtOnce(t *testing.T) {
	d := landingtest.SQLite.Open(t)
	s := landingtest.NewSource()
	s.Change(func(set *field.Settings) { set.Delay = time.Hour })
	l := landingtest.Start(t, s, d, "a")
	l.Clock.BlockUntil(1) // its first round is over
	s.Put(someone, "a", "1")
	l.Clock.Advance(time.Minute)
	l.Clock.BlockUntil(1)
	require.Equal(t, 1, s.Left(), "it is not yet time")
	s.Change(func(set *field.Settings) { set.Delay = 10 * time.Second })
	l.Clock.Advance(time.Second)
	l.Clock.BlockUntil(1)
	require.Zero(t, s.Left(), "more than ten seconds have passed since the first round")
	s.Change(func(set *field.Settings) { set.Batch, set.Tables = 2, 3 })
	for i := range 9 {
		owner := someone
		owner.ID = strings.Repeat("x", 3+i)
		s.Put(owner, "a", "1")
	}
	taken := s.Taken()
	l.Lands(t, s)
	require.Equal(t, 6, s.Taken()-taken, "three tables, in two batches each")
}
