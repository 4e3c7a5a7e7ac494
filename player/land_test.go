package player

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

func TestH17AndH34ARemovedFieldLandsAsRemovedWithItsLastValue(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "last"})
	b, err := k.Dirty(t.Context(), 0, 0)
	require.NoError(t, err)
	require.Len(t, b.Rows, 1, "an update in the snapshot")
	k.clock.Advance(time.Second)
	k.remove(player, "a")
	_, _, err = sql.write(b)
	require.NoError(t, err)
	require.Equal(t, "last", string(sql.row(player, "a").Value))
	require.NoError(t, k.Landed(t.Context(), k.lock(0), b, nil))
	k.land()
	row := sql.row(player, "a")
	require.True(t, row.Removed)
	require.Equal(t, k.clock.Now().UnixMilli(), row.RemovedAt)
	require.Equal(t, "last", string(row.Value))
	require.Less(t, row.Created, row.Updated)
}

func TestH23AThousandUpdatesOfAFieldAreOneRow(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	for i := range 1000 {
		k.update(player, map[string]string{"a": strconv.Itoa(i)})
	}
	require.EqualValues(t, 1, k.Status()[0].Dirty)
	require.Equal(t, 1, k.land())
	require.Equal(t, 1, sql.put)
	require.Equal(t, "999", string(sql.row(player, "a").Value))
}

func TestH24NinetyFiveFieldsLandInBatchesOfTen(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql, func(c *Config) { c.Settings = field.Defaults(); c.Settings.Batch = 10 })
	for i := range 95 {
		k.update(player, map[string]string{fmt.Sprint(i): "v"})
	}
	require.Equal(t, 10, k.land())
	require.Equal(t, 95, sql.put)
	require.Nil(t, batch(t, k))
}

func batch(t *testing.T, k *kit) *field.Batch {
	b, err := k.Dirty(t.Context(), 0, 0)
	require.NoError(t, err)
	return b
}

// A transaction lands as a whole, however few rows a batch should have.
func TestABatchDoesNotDivideATransaction(t *testing.T) {
	k := startOn(t, newDatabase())
	k.update(player, numbers(30))
	k.update(player, map[string]string{"z": "1"})
	b, err := k.Dirty(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, b.Rows, 30)
	require.True(t, b.More)
}

func TestH25AndH26ARefusedRowIsNotedAndLandsOnceItIsTaken(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(r *field.Row) bool { return r.Name == "bad" }
	k := startOn(t, sql)
	k.update(player, map[string]string{"good": "1", "bad": "2", "more": "3"})
	k.land()
	require.Equal(t, map[string]string{"good": "1", "more": "3"}, sql.live(player))
	list, more := k.Errors(field.Ref{}, 0)
	require.False(t, more)
	require.Equal(t, []field.ErrorRow{{Owner: player, Name: "bad", List: "dirtyKey:0error", Revision: list[0].Revision, Reason: "poison", Attempts: 1,
		First: k.clock.Now().UnixMilli(), Next: k.clock.Now().Add(10 * time.Second).UnixMilli()}}, list)
	require.EqualValues(t, 1, k.Status()[0].Refused)
	require.Zero(t, k.Status()[0].Dirty)
	require.Equal(t, map[string]string{"bad": "2"}, k.get(player, "bad"))

	for pause := 10 * time.Second; pause <= 40*time.Second; pause *= 2 { // longer each time
		require.Zero(t, k.land())
		k.clock.Advance(pause)
		require.Equal(t, 1, k.land())
	}
	list, _ = k.Errors(field.Ref{}, 0)
	require.Equal(t, 4, list[0].Attempts)
	k.reopen()
	sql.set(func(d *database) { d.poison = nil })
	k.clock.Advance(80 * time.Second)
	k.land()
	require.Equal(t, "2", string(sql.row(player, "bad").Value))
	list, _ = k.Errors(field.Ref{}, 0)
	require.Empty(t, list)
}

func TestARefusedFieldThatChangesLandsAtOnce(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(r *field.Row) bool { return string(r.Value) == "bad" }
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "bad"})
	k.land()
	k.update(player, map[string]string{"a": "good"})
	require.Equal(t, 1, k.land())
	require.Equal(t, map[string]string{"a": "good"}, sql.live(player))
	require.Zero(t, k.Status()[0].Refused)
}

