package player

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
)

// Those who ask a database that hangs must not wait for one time-out after another: neither for
// a turn to load an owner, nor in the line of an owner.
func TestADatabaseThatHangsIsWaitedForOnce(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.settle()
	const owners, each = 3 * maxLoaders, 20
	owner := func(i int) field.Owner { return field.Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(i)} }
	for i := range owners {
		k.update(owner(i), map[string]string{"n": "1", "warm": "1"})
	}
	k.chill()
	hold := make(chan struct{})
	sql.set(func(d *database) { d.hold, d.down, d.reads = hold, true, 0 })
	answers := make(chan error, owners*each)
	for i := range owners {
		for range each {
			k.Do(&field.Write{Owner: owner(i), Kind: field.Incr, Deltas: []field.Delta{{Name: "n", By: 1}}}, func(_ *field.Outcome, err error) { answers <- err })
		}
	}
	require.Eventually(t, func() bool { return sql.queries() == maxLoaders }, patience, time.Millisecond)
	k.clock.Advance(hangs)
	close(hold)
	for range owners * each {
		require.ErrorIs(t, <-answers, codes.Unreachable)
	}
	require.Equal(t, maxLoaders, sql.queries(), "nobody else has asked")

	_, err := k.Load(t.Context(), owner(0), []string{"n"})
	require.ErrorIs(t, err, codes.Unreachable)
	require.Equal(t, maxLoaders, sql.queries())
	k.update(owner(1), map[string]string{"n": "5"})
	require.Equal(t, "6", k.incr(owner(1), "n", 1), "what is in memory goes on")

	k.clock.Advance(probePause)
	_, err = k.Load(t.Context(), owner(0), []string{"n"})
	require.ErrorIs(t, err, codes.Unreachable)
	require.Equal(t, maxLoaders+1, sql.queries(), "one has tried")
	sql.set(func(d *database) { d.down = false })
	k.clock.Advance(probePause)
	for i := range owners {
		if i != 1 {
			require.Equal(t, "2", k.incr(owner(i), "n", 1))
		}
	}
}
