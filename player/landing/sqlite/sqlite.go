// Package sqlite has package landing work with SQLite, without cgo: import it for its effect.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"confcenter/player/field"
	"confcenter/player/landing"
)

func init() { landing.Register("sqlite", open) }

// dialect is for SQLite, a file on this machine.
type dialect struct{}

func open(a *landing.Address) (driver.Connector, landing.Dialect, error) {
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	connector, err := sqlite.NewConnector("file:" + (&url.URL{Path: a.Path}).EscapedPath() + "?" + options.Encode())
	return patient{connector}, dialect{}, err
}

// patient waits for others who make the file at the same time: SQLite has them fail at once, as
// if each would otherwise wait for the other.
type patient struct{ driver.Connector }

// Connect implements driver.Connector.
func (p patient) Connect(ctx context.Context) (driver.Conn, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		conn, err := p.Connector.Connect(ctx)
		if said := (*sqlite.Error)(nil); !errors.As(err, &said) || said.Code()&primary != sqlitelib.SQLITE_BUSY {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// primary has what an error is about; the rest of its code tells more about it.
const primary = 0xFF

func (dialect) Learn(context.Context, *landing.Conn) error { return nil }

func (dialect) Quote(name string) string     { return landing.QuoteDouble(name) }
func (dialect) Bind(statement string) string { return statement }
func (dialect) Ordered(column string) string { return landing.QuoteDouble(column) } // its default

func (d dialect) Create(table string) []string {
	return []string{
		"CREATE TABLE IF NOT EXISTS " + d.Quote(table) + " (" +
			"primary_key TEXT NOT NULL PRIMARY KEY, logic_type TEXT NOT NULL, owner_id TEXT NOT NULL, key TEXT NOT NULL, " +
			"value BLOB NOT NULL, up_version INTEGER NOT NULL DEFAULT 0, is_del INTEGER NOT NULL DEFAULT 0, del_time INTEGER NOT NULL DEFAULT 0, " +
			"query_all_key TEXT NOT NULL, create_time INTEGER NOT NULL DEFAULT 0, update_time INTEGER NOT NULL DEFAULT 0)",
		"CREATE INDEX IF NOT EXISTS " + d.Quote("query_all_key "+table) + " ON " + d.Quote(table) + " (query_all_key, is_del)",
	}
}

func (dialect) Columns() string { return "SELECT name FROM pragma_table_info(?)" }

func (dialect) Indexed() string { return "" }

func (dialect) Tables() string {
	return "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c ON c.name = 'query_all_key' WHERE m.type = 'table'"
}

// Unfit asks the indexes, of which each of the two columns has one.
func (dialect) Unfit(ctx context.Context, db *sql.DB, table string) (string, bool, error) {
	return landing.UnfitKeys(ctx, db, `SELECT x.name, 'has the collation ' || x.coll, x.coll = 'BINARY',
			l."unique" AND NOT l.partial AND (SELECT COUNT(*) FROM pragma_index_xinfo(l.name) WHERE key) = 1
		FROM pragma_index_list(?) l JOIN pragma_index_xinfo(l.name) x ON x.key AND x.name IS NOT NULL`, table)
}

func (dialect) Most() (rows, bytes int) { return 2000, 4 << 20 } // it takes 32,766 arguments

// Now is the time at which the statement has got hold of the file.
func (dialect) Now() string {
	return "CAST((JULIANDAY('now') - 2440587.5) * 86400000000 AS INTEGER)"
}

func (d dialect) Upsert(ctx context.Context, db *sql.DB, table string, rows []field.DirtyRow, g landing.Guard) (bool, error) {
	statement := strings.Replace(landing.Insert(d, table), " (", " AS t (", 1) + landing.Values(d, g, len(rows)) + landing.OnConflict(d)
	return landing.Affected(ctx, db, statement, landing.Arguments(rows, g), len(rows))
}

// Fault knows the errors that are about rows; all others are about the file or its locks.
func (dialect) Fault(err error) landing.Fault {
	var said *sqlite.Error
	switch {
	case !errors.As(err, &said):
		return landing.Unreachable
	case strings.Contains(said.Error(), "no such table"):
		return landing.Absent
	case said.Code() == sqlitelib.SQLITE_CONSTRAINT_NOTNULL && strings.Contains(said.Error(), ".primary_key"):
		return landing.Late
	case slices.Contains([]int{sqlitelib.SQLITE_ERROR, sqlitelib.SQLITE_TOOBIG, sqlitelib.SQLITE_CONSTRAINT, sqlitelib.SQLITE_MISMATCH, sqlitelib.SQLITE_RANGE}, said.Code()&primary):
		return landing.Refused
	}
	return landing.Unreachable
}

func (dialect) Fold(table string) string  { return landing.FoldCase(table) }
func (dialect) Unfold(name string) string { return landing.UnfoldCase(name) }
