package landing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/dbtest"
	"confcenter/kvstore/memory"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/player/landing/landingtest"
)

// The sessions that databases may begin: each would lose rows, cut or convert them, or leave some
// out.
var sessions = map[string][]string{
	"mysql": {
		"SET autocommit=0", "SET NAMES latin1", "SET NAMES utf8mb3", "SET character_set_results=latin1", "SET sql_mode=''", "SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
		"SET time_zone='+05:00'", "SET sql_select_limit=1", "SET sql_safe_updates=1", "SET default_storage_engine=MEMORY", "USE information_schema", "BEGIN", "SET autocommit=0; SET NAMES latin1; SET sql_select_limit=1",
	},
	"postgres": {"client_encoding = 'LATIN1'", "client_encoding = 'SQL_ASCII'", "TimeZone = 'Asia/Shanghai'", "standard_conforming_strings = off", "synchronous_commit = off"},
}

// begins has all sessions of an ordinary user begin with a statement, until the test ends.
func begins(t *testing.T, d *landingtest.Database, with string) *landingtest.Database {
	t.Helper()
	name := d.Address.Database()
	if d.Address.Kind == "postgres" {
		exec(t, d, "ALTER DATABASE "+name+" SET "+with)
		return landingtest.Open(t, d.Address.URL.String())
	}
	exec(t, d, "CREATE USER IF NOT EXISTS ordinary") // init_connect is not for administrators
	exec(t, d, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON "+name+".* TO ordinary")
	global(t, d, "init_connect", `"`+with+`"`)
	return landingtest.Open(t, "mysql://ordinary@/"+name+"?"+d.Address.URL.RawQuery)
}

func TestWhateverSessionsBeginWithWhatIsWrittenIsThere(t *testing.T) {
	for _, k := range servers {
		kind := strings.ToLower(k.Name)
		for _, with := range sessions[map[string]string{"mariadb": "mysql", "postgresql": "postgres"}[kind]] {
			t.Run(k.Name+"/"+with, func(t *testing.T) {
				direct := k.Open(t)
				d := begins(t, direct, with)
				s := landingtest.NewSource()
				names := []string{"a", "é😀", "back\\slash", "quote'", "中文"}
				for _, name := range names {
					s.Put(someone, name, name+" \x00\xff\\'")
				}
				l := landingtest.StartWith(t, landing.Config{Source: s, Database: d.Database, Prover: landing.Self(), Who: "a"})
				l.Lands(t, s)
				require.Empty(t, s.Reasons())
				s.Agree(t, direct) // over other connections, which are as they should be
				s.Agree(t, d)
				require.Len(t, all(t, d, someone), len(names))
				require.Len(t, landingtest.Owners(t, d, player.OwnerQuery{App: "1", Region: "1", Limit: 10}), 1)
				if with == "synchronous_commit = off" {
					var is string
					require.NoError(t, d.DB.QueryRow("SELECT current_setting('synchronous_commit')").Scan(&is))
					require.Equal(t, "on", is)
				}
				var there int64
				require.NoError(t, d.DB.QueryRow("SELECT "+d.Dialect.Now()).Scan(&there))
				require.WithinDuration(t, time.Now(), time.UnixMicro(there), time.Minute)
			})
		}
	}
}

// A database may be dropped and made again while connections to it are open, which go on there.
func TestADatabaseThatIsMadeAgainUnderOpenConnectionsIsNotTaken(t *testing.T) {
	d := mariaDB.Open(t)
	name := d.Address.Database()
	store := memory.New(memory.Config{})
	s, err := player.Open(player.Config{Store: store, Backing: d.Database})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, store.Close())
	})
	update := func(value string) {
		t.Helper()
		got := make(chan error, 1)
		s.Do(&field.Write{Owner: someone, Kind: field.Update, Fields: []field.Field{{Name: "a", Value: []byte(value)}}}, func(_ *field.Outcome, err error) { got <- err })
		require.NoError(t, <-got)
	}
	l := landingtest.StartWith(t, landing.Config{Source: landing.Local(s), Database: d.Database, Prover: landing.Self(), Who: "a"})
	update("1")
	l.Pass(t, "it is landed", func() bool { return s.Status()[0].Dirty == 0 })
	admin := dbtest.MariaDB(t).DB(t)
	for _, statement := range []string{"DROP DATABASE " + name, "CREATE DATABASE " + name} {
		_, err := admin.Exec(statement)
		require.NoError(t, err)
	}
	_, err = d.All(ctx, someone)
	require.ErrorAs(t, err, new(*player.Unusable))
	update("2")
	l.Pass(t, "it is told", func() bool { return strings.Contains(l.Log.String(), "nothing is landed until this is put right") })
	tables, err := d.Again(t).Tables(ctx)
	require.NoError(t, err)
	require.NotContains(t, tables, "1_1")
	require.EqualValues(t, 1, s.Status()[0].Dirty)
}