func TestOperatorsRetryAndDropRefusedRows(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(*field.Row) bool { return true }
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "1", "b": "2", "c": "3"})
	k.land()
	list, more := k.Errors(field.Ref{Owner: player, Name: "a"}, 1)
	require.True(t, more)
	require.Equal(t, "b", list[0].Name)
	n, err := k.Drop(t.Context(), []field.Ref{{Owner: player, Name: "a"}, {Owner: player, Name: "nope"}}, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	k.clock.Advance(time.Hour)
	sql.set(func(d *database) { d.poison = nil })
	n, err = k.Retry(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	k.land()
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, sql.live(player))
	require.Equal(t, map[string]string{"a": "1", "b": "2", "c": "3"}, k.all(player))
	require.EqualValues(t, 1, k.Status()[0].Dropped)
	n, err = k.Retry(t.Context(), []field.Ref{{Owner: player, Name: "a"}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	k.land()
	require.Equal(t, "1", string(sql.row(player, "a").Value))
}

func TestH27NothingIsLostWhileTheDatabaseIsDown(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	sql.set(func(d *database) { d.down = true })
	for i := range 60 {
		k.update(player, map[string]string{fmt.Sprint(i): "v"})
		require.Equal(t, map[string]string{fmt.Sprint(i): "v"}, k.get(player, fmt.Sprint(i)))
		require.Zero(t, k.land())
		k.clock.Advance(time.Second)
	}
	require.EqualValues(t, 60, k.Status()[0].Dirty)
	require.Equal(t, k.clock.Now().Add(-time.Minute).UnixMilli(), k.Status()[0].Oldest)
	sql.set(func(d *database) { d.down = false })
	k.land()
	require.Len(t, sql.live(player), 60)
}

func TestH28ALanderThatDiedIsFollowedByOneThatLandsTheSame(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "1"})
	first := batch(t, k)
	_, _, err := sql.write(first)
	require.NoError(t, err)
	old := k.lock(0)
	ns, key := LockOf(0)
	_, err = k.commit(t.Context(), &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: ns, Key: key}}})
	require.NoError(t, err)
	clear(k.fences)
	require.Equal(t, first.Rows, batch(t, k).Rows)
	require.Equal(t, 1, k.land())
	require.ErrorIs(t, k.Landed(t.Context(), old, first, nil), codes.FenceLost)
	require.ErrorIs(t, k.Landed(t.Context(), k.lock(0), first, nil), codes.Conflict)
	k.update(player, map[string]string{"a": "2"})
	_, newer, err := sql.write(first)
	require.NoError(t, err)
	require.Zero(t, newer, "the same again")
}

func TestH29WhatWasNotLandedIsDirtyAfterARestart(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "1", "b": "2"})
	k.land()
	k.update(player, map[string]string{"b": "3"})
	k.remove(player, "a")
	k.reopen()
	require.EqualValues(t, 2, k.Status()[0].Dirty)
	k.land()
	require.Equal(t, map[string]string{"b": "3"}, sql.live(player))
	require.Equal(t, 4, sql.put)
}

func TestH35FieldsThatDifferInCaseAreTwoRows(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.update(player, map[string]string{"K": "1", "k": "2"})
	k.land()
	require.Equal(t, map[string]string{"K": "1", "k": "2"}, sql.live(player))
}

