package player

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// The two players of these tests: one whose fields are cold, and one who is in memory.
var (
	coldOne = field.Owner{App: "1", Region: "1", Logic: "user", ID: "cold"}
	warmOne = field.Owner{App: "1", Region: "1", Logic: "user", ID: "warm"}
)

// startLanded opens a Storage that has landed both players in a database.
func startLanded(t *testing.T, sql *database) (*kit, *bytes.Buffer) {
	log := &bytes.Buffer{}
	k := startOn(t, sql, func(c *Config) { c.Log = zerolog.New(zerolog.SyncWriter(log)) })
	k.settle()
	for _, o := range []field.Owner{coldOne, warmOne} {
		k.update(o, map[string]string{"n": "7", "name": "Ann"})
	}
	k.chill()
	k.update(warmOne, map[string]string{"n": "8"})
	k.land()
	return k, log
}

// isClosed says that only what is in memory is answered for, and why.
func (k *kit) isClosed(why ...string) {
	k.t.Helper()
	_, read := k.Load(k.t.Context(), coldOne, []string{"n"})
	_, all := k.GetAll(k.t.Context(), coldOne, field.Ask{})
	_, _, list := k.Owners(k.t.Context(), "1", "1", "", "", 0)
	errs := []error{read, all, list}
	for _, w := range []field.Write{
		{Kind: field.Incr, Deltas: []field.Delta{{Name: "n", By: 1}}}, {Kind: field.Update, Fields: puts(map[string]string{"n": "1"})},
		{Kind: field.Remove, Names: []string{"n"}}, {Kind: field.Restore, Names: []string{"n"}},
	} {
		w.Owner = coldOne
		_, err := k.try(&w)
		errs = append(errs, err)
	}
	for i, err := range errs {
		require.ErrorIs(k.t, err, codes.Unreachable, "%d", i)
		for _, text := range why {
			require.Contains(k.t, codes.Message(err), text, "%d", i)
		}
	}
	require.Equal(k.t, "8", k.get(warmOne, "n")["n"], "memory is read")
	k.update(warmOne, map[string]string{"n": "8"})
	require.Zero(k.t, k.land())
}

// with opens the same store with another database, or none.
func (k *kit) with(sql *database, moved bool) {
	k.shut()
	k.sql, k.cfg.Backing, k.cfg.Moved = sql, nil, moved
	if sql != nil {
		k.cfg.Backing = sql
	}
	k.open()
}

func TestAnotherDatabaseIsNotTaken(t *testing.T) {
	right := newDatabase()
	k, log := startLanded(t, right)
	require.NotEmpty(t, right.is.Database)

	k.with(newDatabase(), false)
	k.isClosed(right.is.Database, "it has no name", "--landing-moved")
	require.Empty(t, k.sql.is, "nothing is said to a database that is not ours")

	other, of := newDatabase(), start(t)
	of.with(other, false)
	of.settle()
	k.with(other, false)
	k.isClosed(right.is.Database, other.is.Database)
	require.Equal(t, 1, strings.Count(log.String(), "landing database is "+other.is.Database), log)
	require.Contains(t, log.String(), `"level":"error"`)

	k.with(nil, false)
	k.isClosed(right.is.Database, "--landing")

	k.with(right, false)
	require.Equal(t, map[string]string{"n": "7", "name": "Ann"}, k.get(coldOne, "n", "name"))
	require.Equal(t, "8", k.incr(coldOne, "n", 1))
	require.Positive(t, k.land())
}

// It may become another one at any time: after a failure of its machine for example.
func TestADatabaseThatBecomesAnotherOneIsNotTaken(t *testing.T) {
	sql := newDatabase()
	k, log := startLanded(t, sql)
	was := sql.is
	sql.set(func(d *database) { d.is = Identity{} })
	k.isClosed(was.Database)
	sql.set(func(d *database) { d.is = Identity{Database: "OTHER", Store: was.Store} })
	k.isClosed(was.Database, "OTHER")
	sql.set(func(d *database) { d.is = was })
	require.Equal(t, "7", k.get(coldOne, "n")["n"])
	require.Contains(t, log.String(), "has its database again")
}

// Two stores would overwrite each other's rows.
func TestOneStoreLandsInADatabase(t *testing.T) {
	sql := newDatabase()
	k, _ := startLanded(t, sql)
	other := start(t)
	other.with(sql, false)
	_, err := other.Load(t.Context(), coldOne, []string{"n"})
	require.ErrorIs(t, err, codes.Unreachable)
	mine := k.identity.text(storeKey)
	for _, name := range []string{sql.is.Database, mine, other.identity.text(storeKey)} {
		require.ErrorContains(t, err, name)
	}
	_, err = other.try(&field.Write{Owner: player, Kind: field.Update, Fields: puts(map[string]string{"a": "1"})})
	require.ErrorIs(t, err, codes.Unreachable, "it would never be landed")

	second := start(t) // a server of the same store
	for _, key := range []string{storeKey, databaseKey} {
		require.NoError(t, second.identity.remember(t.Context(), key, k.identity.text(key)))
	}
	second.with(sql, false)
	require.Equal(t, "7", second.get(coldOne, "n")["n"])

	other.with(sql, true)
	other.settle()
	require.Equal(t, "7", other.get(coldOne, "n")["n"])
	sql.Admit(k.identity.judge, false)
	k.isClosed(mine, other.identity.text(storeKey))
	sql.Admit(other.identity.judge, false)
	other.with(sql, false)
	require.Equal(t, "Ann", other.get(coldOne, "name")["name"], "once is enough")
}

