package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/storage/field"
)

// An owner that has left memory may be larger than what is kept of such owners.
func TestAColdOwnerLargerThanTheCacheIsReadToItsEnd(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql, func(c *Config) { c.Settings, c.Cold = field.Defaults(), memory.NewPool(64<<10) })
	all := map[string]string{}
	for name := range numbers(100) {
		all[name] = strings.Repeat(name, 1000)
	}
	k.update(player, all)
	require.Equal(t, 100, k.chill())
	require.Equal(t, all, k.all(player))
	require.Equal(t, 1, sql.queries(), "all pages are of the same rows")
	require.Zero(t, k.cfg.Cold.Held())
}

// Nobody has to read to the end: what is kept for the next page must not keep other owners in
// memory, nor last.
func TestPagesKeepNobodyInMemory(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.update(player, numbers(10))
	page, err := k.GetAll(t.Context(), player, Ask{Limit: 3})
	require.NoError(t, err)
	require.True(t, page.More)
	require.Equal(t, 10, k.chill())
	rest, err := k.GetAll(t.Context(), player, Ask{After: page.Fields[2].Name, Limit: 3, Revision: page.Revision})
	require.NoError(t, err, "chill took half an hour, but nobody has asked for pages meanwhile")
	require.Len(t, rest.Fields, 3)
	k.clock.Advance(2 * pageTime * time.Second)
	k.pages.expire()
	_, err = k.GetAll(t.Context(), player, Ask{After: rest.Fields[2].Name, Revision: page.Revision})
	require.ErrorIs(t, err, codes.Compacted)
	require.Zero(t, k.pages.held)
}
