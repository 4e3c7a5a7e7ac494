package storage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/storage/field"
)

func TestRefusedRowsAreTriedOnceEachWhenTheirTimeComes(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(*Row) bool { return true }
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "1", "b": "2", "c": "3"})
	k.land()
	_, err := k.Drop(t.Context(), []FieldName{{Owner: player, Name: "c"}})
	require.NoError(t, err)
	for range 3 { // at once, for the impatient
		n, err := k.Retry(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, 2, n)
	}
	for range 2 {
		b, err := k.Dirty(t.Context(), 0, 0)
		require.NoError(t, err)
		require.Len(t, b.Rows, 2, "each once, and until it is known what became of it")
	}
	require.NoError(t, k.Set(t.Context(), func() field.Settings { s := k.Settings(); s.Tables = 3; return s }()))
	var refused, dropped int64
	for _, table := range k.Status() {
		refused, dropped = refused+table.Refused, dropped+table.Dropped
	}
	require.EqualValues(t, []int64{2, 1}, []int64{refused, dropped})
	require.Equal(t, 1, k.land(), "they are refused again")
	require.Zero(t, k.land())
	k.clock.Advance(time.Hour)
	sql.set(func(d *database) { d.poison = nil })
	k.land()
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, sql.live(player))
	n, err := k.Drop(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, n, "all that there are")
	k.reopen()
	list, _ := k.Errors(FieldName{}, 0)
	require.Len(t, list, 1)
	require.True(t, list[0].Dropped)
}

// A table that the database refuses as a whole must not fill the memory with reasons.
func TestTheListOfErrorsIsBounded(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(r *Row) bool { return r.Name != "good" }
	k := startOn(t, sql)
	k.dirty.most = 3
	k.update(player, numbers(3))
	k.land()
	require.EqualValues(t, 3, k.Status()[0].Refused)
	k.update(player, map[string]string{"good": "1", "one more": "1"})
	b, err := k.Dirty(t.Context(), 0, 0)
	require.NoError(t, err)
	failed, _, err := sql.write(b)
	require.NoError(t, err)
	err = k.Landed(t.Context(), k.lock(0), b, failed)
	require.ErrorIs(t, err, codes.Limit)
	require.ErrorContains(t, err, "the last reason: poison")
	require.EqualValues(t, 2, k.Status()[0].Dirty, "nothing is lost")

	err = k.Landed(t.Context(), k.lock(0), b, []Failure{{Table: "1_1", Key: "user:100:other", Reason: "poison"}})
	require.ErrorIs(t, err, codes.BadRequest, "a lander that reports what it was not given")

	k.clock.Advance(time.Hour)
	sql.set(func(d *database) { d.poison = nil })
	k.land()
	require.Zero(t, k.Status()[0].Dirty)
	require.Zero(t, k.Status()[0].Refused)
}
