package player

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

func TestRefusedRowsAreTriedOnceEachWhenTheirTimeComes(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(*field.Row) bool { return true }
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "1", "b": "2", "c": "3"})
	k.land()
	_, err := k.Drop(t.Context(), []field.Ref{{Owner: player, Name: "c"}}, 1)
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
	k.reopen()
	list, _ := k.Errors(field.Ref{}, 0)
	require.Len(t, list, 1)
	require.True(t, list[0].Dropped)
}

// Over TCP, HTTP and from the command line: confirm is how many refused fields are given up.
func TestDropIsConfirmedByHowManyItGivesUp(t *testing.T) {
	k := startOn(t, newDatabase())
	k.refuse("a", "b", "c")
	a := field.Ref{Owner: player, Name: "a"}
	some := []field.Ref{a, {Owner: player, Name: "nope"}, a}
	for _, step := range []struct {
		fields  []field.Ref
		confirm int64
		refusal string // "": none
		count   int
	}{
		{nil, 0, "landing 3 refused fields would be given up: confirm must be that number, and is 0", 0},
		{nil, 2, "landing 3 refused", 0},
		{some, 3, "landing 1 refused", 0},
		{[]field.Ref{}, 0, "", 0},
		{some, 1, "", 1},
		{some, 1, "", 0}, // asked again, because the answer was lost for example
		{some, 3, "", 0},
		{nil, 3, "landing 2 refused", 0},
		{nil, 2, "", 2},
		{nil, 2, "", 0},
	} {
		n, err := k.Drop(t.Context(), step.fields, step.confirm)
		if step.refusal != "" {
			require.ErrorIs(t, err, codes.Unconfirmed)
			require.ErrorContains(t, err, step.refusal)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, step.count, n, "%v", step)
	}
	require.EqualValues(t, 3, k.Status()[0].Dropped)
}

// refuse has the database refuse these fields of the player.
func (k *kit) refuse(names ...string) {
	k.sql.set(func(d *database) { d.poison = func(*field.Row) bool { return true } })
	fields := map[string]string{}
	for _, name := range names {
		fields[name] = "1"
	}
	k.update(player, fields)
	k.land()
}

func TestMoreFieldsAreGivenUpThanOneTransactionHolds(t *testing.T) {
	k := startOn(t, newDatabase())
	const parts, each = 3, 1000
	for part := range parts {
		var names []string
		for i := range each {
			names = append(names, fmt.Sprint(part, "/", i))
		}
		k.refuse(names...)
	}
	n, err := k.Drop(t.Context(), nil, parts*each)
	require.NoError(t, err)
	require.Equal(t, parts*each, n)
	require.EqualValues(t, parts*each, k.Status()[0].Dropped)
}

// meantime is a store that does something between a request and its commit.
type meantime struct {
	kv.Store
	do func() // nil: nothing
}

func (m *meantime) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Store.Commit(txn, done)
}

// What an operator decides while a lander tries a row again is not undone by the lander's report.
func TestAFieldThatIsGivenUpWhileItIsTriedStaysGivenUp(t *testing.T) {
	var store *meantime
	k := startOn(t, newDatabase(), func(cfg *Config) {
		store = &meantime{Store: cfg.Store}
		cfg.Store = store
	})
	drop := func() {
		n, err := k.Drop(t.Context(), nil, 1)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	k.refuse("a")
	k.clock.Advance(time.Hour)
	b := batch(t, k)
	failed, _, err := k.sql.write(b)
	require.NoError(t, err)
	store.do = drop
	require.ErrorIs(t, k.Landed(t.Context(), k.lock(0), b, failed), codes.Conflict)
	require.EqualValues(t, 1, k.Status()[0].Dropped)
	require.Nil(t, batch(t, k))

	k.update(player, map[string]string{"a": "2"}) // dirty, noted and dropped
	b = batch(t, k)
	failed, _, err = k.sql.write(b)
	require.NoError(t, err)
	require.NoError(t, k.Landed(t.Context(), k.lock(0), b, failed))
	require.EqualValues(t, 1, k.Status()[0].Refused, "another value is another try")
}

// A misspelt request is told so, instead of being about no field.
func TestOperatorsNameFieldsThatCanExist(t *testing.T) {
	k := startOn(t, newDatabase())
	for _, bad := range []field.Ref{{}, {Owner: player}, {Owner: field.Owner{App: "1", Region: "1", Logic: "user"}, Name: "a"}} {
		_, err := k.Drop(t.Context(), []field.Ref{bad}, 1)
		require.ErrorIs(t, err, codes.BadKey)
		_, err = k.Retry(t.Context(), []field.Ref{bad})
		require.ErrorIs(t, err, codes.BadKey)
	}
}

// A table that the database refuses as a whole must not fill the memory with reasons.
func TestTheListOfErrorsIsBounded(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(r *field.Row) bool { return r.Name != "good" }
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

	err = k.Landed(t.Context(), k.lock(0), b, []field.Failure{{Table: "1_1", Key: "user:100:other", Reason: "poison"}})
	require.ErrorIs(t, err, codes.BadRequest, "a lander that reports what it was not given")

	k.clock.Advance(time.Hour)
	sql.set(func(d *database) { d.poison = nil })
	k.land()
	require.Zero(t, k.Status()[0].Dirty)
	require.Zero(t, k.Status()[0].Refused)
}

// Operators learn from the log when the list of errors begins to have something, once.
func TestTheFirstRefusedFieldsAreWarnedOf(t *testing.T) {
	sql, log := newDatabase(), &bytes.Buffer{}
	sql.poison = func(r *field.Row) bool { return string(r.Value) == "bad" }
	k := startOn(t, sql, func(c *Config) { c.Log = zerolog.New(zerolog.SyncWriter(log)) })
	warned := func() int { return strings.Count(log.String(), "the database refuses fields") }
	k.update(player, map[string]string{"a": "bad", "b": "bad", "c": "good"})
	k.land()
	require.Equal(t, 1, warned())
	require.Contains(t, log.String(), `"level":"warn","fields":2,"table":"1_1","key":"user:100:a","reason":"poison"`)
	k.update(player, map[string]string{"d": "bad"})
	k.land()
	require.Equal(t, 1, warned(), "the list was not empty")
	k.update(player, map[string]string{"a": "good", "b": "good", "d": "good"})
	k.land()
	k.update(player, map[string]string{"e": "bad"})
	k.land()
	require.Equal(t, 2, warned())
}

// A row says when its field was made, however often it was written before it was landed, and
// whether the database refused it meanwhile.
func TestARowIsCreatedWhenItsFieldIs(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(r *field.Row) bool { return string(r.Value) == "bad" }
	k := startOn(t, sql)
	made := k.clock.Now().UnixMilli()
	k.update(player, map[string]string{"a": "1", "b": "bad"})
	k.clock.Advance(time.Minute)
	k.update(player, map[string]string{"a": "2", "late": "1"})
	k.clock.Advance(time.Minute)
	k.update(player, map[string]string{"a": "3"})
	k.land()
	k.clock.Advance(time.Minute)
	k.update(player, map[string]string{"b": "bad"})
	k.land()
	k.update(player, map[string]string{"b": "good"})
	k.land()
	require.Equal(t, made, sql.row(player, "a").Created)
	require.Equal(t, made+120_000, sql.row(player, "a").Updated)
	require.Equal(t, made, sql.row(player, "b").Created)
	require.Equal(t, made+60_000, sql.row(player, "late").Created)
}
