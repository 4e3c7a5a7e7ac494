//go:build !race || soak

package landing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/player/landing/landingtest"
)

// The one that comes second goes on where the first is; the first finds that out with its next
// page.
func TestTwoImportsOfATableAreFound(t *testing.T) {
	from, to := landingtest.SQLite.Open(t), landingtest.SQLite.Open(t)
	var rows []field.DirtyRow
	for i := range 2001 { // one more than a page has
		rows = append(rows, row(someone, fmt.Sprint("f", i), "1", 1))
	}
	write(t, from, rows...)
	first, second := landingtest.NewImport(from, to, "1_1"), landingtest.NewImport(from, to, "1_1")
	first.Told = func(now *landing.Imported) error {
		require.EqualValues(t, 2000, now.Read)
		other := second.Done(t)
		require.NoError(t, other.Verdict())
		require.EqualValues(t, 2000, other.Before)
		return nil
	}
	_, err := first.Run(ctx)
	require.ErrorIs(t, err, codes.Conflict)
	require.ErrorContains(t, err, "another import of table 1_1 is running")
}
