package log_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
)

// All documents are at one version, and nothing else of them is another; so it is after a kill, if
// it is done again.
func TestRenumberBeginsVersionsAgain(t *testing.T) {
	b := newBed(t)
	defer b.close()
	n, err := b.log.Renumber(context.Background(), 7)
	require.NoError(t, err)
	require.Zero(t, n)
	var changes []log.Change
	for i := range 300 {
		changes = append(changes, set(fmt.Sprintf("%03d.json", i), `{}`))
	}
	b.commit(append(changes, set("000.json", "-"))...)
	epoch := b.log.Epoch()
	before, _, err := b.log.Behind(0)
	require.NoError(t, err)
	b.store.left = 1
	_, err = b.log.Renumber(context.Background(), 7)
	require.Error(t, err)
	b.open()
	n, err = b.log.Renumber(context.Background(), 7)
	require.NoError(t, err)
	require.Equal(t, 300, n)
	b.open()
	require.NotEqual(t, epoch, b.log.Epoch())
	after, _, err := b.log.Behind(0)
	require.NoError(t, err)
	require.Len(t, after, len(before))
	for i, d := range before {
		d.Served, d.Given, d.Floor = 7, 7, min(d.Floor, 7)
		require.Equal(t, d, after[i])
	}
	require.Empty(t, check(b.entries(), same))
}