func TestH37TheNumberOfTablesChangesWithoutLoss(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	want := map[string]field.Owner{}
	write := func(from, to int) {
		for i := from; i < to; i++ {
			o := player
			o.ID = strconv.Itoa(i)
			want[o.ID] = o
			k.update(o, map[string]string{"a": o.ID})
		}
	}
	write(0, 20)
	k.land()
	write(10, 40)
	set := k.Settings()
	taken := batch(t, k)
	for _, tables := range []int{4, 3, 1, 5} {
		set.Tables = tables
		require.NoError(t, k.Set(t.Context(), set))
		require.ErrorIs(t, k.Landed(t.Context(), k.lock(0), taken, nil), codes.Conflict, "a batch of other tables")
		dirty := int64(0)
		for _, table := range k.Status() {
			dirty += table.Dirty
		}
		require.EqualValues(t, 30, dirty)
	}
	write(30, 50)
	k.reopen() // with the default of one table
	require.Len(t, k.Status(), 1)
	require.NoError(t, k.Set(t.Context(), set))
	write(45, 60)
	k.land()
	for id, o := range want {
		require.Equal(t, map[string]string{"a": id}, sql.live(o))
	}
	require.Equal(t, 20+50, sql.put)
	_, err := k.Dirty(t.Context(), 5, 0)
	require.ErrorIs(t, err, codes.BadRequest)
	for _, set.Tables = range []int{0, -1, field.MaxTables + 1} {
		require.ErrorIs(t, k.Set(t.Context(), set), codes.BadRequest)
	}
}

func TestH38TheStatusTellsOfEachTable(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.update(player, numbers(120))
	require.Equal(t, []field.TableStatus{{List: "dirtyKey:0", Errors: "dirtyKey:0error", Dirty: 120, Oldest: k.clock.Now().UnixMilli()}}, k.Status())
	b := batch(t, k)
	require.Equal(t, "dirtyKey:0saving", k.Status()[0].Saving)
	require.NoError(t, k.Landed(t.Context(), k.lock(0), b, nil))
	s := k.Status()[0]
	require.Equal(t, field.TableStatus{List: "dirtyKey:0", Errors: "dirtyKey:0error", Landed: 120, Rate: 2, Last: k.clock.Now().UnixMilli(), Cursor: int64(b.Through)}, s)
	k.clock.Advance(time.Minute)
	require.Zero(t, k.Status()[0].Rate)
}

// A row that is newer than what is to be written, as from a data directory that was lost or
// another program, makes all versions greater.
func TestNewerRowsRaiseAllVersions(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	before := k.update(player, map[string]string{"a": "mine"}).Fields[0].Version
	sql.insert(field.Row{Owner: player, Name: "a", Value: []byte("other"), Version: before + 1e9})
	k.land()
	require.Equal(t, "mine", string(sql.row(player, "a").Value))
	require.Greater(t, sql.row(player, "a").Version, before+int64(1e9))
	k.reopen()
	require.Equal(t, sql.row(player, "a").Version, k.field(player, "a").Version)
	require.NoError(t, k.Newer(t.Context(), 1))
	require.ErrorIs(t, k.Newer(t.Context(), maxBase), codes.BadValue)
}

func TestWithoutADatabaseNothingIsDirty(t *testing.T) {
	k := start(t)
	require.Nil(t, k.Status())
	_, err := k.Dirty(t.Context(), 0, 0)
	require.ErrorIs(t, err, codes.NotImplemented)
	require.ErrorIs(t, k.Landed(t.Context(), 1, &field.Batch{}, nil), codes.NotImplemented)
	_, err = k.Retry(t.Context(), nil)
	require.ErrorIs(t, err, codes.NotImplemented)
	list, _ := k.Errors(field.Ref{}, 0)
	require.Empty(t, list)
	require.NoError(t, k.Set(t.Context(), field.Settings{Tables: 3}))
}

// The marks in memory take room for the fields that are dirty, not for their changes.
func TestMarksAreAsManyAsDirtyFields(t *testing.T) {
	k := startOn(t, newDatabase())
	k.update(player, map[string]string{"first": "1"})
	for i := range 10_000 {
		k.update(player, map[string]string{fmt.Sprint(i % 10): "v"})
	}
	require.EqualValues(t, 11, k.Status()[0].Dirty)
	require.Less(t, len(k.dirty.tables[0].marks), 2200)
}

