package landingtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing"
)

var identityChecks = []check{
	{"OneStoreLandsInADatabase", oneStoreLandsInADatabase},
	{"ADatabaseThatWasMadeAgainIsNotTaken", aDatabaseThatWasMadeAgainIsNotTaken},
	{"ADatabaseThatIsMadeAgainUnderAConnectionIsNotTaken", aDatabaseThatIsMadeAgainUnderAConnectionIsNotTaken},
	{"TablesThatAreThereAreMissedLater", tablesThatAreThereAreMissedLater},
	{"ATableThatWasEmptiedIsGivenUpOnDemand", aTableThatWasEmptiedIsGivenUpOnDemand},
	{"ManyConnectionsAgreeOnANewName", manyConnectionsAgreeOnANewName},
	{"ManyConnectionsRegisterTablesAtOnce", manyConnectionsRegisterTablesAtOnce},
}

// server is a storage with a lander of its own, as a server has them.
type server struct {
	*player.Storage
	l   *Lander
	log *Log
}

// serve starts a server of a store. Its end is the test's.
func serve(t *testing.T, d *Database, store kvstore.Engine, moved bool) *server {
	t.Helper()
	s := &server{log: &Log{}}
	var err error
	s.Storage, err = player.Open(player.Config{Store: store, Backing: d.Database, Moved: moved, Clock: clocktest.NewFake(time.Unix(1_700_000_000, 0)), Log: zerolog.New(s.log)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.l = Start(t, landing.Local(s.Storage), d, "server")
	return s
}

func newStore(t *testing.T) kvstore.Engine {
	t.Helper()
	store := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func (s *server) update(t *testing.T, name, value string) error {
	t.Helper()
	got := make(chan error, 1)
	s.Do(&field.Write{Owner: Player, Kind: field.Update, Fields: []field.Field{{Name: name, Value: []byte(value)}}}, func(_ *field.Outcome, err error) { got <- err })
	return <-got
}

func (s *server) lands(t *testing.T) {
	t.Helper()
	s.l.Pass(t, "all is landed", func() bool { return s.Status()[0].Dirty == 0 })
}

// isRefused says that a server neither loads nor lands, and says why.
func (s *server) isRefused(t *testing.T, d *Database, why ...string) {
	t.Helper()
	_, err := s.Load(ctx, Player, []string{"a"})
	require.ErrorIs(t, err, codes.Unreachable)
	for _, text := range why {
		require.Contains(t, codes.Message(err), text)
	}
	require.NotContains(t, codes.Message(err), d.Name(), "peers are not told where it is")
	require.Contains(t, s.log.String(), d.Name())
	require.Contains(t, s.log.String(), `"level":"error"`)
}

// said is what the database says of itself.
func said(t *testing.T, d *Database, about string) (name string) {
	t.Helper()
	require.NoError(t, d.DB.QueryRow(d.Dialect.Bind("SELECT name FROM confcenter__identity WHERE what = ?"), about).Scan(&name))
	return name
}

func oneStoreLandsInADatabase(t *testing.T, d *Database) {
	first, second := newStore(t), newStore(t)
	a := serve(t, d, first, false)
	require.NoError(t, a.update(t, "a", "1"))
	a.lands(t)
	b := serve(t, d.Again(t), second, false)
	b.isRefused(t, d, said(t, d.Again(t), "database"), said(t, d.Again(t), "store"))
	require.ErrorIs(t, b.update(t, "a", "2"), codes.Unreachable)
	require.Equal(t, map[string]string{"a": "1 v" + version(t, d.Again(t))}, All(t, d.Again(t), Player))

	c := serve(t, d.Again(t), second, true)
	require.NoError(t, c.update(t, "a", "3"))
	c.lands(t)
	require.True(t, strings.HasPrefix(All(t, d.Again(t), Player)["a"], "3 v"))
	e := serve(t, d.Again(t), first, false) // which it does not belong to any more
	require.NoError(t, e.update(t, "a", "of the one before"), "a is in its memory")
	e.l.Pass(t, "it is told", func() bool { return strings.Contains(e.l.Log.String(), "two would overwrite each other") })
	require.Contains(t, e.l.Log.String(), "nothing is landed until this is put right")
	require.True(t, strings.HasPrefix(All(t, d.Again(t), Player)["a"], "3 v"))
}

// version is that of the player's field a.
func version(t *testing.T, d *Database) string {
	t.Helper()
	_, v, _ := strings.Cut(All(t, d, Player)["a"], " v")
	return v
}

func aDatabaseThatWasMadeAgainIsNotTaken(t *testing.T, d *Database) {
	store := newStore(t)
	a := serve(t, d, store, false)
	require.NoError(t, a.update(t, "a", "1"))
	a.lands(t)
	a.l.Clock.BlockUntil(1) // its round is over
	was := said(t, d.Again(t), "database")
	d.DB.SetMaxIdleConns(0) // as when it was away
	require.Eventually(t, func() bool { return d.DB.Stats().OpenConnections == 0 }, Patience, time.Millisecond)
	Exec(t, d.Again(t), "DROP TABLE confcenter__identity")
	Exec(t, d.Again(t), "DROP TABLE "+d.Dialect.Quote("1_1"))
	require.NoError(t, a.update(t, "a", "2"))
	a.l.Pass(t, "it is told", func() bool { return strings.Contains(a.l.Log.String(), "nothing is landed until this is put right") })
	require.Contains(t, a.l.Log.String(), was)
	tables, err := d.Again(t).Tables(ctx)
	require.NoError(t, err)
	require.Empty(t, tables, "nothing is made there")

	b := serve(t, d.Again(t), store, true)
	b.lands(t)
	require.True(t, strings.HasPrefix(All(t, d.Again(t), Player)["a"], "2 v"))
	require.NotEqual(t, was, said(t, d.Again(t), "database"))
}

// A connection that is in use goes on in the database that was made again: it may be empty, or one
// that another store lands in by now.
func aDatabaseThatIsMadeAgainUnderAConnectionIsNotTaken(t *testing.T, d *Database) {
	for _, taken := range []bool{false, true} {
		again := d.Again(t)
		again.DB.SetMaxOpenConns(1) // which is there all the time
		a := serve(t, again, newStore(t), true)
		require.NoError(t, a.update(t, "a", "1"))
		a.lands(t)
		a.l.Clock.BlockUntil(1) // its round is over
		was := said(t, d, "database")
		require.Equal(t, 1, again.DB.Stats().OpenConnections)
		for _, table := range []string{"confcenter__identity", "1_1"} {
			Exec(t, d, "DROP TABLE "+d.Dialect.Quote(table))
		}
		there := map[string]string{}
		if taken {
			b := serve(t, d.Again(t), newStore(t), false)
			require.NoError(t, b.update(t, "b", "1"))
			b.lands(t)
			there = All(t, d.Again(t), Player)
			require.Len(t, there, 1)
		}
		require.NoError(t, a.update(t, "a", "2"))
		a.l.Pass(t, "it is told", func() bool { return strings.Contains(a.l.Log.String(), "nothing is landed until this is put right") })
		require.Contains(t, a.l.Log.String(), was)
		require.Equal(t, there, All(t, d.Again(t), Player))
		_, err := again.All(ctx, Player)
		require.ErrorContains(t, err, was)
		_, err = again.Purge(ctx, player.Purge{App: "1", Region: "1", Limit: 1})
		require.ErrorContains(t, err, was)
	}
}

func manyConnectionsAgreeOnANewName(t *testing.T, d *Database) {
	store := newStore(t)
	list := []*server{serve(t, d, store, false), serve(t, d.Again(t), store, false), serve(t, d.Again(t), store, false)}
	for _, s := range list {
		_, err := s.Load(ctx, Player, []string{"a"})
		require.NoError(t, err)
	}
	require.NotEmpty(t, said(t, d.Again(t), "database"))
}

func manyConnectionsRegisterTablesAtOnce(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "a", "1", 1))
	for n := range 40 {
		for _, statement := range d.Dialect.Create(fmt.Sprint("2_", n)) {
			Exec(t, d, statement)
		}
	}
	store := newStore(t)
	_, err := serve(t, d.Again(t), store, true).Load(ctx, Player, []string{"a"})
	require.NoError(t, err)
	Exec(t, d, "DELETE FROM confcenter__identity WHERE what LIKE 'table/%'")
	var list []*server
	for range 6 {
		list = append(list, serve(t, d.Again(t), store, true))
	}
	var loads sync.WaitGroup
	for _, s := range list {
		loads.Go(func() {
			_, err := s.Load(ctx, Player, []string{"a"})
			assert.NoError(t, err, s.log)
		})
	}
	loads.Wait()
}

// Anyone who has made the tables of a database: once it has a name they are missed if they go, until
// they are given up.
func tablesThatAreThereAreMissedLater(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "a", "1", 1))
	Exec(t, d, "DROP TABLE confcenter__identity") // as an earlier version leaves it
	isMissedAndGivenUp(t, d, "DROP TABLE ", "is not in the landing database any more", func(b *server, _ error) {
		require.Contains(t, b.l.Log.String(), `"level":"error"`)
		require.NotEmpty(t, b.Status()[0].Refused)
	})
}

