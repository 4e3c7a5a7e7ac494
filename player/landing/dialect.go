package landing

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"confcenter/player/field"
)

// Dialect is what differs between the databases. Its methods may be called from any goroutine.
// The names of tables that they take are folded and not yet quoted.
type Dialect interface {
	// Learn makes the session of a new connection what statements depend on, whatever the
	// database and its user begin sessions with, and asks for what they depend on besides. It
	// is called before all others but Fault and Bind, and by several at the same time.
	Learn(ctx context.Context, conn *Conn) error
	// Quote writes an identifier.
	Quote(name string) string
	// Bind writes a statement's question marks as the database wants them.
	Bind(statement string) string
	// Ordered has a column compared and sorted by its bytes.
	Ordered(column string) string
	// Create has the statements that make a table, if it is not there.
	Create(table string) []string
	// Columns is the query for the names of the columns of a table; its argument is the
	// name.
	Columns() string
	// Unfit says why an existing table cannot hold fields, "" if it can; and whether it mixes
	// them up, since keys that are different are equal there.
	Unfit(ctx context.Context, db *sql.DB, table string) (why string, mixes bool, err error)
	// Indexed is the query for the columns by which a table's rows are found without reading
	// all of it; its argument is the name. It is "" if Create makes the index of a table that
	// is there as well.
	Indexed() string
	// Tables is the query for the tables that have a column query_all_key.
	Tables() string
	// Now is the time in the database, in µs since 1970, as an expression. It goes on
	// steadily, whatever the time zone.
	Now() string
	// Upsert writes rows, but replaces none by an older version; kept says that it may have
	// left some alone for that. If what the Guard says is not so, it changes nothing, and the error
	// means Late, or Absent if the database has no name.
	Upsert(ctx context.Context, db *sql.DB, table string, rows []field.DirtyRow, g Guard) (kept bool, err error)
	// Most is how many rows, and bytes of values, a statement may have.
	Most() (rows, bytes int)
	// Fault says what an error of a statement means.
	Fault(err error) Fault
	// Fold writes a name so that the database tells it from others, as far as it does not
	// by itself; Unfold is its inverse.
	Fold(table string) string
	Unfold(name string) string
}

// Opener prepares to work with the database of an address. It refuses with BadDSN what it cannot
// use, and does not connect.
type Opener func(*Address) (driver.Connector, Dialect, error)

var dialects = map[string]Opener{}

// Register makes a kind of databases known, as Address names it. It is for init functions: a
// program can use those kinds whose packages it imports.
func Register(kind string, open Opener) {
	if dialects[kind] != nil {
		panic("landing: the dialect of " + kind + " is registered twice")
	}
	dialects[kind] = open
}

// Fault is what an error means.
type Fault int

// What errors mean.
const (
	Unreachable Fault = iota // the database cannot work now: the same will succeed later
	Refused                  // the database does not take these rows, or this statement
	Absent                   // there is no such table
	Late                     // the statement came after its time, or to another database
	Broken                   // the connection broke, and the database has said nothing
)

// column reads a query with one column.
func column(ctx context.Context, db *sql.DB, query string, args ...any) (list []string, err error) {
	err = eachOf(ctx, db, func(text []byte) { list = append(list, string(text)) }, query, args...)
	return list, err
}

// eachOf calls fn for each row of a query with one column. The text is not fn's to keep.
func eachOf(ctx context.Context, db *sql.DB, fn func(text []byte), query string, args ...any) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var text sql.RawBytes
	into := []any{&text}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		fn(text)
	}
	return rows.Err()
}
