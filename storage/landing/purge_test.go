package landing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/storage"
	"confcenter/storage/field"
)

// Of many owners, some with more fields than are looked at in a turn, exactly the rows go that
// were removed long ago.
func TestOldRemovedRowsArePurged(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		var rows []storage.DirtyRow
		want := map[string]bool{}
		for i := range 20 {
			o := storage.Owner{App: "1", Region: "1", Logic: "user", ID: fmt.Sprint(i)}
			for k := range 1 + i%3*10 {
				r := row(o, fmt.Sprint("f", k), "v", int64(k+1))
				if r.Removed = k%2 == 0; r.Removed {
					r.RemovedAt = int64(1000 + 100*(k%3))
				}
				if rows = append(rows, r); !r.Removed || r.RemovedAt > 1100 || r.Version >= 16 {
					want[r.Key()] = true
				}
			}
		}
		write(t, d, rows...)
		gone, turns := 0, 0
		for p := (storage.Purge{App: "1", Region: "1", Removed: 1100, Below: 16, Limit: 7}); ; turns++ {
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

		done, err := d.Purge(ctx, storage.Purge{App: "no", Region: "table", Limit: 7})
		require.NoError(t, err)
		require.Equal(t, storage.Purged{}, done)
	})
}

// A lander was stopped with a statement that it had begun, and the row is purged: the value
// does not come back when it goes on. The database alone can know that the time is over, so it
// is told a clock that was right hours ago.
func TestAStatementThatComesTooLateWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "a", "1", 1))
		exec(t, d, "DELETE FROM "+d.dialect.quote("1_1"))
		limited, cancel := context.WithTimeout(ctx, field.MaxBatchTime)
		defer cancel()
		_, err := d.until(limited)
		require.NoError(t, err)
		right := d.moment
		require.InDelta(t, time.Now().UnixMicro(), right.there, 60e6)
		stopped := right
		stopped.there -= (field.MaxBatchTime + time.Second).Microseconds()
		d.setMoment(stopped)
		w, err := d.Write(limited, []storage.DirtyRow{row(player, "b", "late", 2), row(player, "a", "late", 2)})
		require.ErrorIs(t, err, codes.Unreachable)
		require.ErrorContains(t, err, "after its time")
		require.Empty(t, w.Failed)
		require.Empty(t, all(t, d, player))

		// Taken again, it is in time.
		w, err = d.Write(limited, []storage.DirtyRow{row(player, "a", "2", 2)})
		require.NoError(t, err)
		require.Equal(t, 1, w.Rows)
		require.Equal(t, map[string]string{"a": "2 v2"}, all(t, d, player))
	})
}
