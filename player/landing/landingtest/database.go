package landingtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing"
	_ "confcenter/player/landing/sqlite" // for SQLite
)

// Patience is how long a test waits for what must come.
const Patience = time.Minute

// Player is the owner of whom most tests are about.
var Player = field.Owner{App: "1", Region: "1", Logic: "user", ID: "100"}

var ctx = context.Background()

// SQLite is the kind that needs nothing but a file.
var SQLite = Kind{
	Name: "SQLite",
	New:  func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "a file?#%.db") },
	Away: func(t testing.TB, d *Database) (back func()) {
		d.DB.SetMaxIdleConns(0) // which would keep the file
		file := d.Address.Path
		require.NoError(t, os.Rename(file, file+" is away"))
		require.NoError(t, os.Mkdir(file, 0o755)) // else a new file is made
		return func() {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Rename(file+" is away", file))
		}
	},
	ReadOnly: func(t testing.TB, d *Database) (reader *Database, again func() *Database) {
		d.DB.SetMaxOpenConns(1)
		Exec(t, d, "PRAGMA query_only = 1")
		return d, func() *Database {
			Exec(t, d, "PRAGMA query_only = 0")
			return d
		}
	},
}

// Database is one whose parts can be seen.
type Database struct {
	*landing.Database
	landing.Parts
	Kind Kind // if it was opened by one
}

// Open opens a database until the end of the test.
func Open(t testing.TB, dsn string) *Database {
	t.Helper()
	p, err := landing.PartsOf(dsn)
	require.NoError(t, err)
	d := &Database{Database: landing.NewDatabase(p), Parts: p}
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// Again opens the same database once more, over connections of its own.
func (d *Database) Again(t testing.TB) *Database {
	t.Helper()
	dsn := "sqlite:" + d.Address.Path
	if d.Address.URL != nil {
		dsn = d.Address.URL.String()
	}
	other := Open(t, dsn)
	other.Kind = d.Kind
	return other
}

// With is the same database with other parts, which knows nothing yet of its tables.
func (d *Database) With(change func(p *landing.Parts)) *Database {
	other := &Database{Parts: d.Parts, Kind: d.Kind}
	change(&other.Parts)
	other.Database = landing.NewDatabase(other.Parts)
	return other
}

// Row is a version of a field that is to be landed.
func Row(o field.Owner, name, value string, version int64) field.DirtyRow {
	return field.DirtyRow{Row: field.Row{Owner: o, Name: name, Value: []byte(value), Version: version, Created: 1000, Updated: 1000 + version}}
}

// Write lands rows, which must succeed.
func Write(t testing.TB, d *Database, rows ...field.DirtyRow) landing.Written {
	t.Helper()
	w, err := d.Write(ctx, rows)
	require.NoError(t, err)
	require.Empty(t, w.Failed)
	require.Equal(t, len(rows), w.Rows)
	return w
}

// All reads an owner's rows as texts.
func All(t testing.TB, d *Database, o field.Owner) map[string]string {
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

// Owners lists owners that the database tells.
func Owners(t testing.TB, d *Database, q player.OwnerQuery) (list []string) {
	t.Helper()
	require.NoError(t, d.Owners(ctx, q, func(key []byte) { list = append(list, string(key)) }))
	return list
}

// Exec has the database execute a statement. Its arguments are question marks in it, whatever
// the database.
func Exec(t testing.TB, d *Database, statement string, args ...any) {
	t.Helper()
	_, err := d.DB.Exec(d.Dialect.Bind(statement), args...)
	require.NoError(t, err, statement)
}
