package player

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/player/field"
)

// A database that has gone back in time gets once more what memory has, from then on or all of it,
// whatever is written meanwhile, and none of what it has lost is answered from what was read before.
func TestWhatADatabaseHasLostIsLandedOnceMore(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.settle()
	owner := func(id string) field.Owner { return field.Owner{App: "1", Region: "1", Logic: "user", ID: id} }
	k.update(owner("old"), map[string]string{"a": "1"})
	k.land()
	old := sql.row(owner("old"), "a")
	k.clock.Advance(time.Hour)
	since := k.clock.Now().UnixMilli()
	k.update(owner("new"), map[string]string{"a": "1"})
	k.update(owner("changed"), map[string]string{"a": "1"})
	k.remove(owner("new"), "a")
	k.land()
	lose := func(rows ...field.Row) {
		sql.set(func(d *database) { d.rows = map[string]map[string]field.Row{} })
		sql.insert(rows...)
	}
	lose(old)
	k.update(owner("changed"), map[string]string{"a": "2"})
	n, err := k.Reland(t.Context(), since)
	require.NoError(t, err)
	require.Equal(t, 1, n, "of those that were landed")
	require.EqualValues(t, 2, k.Status()[0].Dirty)
	before := sql.put
	k.land()
	require.Equal(t, 2, sql.put-before)
	require.True(t, sql.row(owner("new"), "a").Removed)
	require.Equal(t, "2", string(sql.row(owner("changed"), "a").Value))
	require.Zero(t, k.Status()[0].Dirty)

	lose()
	n, err = k.Reland(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	k.reopen() // it is remembered
	k.settle()
	set := field.Defaults()
	set.Tables = 3
	require.NoError(t, k.Set(t.Context(), set))
	k.update(owner("old"), map[string]string{"a": "3"})
	k.land()
	require.Equal(t, map[string]string{"a": "3"}, sql.live(owner("old")))
	require.Equal(t, map[string]string{"a": "2"}, sql.live(owner("changed")))
	n, err = k.Reland(t.Context(), k.clock.Now().UnixMilli()+1)
	require.NoError(t, err)
	require.Zero(t, n)

	lose()
	n, err = k.Reland(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, 3, n, "of three dirty tables")
	k.land()
	require.Equal(t, map[string]string{"a": "3"}, sql.live(owner("old")))
	_, err = start(t).Reland(t.Context(), 0)
	require.ErrorContains(t, err, "start the server with --landing")
}

// What had left memory was read again before the database went back: that does not count any more.
func TestWhatWasReadOfALostDatabaseIsForgotten(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.settle()
	k.update(player, map[string]string{"a": "1"})
	k.chill()
	require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"))
	sql.insert(field.Row{Owner: player, Name: "a", Value: []byte("0"), Version: 1})
	require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"), "it is not asked again")
	_, err := k.Reland(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "0"}, k.get(player, "a"))
}
