package landing

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"confcenter/storage"
)

// sqliteDialect is for SQLite, a file on this machine.
type sqliteDialect struct{}

func openSQLite(a *address) (*sql.DB, dialect, error) {
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: a.path}).EscapedPath()+"?"+options.Encode())
	return db, sqliteDialect{}, err
}

func (sqliteDialect) learn(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) }

func (sqliteDialect) quote(name string) string     { return quoteDouble(name) }
func (sqliteDialect) bind(statement string) string { return statement }
func (sqliteDialect) ordered(column string) string { return quoteDouble(column) } // its default

func (d sqliteDialect) create(table string) []string {
	return []string{
		"CREATE TABLE IF NOT EXISTS " + d.quote(table) + " (" +
			"primary_key TEXT NOT NULL PRIMARY KEY, logic_type TEXT NOT NULL, owner_id TEXT NOT NULL, key TEXT NOT NULL, " +
			"value BLOB NOT NULL, up_version INTEGER NOT NULL DEFAULT 0, is_del INTEGER NOT NULL DEFAULT 0, del_time INTEGER NOT NULL DEFAULT 0, " +
			"query_all_key TEXT NOT NULL, create_time INTEGER NOT NULL DEFAULT 0, update_time INTEGER NOT NULL DEFAULT 0)",
		"CREATE INDEX IF NOT EXISTS " + d.quote("query_all_key "+table) + " ON " + d.quote(table) + " (query_all_key, is_del)",
	}
}

func (sqliteDialect) columns() string { return "SELECT name FROM pragma_table_info(?)" }

func (sqliteDialect) tables() string {
	return "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c ON c.name = 'query_all_key' WHERE m.type = 'table'"
}

// unfit asks the indexes, of which each of the two columns has one.
func (sqliteDialect) unfit(ctx context.Context, db *sql.DB, table string) (string, error) {
	return unfitKeys(ctx, db, `SELECT x.name, 'has the collation ' || x.coll, x.coll = 'BINARY',
			l."unique" AND NOT l.partial AND (SELECT COUNT(*) FROM pragma_index_xinfo(l.name) WHERE key) = 1
		FROM pragma_index_list(?) l JOIN pragma_index_xinfo(l.name) x ON x.key AND x.name IS NOT NULL`, table)
}

func (sqliteDialect) most() (rows, bytes int) { return 2000, 4 << 20 } // it takes 32,766 arguments

// now is the time at which the statement has got hold of the file.
func (sqliteDialect) now() string {
	return "CAST((JULIANDAY('now') - 2440587.5) * 86400000000 AS INTEGER)"
}

func (d sqliteDialect) upsert(ctx context.Context, db *sql.DB, table string, rows []storage.DirtyRow, until int64) (bool, error) {
	statement := strings.Replace(insert(d, table), " (", " AS t (", 1) + manyRows(d, len(rows)) + onConflict(d)
	return affected(ctx, db, statement, arguments(rows, until), len(rows))
}

// fault knows the errors that are about rows; all others are about the file or its locks.
func (sqliteDialect) fault(err error) fault {
	var said *sqlite.Error
	const primary = 0xFF // the rest tells more about it
	switch {
	case !errors.As(err, &said):
		return unreachable
	case strings.Contains(said.Error(), "no such table"):
		return absent
	case said.Code() == sqlitelib.SQLITE_CONSTRAINT_NOTNULL && strings.Contains(said.Error(), ".primary_key"):
		return late
	case slices.Contains([]int{sqlitelib.SQLITE_ERROR, sqlitelib.SQLITE_TOOBIG, sqlitelib.SQLITE_CONSTRAINT, sqlitelib.SQLITE_MISMATCH, sqlitelib.SQLITE_RANGE}, said.Code()&primary):
		return refused
	}
	return unreachable
}

func (sqliteDialect) fold(table string) string  { return foldCase(table) }
func (sqliteDialect) unfold(name string) string { return unfoldCase(name) }
