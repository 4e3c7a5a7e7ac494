package player

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
)

// An outage is one line of the log, however many ask meanwhile, and its end is another.
func TestWhyTheDatabaseFailsIsLoggedOnceAndToldToNobody(t *testing.T) {
	sql, log := newDatabase(), &bytes.Buffer{}
	k := startOn(t, sql, func(c *Config) { c.Log = zerolog.New(zerolog.SyncWriter(log)) })
	k.settle()
	k.update(player, map[string]string{"n": "1"})
	k.chill()
	const why = "the database is down" // as the double says
	fails := func(times int) {
		for range times {
			_, load := k.Load(t.Context(), player, []string{"n"})
			_, write := k.try(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "n", By: 1}}})
			_, _, list := k.Owners(t.Context(), "1", "1", "", "", 0)
			for _, err := range []error{load, write, list} {
				require.ErrorIs(t, err, codes.Unreachable)
				require.ErrorContains(t, err, "the landing database does not answer")
				require.NotContains(t, err.Error(), why)
			}
		}
	}
	down := func(is bool) { sql.set(func(d *database) { d.down = is }) }
	lines := func() int { return strings.Count(log.String(), "what has left memory") }
	down(true)
	fails(3)
	require.Equal(t, 1, strings.Count(log.String(), why), log)
	down(false)
	for range 3 {
		_, _, err := k.Owners(t.Context(), "1", "1", "", "", 0)
		require.NoError(t, err)
	}
	require.Equal(t, 2, lines(), log)
	down(true)
	fails(1)
	require.Equal(t, 2, lines(), "one that comes and goes is not logged all the time")
	k.clock.Advance(outagePause)
	fails(1)
	require.Equal(t, 3, lines(), log)
}

// A query that no one waits for any more has not found out anything.
func TestAQueryThatIsGivenUpIsNoOutage(t *testing.T) {
	k := startCold(t, newDatabase())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, k.cold.asked(ctx, ctx.Err()), codes.Unreachable)
	require.False(t, k.cold.outage.down)
}