// What the database has in the end is what the store has, whatever happens in between.
func TestLandingAgreesWithTheStore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sql := newDatabase()
		k := startOn(t, sql, func(c *Config) { c.Settings = field.Defaults(); c.Settings.Batch = 3 })
		model := map[field.Owner]map[string]string{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			o := player
			o.ID = rapid.SampledFrom([]string{"1", "10", "a:b"}).Draw(rt, "owner")
			name := rapid.SampledFrom([]string{"a", "b", ":c"}).Draw(rt, "field")
			if model[o] == nil {
				model[o] = map[string]string{}
			}
			switch rapid.IntRange(0, 8).Draw(rt, "step") {
			case 0, 1, 2:
				value := rapid.SampledFrom([]string{"1", "text", "bad", ""}).Draw(rt, "value")
				k.update(o, map[string]string{name: value})
				model[o][name] = value
			case 3:
				k.remove(o, name)
				delete(model[o], name)
			case 4:
				k.landOnce(rapid.IntRange(0, k.Settings().Tables-1).Draw(rt, "table"))
			case 5:
				refuse := rapid.Bool().Draw(rt, "poison")
				sql.set(func(d *database) { d.poison = func(r *field.Row) bool { return refuse && string(r.Value) == "bad" } })
			case 6:
				set := k.Settings()
				set.Tables = rapid.IntRange(1, 3).Draw(rt, "tables")
				require.NoError(rt, k.Set(t.Context(), set))
			case 7:
				k.cfg.Settings = k.Settings()
				k.reopen()
			case 8:
				k.clock.Advance(time.Minute)
			}
		}
		sql.set(func(d *database) { d.poison = nil })
		for range 3 { // the first may refuse what waits
			k.clock.Advance(2 * time.Hour)
			k.land()
		}
		for o, fields := range model {
			require.Equal(rt, fields, k.all(o))
			require.Equal(rt, fields, sql.live(o))
		}
		for _, table := range k.Status() {
			require.Zero(rt, table.Dirty+table.Refused)
		}
		k.shut()
	})
}

func TestOwnersAreListedInOrderAndCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sql := newDatabase()
		k := startOn(t, sql)
		ids := rapid.SliceOfDistinct(rapid.StringMatching(`[01:-;]{1,3}`), func(s string) string { return s }).Draw(rt, "ids")
		want := map[string]field.Owner{}
		for _, id := range ids {
			o := field.Owner{App: "1", Region: "1", Logic: rapid.SampledFrom([]string{"u", "u:"}).Draw(rt, "logic"), ID: id}
			switch rapid.IntRange(0, 3).Draw(rt, "where") {
			case 0:
				k.update(o, map[string]string{"a": "1", "b": "2"})
			case 1:
				sql.insert(field.Row{Owner: o, Name: "a"})
			case 2:
				k.update(o, map[string]string{"a": "1", "b": "2"})
				sql.insert(field.Row{Owner: o, Name: "b"})
			case 3:
				k.update(o, map[string]string{"a": "1"})
				k.remove(o, "a")
				sql.insert(field.Row{Owner: o, Name: "a"})
				continue
			}
			want[o.Key()] = o
		}
		for _, logic := range []string{"", "u", "u:"} {
			var got []string
			for after := ""; ; {
				list, next, err := k.Owners(t.Context(), "1", "1", logic, after, 2)
				require.NoError(rt, err)
				for _, o := range list {
					require.Equal(rt, want[o.Key()], o)
					require.Contains(rt, []string{"", o.Logic}, logic)
					got = append(got, o.Key())
				}
				if after = next; next == "" {
					break
				}
			}
			require.IsIncreasing(rt, append([]string{""}, got...))
			n, err := k.Count(t.Context(), "1", "1", logic)
			require.NoError(rt, err)
			require.EqualValues(rt, len(got), n)
			for _, o := range maps.All(want) {
				if logic == "" || o.Logic == logic {
					n--
				}
			}
			require.Zero(rt, n)
		}
		k.shut()
	})
}

func TestFieldsUpToAVersionAreLanded(t *testing.T) {
	require.EqualValues(t, math.MaxInt64, start(t).LandedThrough(player), "without a database nothing is dirty")
	k := startOn(t, newDatabase())
	k.update(player, map[string]string{"a": "1"})
	first := k.field(player, "a").Version
	require.Less(t, k.LandedThrough(player), first)
	k.land()
	require.GreaterOrEqual(t, k.LandedThrough(player), first)
	k.update(player, map[string]string{"a": "2"})
	require.Less(t, k.LandedThrough(player), k.field(player, "a").Version)
}
