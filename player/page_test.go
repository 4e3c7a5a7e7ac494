package player

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/player/field"
	"confcenter/player/playerjson"
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

// No one has to read to the end: what is kept for the next page must not keep other owners in
// memory, nor last.
func TestPagesKeepNobodyInMemory(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql) // nothing leaves by itself
	k.update(player, numbers(10))
	page, err := k.GetAll(t.Context(), player, field.Ask{Limit: 3})
	require.NoError(t, err)
	require.True(t, page.More)
	require.Equal(t, 10, k.chill())
	rest, err := k.GetAll(t.Context(), player, field.Ask{After: page.Fields[2].Name, Limit: 3, Revision: page.Revision})
	require.NoError(t, err, "chill took half an hour, but nobody has asked for pages meanwhile")
	require.Len(t, rest.Fields, 3)
	k.clock.Advance(2 * pageTime * time.Second)
	k.pages.expire()
	_, err = k.GetAll(t.Context(), player, field.Ask{After: rest.Fields[2].Name, Revision: page.Revision})
	require.ErrorIs(t, err, codes.Compacted)
	require.Zero(t, k.pages.held)
}

// A page is measured by what it takes as JSON: of values full of zero bytes there are fewer in it.
func TestPagesAreCutByTheirSizeAsJSON(t *testing.T) {
	for name, value := range map[string]string{
		"zero bytes": strings.Repeat("\x00", 60_000), "long zero bytes": strings.Repeat("\x00", 300_000), "quotes": strings.Repeat(`"`, 500_000), "octets": strings.Repeat("\xff", 500_000),
	} {
		k := start(t)
		all := map[string]string{}
		for field := range numbers(16) {
			all[field] = value
			k.update(player, map[string]string{field: value})
		}
		got, pages := map[string]string{}, 0
		for ask := (field.Ask{}); ; pages++ {
			page, err := k.GetAll(t.Context(), player, ask)
			require.NoError(t, err)
			require.LessOrEqual(t, playerjson.SizeOf(page.Fields), 2<<20, name)
			maps.Copy(got, texts(page.Fields))
			if !page.More {
				break
			}
			ask.After, ask.Revision = page.Fields[len(page.Fields)-1].Name, page.Revision
		}
		require.True(t, maps.Equal(all, got), name)
		require.Positive(t, pages, name)
	}
}
