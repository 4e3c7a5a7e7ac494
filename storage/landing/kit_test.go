package landing

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/storage"
	"confcenter/storage/landing/dbtest"
)

// databases are those that every test is for: how to have an empty one of each.
var databases = map[string]func(testing.TB) string{
	"MariaDB":    func(t testing.TB) string { return dbtest.MariaDB(t).Database(t) },
	"PostgreSQL": func(t testing.TB) string { return dbtest.PostgreSQL(t).Database(t) },
	"SQLite":     func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "a file?#%.db") },
}

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, d *Database)) {
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) { test(t, open(t, dsn(t))) })
	}
}

func dbtestMariaDB(t testing.TB) *sql.DB { return dbtest.MariaDB(t).DB(t) }

// ownersOf lists owners that the database tells.
func ownersOf(t testing.TB, d *Database, q storage.OwnerQuery) (list []string) {
	require.NoError(t, d.Owners(ctx, q, func(key []byte) { list = append(list, string(key)) }))
	return list
}

func open(t testing.TB, dsn string) *Database {
	t.Helper()
	d, err := OpenDatabase(dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

var (
	ctx    = context.Background()
	player = storage.Owner{App: "1", Region: "1", Logic: "user", ID: "100"}
)

func row(o storage.Owner, name, value string, version int64) storage.DirtyRow {
	return storage.DirtyRow{Row: storage.Row{Owner: o, Name: name, Value: []byte(value), Version: version, Created: 1000, Updated: 1000 + version}}
}

// write lands rows, which must succeed.
func write(t testing.TB, d *Database, rows ...storage.DirtyRow) Written {
	t.Helper()
	w, err := d.Write(ctx, rows)
	require.NoError(t, err)
	require.Empty(t, w.Failed)
	require.Equal(t, len(rows), w.Rows)
	return w
}

// all reads an owner's rows as texts.
func all(t testing.TB, d *Database, o storage.Owner) map[string]string {
	t.Helper()
	rows, err := d.All(ctx, o)
	require.NoError(t, err)
	found := map[string]string{}
	for _, r := range rows {
		require.Equal(t, o, r.Owner)
		found[r.Name] = fmt.Sprintf("%s v%d", r.Value, r.Version)
		if r.Removed {
			found[r.Name] += fmt.Sprintf(" removed %d", r.RemovedAt)
		}
	}
	return found
}

// exec has the database execute a statement.
func exec(t testing.TB, d *Database, statement string, args ...any) {
	t.Helper()
	_, err := d.db.Exec(d.dialect.bind(statement), args...)
	require.NoError(t, err, statement)
}