// A database that does not answer is not another one.
func TestADatabaseThatDoesNotAnswerIsNotAnotherOne(t *testing.T) {
	sql := newDatabase()
	k, _ := startLanded(t, sql)
	sql.set(func(d *database) { d.down = true })
	k.reopen()
	k.update(field.Owner{App: "1", Region: "1", Logic: "user", ID: "cold"}, map[string]string{"other": "1"})
	_, err := k.Load(t.Context(), coldOne, []string{"n"})
	require.ErrorContains(t, err, "does not answer")
	sql.set(func(d *database) { d.down = false })
	require.Equal(t, "7", k.get(coldOne, "n")["n"])
}

// An earlier version has not noted its database.
func TestAnOlderDataDirectoryAdoptsTheDatabaseThatHasItsTables(t *testing.T) {
	sql := newDatabase()
	k, log := startLanded(t, sql)
	k.shut()
	for _, key := range []string{databaseKey, storeKey} {
		txn := &kv.Txn{System: true, Then: []kv.Op{{Kind: kv.OpDelete, NS: field.Landing, Key: key}}}
		_, err := kv.Commit(t.Context(), k.engine, txn)
		require.NoError(t, err)
	}
	sql.set(func(d *database) { d.is = Identity{} })
	log.Reset()

	k.with(nil, false)
	k.isClosed("of an earlier version", "--landing")
	k.with(newDatabase(), false)
	k.isClosed("has not got the tables", "1_1", "--landing-moved")
	k.with(sql, false)
	k.settle()
	require.Equal(t, "7", k.get(coldOne, "n")["n"])
	require.Equal(t, 1, strings.Count(log.String(), "belongs to this landing database from now on"), log)
	k.with(newDatabase(), false)
	k.isClosed(sql.is.Database)
	k.with(sql, false)
	k.settle()
	require.Equal(t, 1, strings.Count(log.String(), "belongs to this landing database from now on"), "it adopts once")
	require.True(t, Stays(field.Landing, databaseKey) && Stays(field.Landing, storeKey), "a store that goes back in time still knows it")
	require.False(t, Stays(field.Landing, knownPrefix+"1_1"))
}

// What is in memory is landed in the next database, too: it may be all that there is of it.
func TestADatabaseThatHasMovedGetsWhatIsInMemory(t *testing.T) {
	old, next := newDatabase(), newDatabase()
	k, _ := startLanded(t, old)
	k.with(next, true)
	k.settle()
	require.Empty(t, k.get(coldOne, "n"), "that is what --landing-moved says")
	k.land()
	require.Equal(t, map[string]string{"n": "8"}, next.live(warmOne))
	require.NotEqual(t, old.is.Database, next.is.Database)
	k.with(next, false)
	require.Equal(t, "8", k.get(warmOne, "n")["n"])

	k.with(nil, true) // there is none any more
	require.Empty(t, k.get(coldOne, "n"))
	require.Equal(t, "1", k.incr(coldOne, "n", 1))
}

// What was restored from a backup may know less than the database has.
func TestARestoredStoreLooksForAllOwners(t *testing.T) {
	sql := newDatabase()
	k, _ := startLanded(t, sql)
	later := field.Owner{App: "1", Region: "1", Logic: "user", ID: "later"}
	sql.insert(field.Row{Owner: later, Name: "a", Value: []byte("1")}) // landed after the backup
	k.reopen()
	k.settle()
	require.Empty(t, k.get(later, "a"), "it is known that there is none")
	k.shut()
	for _, old := range []kv.Value{kv.StringValue("of the store before"), kv.BoolValue(true)} {
		txn := kv.PutTxn(field.Landing, knownPrefix+"1_1", old)
		txn.System = true
		_, err := kv.Commit(t.Context(), k.engine, txn)
		require.NoError(t, err)
		k.open()
		require.Equal(t, "1", k.get(later, "a")["a"])
		k.settle()
		require.Equal(t, "1", k.get(later, "a")["a"])
		k.reopen()
		require.True(t, k.cold.knows("1_1"), "it is looked for once")
		k.shut()
	}
}

// unwritable is a store that takes no writes, as one whose disk is full.
type unwritable struct{ kv.Archive }

func (unwritable) Commit(*kv.Txn, func(*kv.Result, error)) error { return codes.Storage }

// A store that takes no writes is read all the same, whatever it could not be told yet.
func TestADatabaseIsReadThatCannotBeRemembered(t *testing.T) {
	sql := newDatabase()
	sql.insert(field.Row{Owner: player, Name: "a", Value: []byte("1")})
	k := startOn(t, nil)
	k.shut()
	k.cfg.Store, k.cfg.Backing = unwritable{k.engine.(kv.Archive)}, sql
	k.open()
	fields, err := k.Load(t.Context(), player, []string{"a"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1"}, texts(fields))
	require.Empty(t, sql.is, "nothing is said that would not be remembered")

	other, _ := startLanded(t, newDatabase())
	k.shut()
	k.cfg.Backing = other.sql
	k.open()
	_, err = k.Load(t.Context(), player, []string{"a"})
	require.ErrorContains(t, err, other.sql.is.Store)
}
