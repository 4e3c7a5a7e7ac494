package landingtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing"
)

var purgeChecks = []check{
	{"OldRemovedRowsArePurged", oldRemovedRowsArePurged},
	{"AStatementThatComesTooLateWritesNothing", aStatementThatComesTooLateWritesNothing},
}

// Of many owners, some with more fields than are looked at in a turn, exactly the rows go that
// were removed long ago.
func oldRemovedRowsArePurged(t *testing.T, d *Database) {
	var rows []field.DirtyRow
	want := map[string]bool{}
	for i := range 20 {
		o := field.Owner{App: "1", Region: "1", Logic: "user", ID: fmt.Sprint(i)}
		for k := range 1 + i%3*10 {
			r := Row(o, fmt.Sprint("f", k), "v", int64(k+1))
			if r.Removed = k%2 == 0; r.Removed {
				r.RemovedAt = int64(1000 + 100*(k%3))
			}
			if rows = append(rows, r); !r.Removed || r.RemovedAt > 1100 || r.Version >= 16 {
				want[r.Key()] = true
			}
		}
	}
	Write(t, d, rows...)
	gone, turns := 0, 0
	for p := (player.Purge{App: "1", Region: "1", Removed: 1100, Below: 16, Limit: 7}); ; turns++ {
		done, err := d.Purge(ctx, p)
		require.NoError(t, err)
		require.LessOrEqual(t, done.Rows, p.Limit)
		gone += done.Rows
		if p.After = done.Next; !done.More {
			break
		}
	}
	require.Greater(t, turns, 10)
	require.Equal(t, len(rows)-len(want), gone)
	left := map[string]bool{}
	for i := range rows {
		found, err := d.Fields(ctx, rows[i].Owner, []string{rows[i].Name})
		require.NoError(t, err)
		if len(found) > 0 {
			left[rows[i].Key()] = true
		}
	}
	require.Equal(t, want, left)

	done, err := d.Purge(ctx, player.Purge{App: "no", Region: "table", Limit: 7})
	require.NoError(t, err)
	require.Equal(t, player.Purged{}, done)
}

// A lander was stopped with a statement that it had begun, and the row is purged: the value
// does not come back when it goes on. The database alone can know that the time is over, so it
// is told a clock that was right hours ago.
func aStatementThatComesTooLateWritesNothing(t *testing.T, d *Database) {
	other := Player
	other.ID = "other" // who has the table not be empty
	Write(t, d, Row(Player, "a", "1", 1), Row(other, "a", "1", 1))
	Exec(t, d, "DELETE FROM "+d.Dialect.Quote("1_1")+" WHERE primary_key = ?", field.Ref{Owner: Player, Name: "a"}.Key())
	limited, cancel := context.WithTimeout(ctx, field.MaxBatchTime)
	defer cancel()
	var there int64
	require.NoError(t, d.DB.QueryRow("SELECT "+d.Dialect.Now()).Scan(&there))
	require.InDelta(t, time.Now().UnixMicro(), there, 60e6)
	stopped := &slow{Dialect: d.Dialect, by: field.MaxBatchTime + time.Second}
	d = d.With(func(p *landing.Parts) { p.Dialect = stopped })
	w, err := d.Write(limited, []field.DirtyRow{Row(Player, "b", "late", 2), Row(Player, "a", "late", 2)})
	require.ErrorIs(t, err, codes.Unreachable)
	require.ErrorContains(t, err, "after its time")
	require.Empty(t, w.Failed)
	require.Empty(t, All(t, d, Player))

	// Taken again, it is in time.
	stopped.by = 0
	w, err = d.Write(limited, []field.DirtyRow{Row(Player, "a", "2", 2)})
	require.NoError(t, err)
	require.Equal(t, 1, w.Rows)
	require.Equal(t, map[string]string{"a": "2 v2"}, All(t, d, Player))
}

// slow is a dialect that tells a time of the database's which is over, but still has its
// statements compare with the right one.
type slow struct {
	landing.Dialect
	by time.Duration
}

func (s *slow) Now() string { return fmt.Sprint(s.Dialect.Now(), " - ", s.by.Microseconds()) }
