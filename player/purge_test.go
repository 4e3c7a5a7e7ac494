package player

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
)

const purgeAge = 2 * time.Hour

// startPurging opens a Storage that purges when round is called.
func startPurging(t testing.TB, sql *database) *kit {
	k := startOn(t, sql, moved, func(c *Config) {
		c.Settings = field.Defaults()
		c.Settings.Idle = 0 // what leaves memory is not purged from it
	})
	k.settle()
	return k
}

// round has the purge look at everything once. Purging by itself stays off, so that this is
// the only one.
func (k *kit) round() {
	k.t.Helper()
	for ended := false; !ended; {
		var err error
		ended, err = k.purge.turn(k.t.Context(), purgeAge)
		require.NoError(k.t, err)
	}
}

func (k *kit) restore(o field.Owner, name string) error {
	_, err := k.try(&field.Write{Owner: o, Kind: field.Restore, Names: []string{name}})
	return err
}

func TestFieldsThatWereRemovedLongAgoArePurged(t *testing.T) {
	sql := newDatabase()
	k := startPurging(t, sql)
	owner := func(i int) field.Owner { return field.Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(i)} }
	for i := range 5 {
		k.update(owner(i), map[string]string{"old": "1", "new": "2", "live": "3"})
		k.remove(owner(i), "old")
	}
	k.land()
	require.NoError(t, k.cold.addToFilter(t.Context(), new(prints)))
	k.clock.Advance(purgeAge)
	k.update(owner(0), map[string]string{"dirty": "1"})
	k.remove(owner(0), "new", "dirty")
	k.land()
	k.round()
	for i := range 5 {
		rows, err := sql.All(t.Context(), owner(i))
		require.NoError(t, err)
		require.Len(t, rows, map[bool]int{true: 3, false: 2}[i == 0], "%d", i)
		require.ErrorIs(t, k.restore(owner(i), "old"), codes.NotFound)
		require.Equal(t, "3", k.get(owner(i), "live")["live"])
	}
	require.EqualValues(t, 5, k.purge.rows.Load())
	require.EqualValues(t, 5, k.purge.fields.Load())
	require.NoError(t, k.restore(owner(0), "new"), "it was removed just now")
	require.NoError(t, k.restore(owner(0), "dirty"))
	k.round()
	require.EqualValues(t, 5, k.purge.rows.Load())
	require.Equal(t, map[string]string{"live": "3", "new": "2", "dirty": "1"}, k.all(owner(0)))
}

// Setting the time of day makes no removal older or younger: for restoring,
func TestSettingTheClockEndsNoRestoring(t *testing.T) {
	for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		k := startPurging(t, newDatabase())
		set := k.Settings()
		set.Purge = purgeAge
		require.NoError(t, k.Set(t.Context(), set))
		k.update(player, map[string]string{"a": "1", "b": "2"})
		k.remove(player, "a", "b")
		k.land()
		k.clock.Step(step)
		k.clock.Advance(purgeAge / 2)
		require.NoError(t, k.restore(player, "a"), step)
		k.clock.Step(-2 * step)
		k.clock.Advance(purgeAge / 2)
		require.ErrorIs(t, k.restore(player, "b"), codes.NotFound, step)
	}
}

// nor for purging.
func TestSettingTheClockPurgesNothing(t *testing.T) {
	for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		k := startPurging(t, newDatabase())
		k.update(player, map[string]string{"a": "1", "b": "2"})
		k.remove(player, "a")
		k.land()
		k.clock.Step(step)
		k.clock.Advance(purgeAge / 2)
		k.remove(player, "b")
		k.land()
		k.round()
		require.Zero(t, k.purge.fields.Load(), step)
		k.clock.Step(-2 * step)
		k.clock.Advance(purgeAge / 2)
		k.round()
		require.EqualValues(t, 1, k.purge.fields.Load(), step)
		k.clock.Advance(purgeAge/2 - time.Millisecond)
		k.round()
		require.EqualValues(t, 1, k.purge.fields.Load(), step)
		k.clock.Advance(time.Millisecond)
		k.round()
		require.EqualValues(t, 2, k.purge.fields.Load(), step)
	}
}

