package landing_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/dbtest"
	"confcenter/player/landing/landingtest"
	_ "confcenter/player/landing/mysql" // the databases of these tests, with SQLite of landingtest
	_ "confcenter/player/landing/postgres"
)

// What landing does on real MariaDB and PostgreSQL: all that player/landing tests on SQLite, and
// what is about these only.

var ctx = context.Background()

const patience = landingtest.Patience

var (
	someone = landingtest.Player
	row     = landingtest.Row
	write   = landingtest.Write
	all     = landingtest.All
	exec    = landingtest.Exec
)

// The kinds of databases that are programs of their own.
var (
	mariaDB = landingtest.Kind{
		Name: "MariaDB",
		New:  func(t testing.TB) string { return dbtest.MariaDB(t).Database(t) },
		Away: func(t testing.TB, _ *landingtest.Database) func() { return kill(t, dbtest.MariaDB(t)) },
		ReadOnly: func(t testing.TB, d *landingtest.Database) (reader *landingtest.Database, again func() *landingtest.Database) {
			name := d.Address.Database()
			exec(t, d, "CREATE USER IF NOT EXISTS ordinary")
			exec(t, d, "GRANT ALL ON "+name+".* TO ordinary")
			global(t, d, "read_only", "1")
			reader = landingtest.Open(t, "mysql://ordinary@/"+name+"?"+d.Address.URL.RawQuery)
			return reader, func() *landingtest.Database {
				exec(t, d, "SET GLOBAL read_only = 0")
				return reader
			}
		},
	}
	postgreSQL = landingtest.Kind{
		Name: "PostgreSQL",
		New:  func(t testing.TB) string { return dbtest.PostgreSQL(t).Database(t) },
		Away: func(t testing.TB, _ *landingtest.Database) func() { return kill(t, dbtest.PostgreSQL(t)) },
		ReadOnly: func(t testing.TB, d *landingtest.Database) (reader *landingtest.Database, again func() *landingtest.Database) {
			set := "ALTER DATABASE " + d.Address.Database() + " SET default_transaction_read_only = "
			exec(t, d, set+"on")
			dsn := d.Address.URL.String()
			return landingtest.Open(t, dsn), func() *landingtest.Database {
				exec(t, d, "SET default_transaction_read_only = off; "+set+"off")
				return landingtest.Open(t, dsn)
			}
		},
	}
	servers = []landingtest.Kind{mariaDB, postgreSQL}
)

func kill(t testing.TB, s *dbtest.Server) (back func()) {
	s.Kill(t)
	return func() { s.Start(t) }
}

// global sets a variable of MariaDB's until the test ends. It counts for new connections.
func global(t testing.TB, d *landingtest.Database, name, value string) {
	t.Helper()
	set := func(value string) { exec(t, d, "SET GLOBAL "+name+" = "+value) }
	var old string
	require.NoError(t, d.DB.QueryRow("SELECT @@GLOBAL."+name).Scan(&old))
	if strings.Contains(old, ",") || old == "" {
		old = "'" + old + "'"
	}
	t.Cleanup(func() { set(old) })
	set(value)
}

func TestOnServers(t *testing.T) { landingtest.Run(t, servers...) }

func BenchmarkRows(b *testing.B) { landingtest.BenchmarkRows(b, servers...) }
