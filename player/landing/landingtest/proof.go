package landingtest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/landing"
)

var proofChecks = []check{
	{"AProofFindsItsFieldAndTakesItAway", aProofFindsItsFieldAndTakesItAway},
}

// Many may prove the same database at the same time, and nothing is left in it.
func aProofFindsItsFieldAndTakesItAway(t *testing.T, d *Database) {
	stale := Row(landing.Proof, "of one that was killed", "", 0)
	Write(t, d, stale)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 {
				err := d.Prove(ctx, func(name string) error {
					rows, err := d.Fields(ctx, landing.Proof, []string{name})
					if err == nil && len(rows) != 1 {
						err = codes.Conflict
					}
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	rows, err := d.All(ctx, landing.Proof)
	require.NoError(t, err)
	require.Empty(t, rows)
	tables, err := d.Importable(ctx)
	require.NoError(t, err)
	require.Empty(t, tables, "the table of proofs is nobody's")

	require.ErrorIs(t, d.Prove(ctx, func(string) error { return codes.Busy }), codes.Busy)
	rows, err = d.All(ctx, landing.Proof)
	require.NoError(t, err)
	require.Empty(t, rows)
}