// A table of which an earlier version has not told that it has rows, as those say that read it. Its
// owners do not begin again before it is given up.
func aTableThatWasEmptiedIsGivenUpOnDemand(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "a", "1", 1))
	Exec(t, d, "UPDATE confcenter__identity SET name = ''")
	isMissedAndGivenUp(t, d, "DELETE FROM ", "has been emptied, or made again", func(_ *server, read error) {
		require.Error(t, read, "nothing is landed there")
	})
	require.Len(t, All(t, d, Player), 1)
}

// isMissedAndGivenUp has the player's rows go by what is done to their table. The server that begins then
// misses them, says why, and is looked at by told, until another one gives them up.
func isMissedAndGivenUp(t *testing.T, d *Database, by, why string, told func(b *server, read error)) {
	t.Helper()
	store := newStore(t)
	reads := func(s *server) error {
		_, err := s.Load(ctx, Player, []string{"a", "nope"})
		return err
	}
	a := serve(t, d.Again(t), store, false)
	require.NoError(t, reads(a))
	a.l.Clock.BlockUntil(1) // its round is over: what is written later is not its to land
	Exec(t, d, by+d.Dialect.Quote("1_1"))
	b := serve(t, d.Again(t), store, false)
	require.ErrorIs(t, reads(b), codes.Unreachable)
	require.ErrorContains(t, reads(b), why)
	require.Contains(t, b.log.String(), `"level":"error"`)
	require.NoError(t, b.update(t, "mine", "2"))
	b.l.Pass(t, "it is told", func() bool {
		return strings.Contains(b.l.Log.String(), "in the list of errors until this is put right")
	})
	told(b, reads(b))

	c := serve(t, d.Again(t), store, true)
	require.NoError(t, reads(c))
	_, err := c.Retry(ctx, nil)
	require.NoError(t, err)
	c.l.Pass(t, "it is landed", func() bool { return c.Status()[0].Refused == 0 })
}