// What the database has not got as it is in memory must stay in memory: the row is live.
func TestFieldsThatAreNotLandedAreNotPurged(t *testing.T) {
	sql := newDatabase()
	k := startPurging(t, sql)
	k.update(player, map[string]string{"dirty": "1", "refused": "1"})
	k.land()
	sql.set(func(d *database) { d.poison = func(r *field.Row) bool { return r.Name == "refused" } })
	k.remove(player, "refused")
	k.land()
	k.remove(player, "dirty")
	k.clock.Advance(purgeAge)
	k.round()
	require.Zero(t, k.purge.fields.Load())
	require.Empty(t, k.all(player))
	require.Equal(t, map[string]string{"dirty": "1", "refused": "1"}, sql.live(player))
	sql.set(func(d *database) { d.poison = nil })
	_, err := k.Retry(t.Context(), nil)
	require.NoError(t, err)
	k.land()
	k.round()
	require.EqualValues(t, 2, k.purge.fields.Load())
	require.EqualValues(t, 2, k.purge.rows.Load())
	require.Empty(t, k.all(player))
}

// From a certain time on a field cannot be restored, be it in memory, in the cache or in the
// database, and whether or not it was purged already.
func TestTheTimeAloneEndsRestoring(t *testing.T) {
	sql := newDatabase()
	k := startPurging(t, sql)
	cold := field.Owner{App: "1", Region: "1", Logic: "user", ID: "cold"}
	for _, o := range []field.Owner{player, cold} {
		k.update(o, map[string]string{"a": "1", "b": "2"})
		k.remove(o, "a", "b")
	}
	k.chill()
	require.NoError(t, k.restore(cold, "a")) // the other one is in the cache
	set := k.Settings()
	set.Purge = purgeAge
	require.NoError(t, k.Set(t.Context(), set))
	k.clock.Advance(purgeAge - 31*time.Minute)
	require.NoError(t, k.restore(player, "a"))
	k.clock.Advance(time.Minute)
	for _, o := range []field.Owner{player, cold} {
		require.ErrorIs(t, k.restore(o, "b"), codes.NotFound)
		require.Empty(t, k.get(o, "b"))
	}
}

// Versions rise although the database forgets those of purged rows, also with another data
// directory.
func TestVersionsRiseAcrossPurges(t *testing.T) {
	sql := newDatabase()
	k := startPurging(t, sql)
	k.update(player, map[string]string{"a": "1"})
	last := k.remove(player, "a").Fields[0].Version
	k.land()
	k.clock.Advance(purgeAge)
	k.round()
	require.Empty(t, sql.rows[player.Table()])
	out := k.update(player, map[string]string{"a": "2"})
	require.Greater(t, out.Fields[0].Version, last)
	k.land()
	require.Equal(t, "2", string(sql.row(player, "a").Value))

	last = k.remove(player, "a").Fields[0].Version
	k.land()
	k.clock.Advance(purgeAge)
	k.round()
	k.shut()
	lost := startPurging(t, sql)
	lost.clock.Advance(2*purgeAge + time.Hour)
	require.Greater(t, lost.update(player, map[string]string{"a": "3"}).Fields[0].Version, last)

	// Rows of the far future are what a later data directory learns the versions from.
	far := lost.clock.Now().Add(time.Hour).UnixMicro()
	sql.insert(field.Row{Owner: player, Name: "far", Version: far, Removed: true, RemovedAt: 1})
	lost.round()
	require.EqualValues(t, far, sql.row(player, "far").Version)
	lost.clock.Advance(time.Hour + time.Second)
	lost.round()
	require.Zero(t, sql.row(player, "far").Version)
}

// By itself it happens a turn at a time, and a database that is down does no harm.
func TestPurgingGoesByTheClock(t *testing.T) {
	sql := newDatabase()
	k := startPurging(t, sql)
	owner := func(i int) field.Owner { return field.Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(i)} }
	for i := range 5 {
		k.update(owner(i), map[string]string{"a": "1"})
		k.remove(owner(i), "a")
	}
	k.land()
	k.clock.Advance(purgeAge)
	sql.set(func(d *database) { d.down = true })
	set := k.Settings()
	set.Purge = purgeAge
	require.NoError(t, k.Set(t.Context(), set))
	pass := func(what string, done func() bool) {
		require.Eventually(t, func() bool {
			k.clock.Advance(purgePause)
			return done()
		}, patience, time.Millisecond, what)
	}
	sql.set(func(d *database) { d.down = false })
	pass("memory", func() bool { return k.purge.fields.Load() == 5 })
	pass("the database", func() bool { return k.purge.rows.Load() == 5 })
	require.ErrorIs(t, k.restore(owner(1), "a"), codes.NotFound)
}
