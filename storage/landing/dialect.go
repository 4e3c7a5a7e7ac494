package landing

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"confcenter/storage"
)

// dialect is what differs between the databases.
type dialect interface {
	// learn asks the database for what its statements depend on. It is called before all
	// others but refused, at least once.
	learn(ctx context.Context, db *sql.DB) error
	// quote writes an identifier.
	quote(name string) string
	// bind writes a statement's question marks as the database wants them.
	bind(statement string) string
	// ordered has a column compared and sorted by its bytes.
	ordered(column string) string
	// create has the statements that make a table, if it is not there.
	create(table string) []string
	// columns is the query for the names of the columns of a table; its argument is the
	// name.
	columns() string
	// unfit says why an existing table cannot hold fields; "" if it can.
	unfit(ctx context.Context, db *sql.DB, table string) (string, error)
	// tables is the query for the tables that have a column query_all_key.
	tables() string
	// now is the time in the database, in µs since 1970, as an expression. It goes on
	// steadily, whatever the time zone.
	now() string
	// upsert writes rows, but replaces none by an older version; kept says that it may have
	// left some alone for that. If it reaches the database after that time (in µs since 1970),
	// it changes nothing, and the error means late.
	upsert(ctx context.Context, db *sql.DB, table string, rows []storage.DirtyRow, until int64) (kept bool, err error)
	// most is how many rows, and bytes of values, a statement may have.
	most() (rows, bytes int)
	// fault says what an error of a statement means.
	fault(err error) fault
	// fold writes a name so that the database tells it from others, as far as it does not
	// by itself; unfold is its inverse.
	fold(table string) string
	unfold(name string) string
}

// fault is what an error means.
type fault int

const (
	unreachable fault = iota // the database cannot work now: the same will succeed later
	refused                  // the database does not take these rows, or this statement
	absent                   // there is no such table
	late                     // the statement came after its time
	broken                   // the connection broke, and the database has said nothing
)

// A table's columns, in the order of all statements.
var columns = []string{"primary_key", "logic_type", "owner_id", "key", "value", "up_version", "is_del", "del_time", "query_all_key", "create_time", "update_time"}

// replaced are the columns that a newer version changes, up_version being the last.
var replaced = []string{"value", "is_del", "del_time", "update_time", "up_version"}

// quoteAll lists identifiers.
func quoteAll(d dialect, names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = d.quote(name)
	}
	return strings.Join(quoted, ", ")
}

// insert begins an INSERT of all columns.
func insert(d dialect, table string) string {
	return "INSERT INTO " + d.quote(table) + " (" + quoteAll(d, columns) + ") "
}

// inTime is a primary key as long as it is not too late, and then NULL: no table takes that,
// whatever else is in the statement. Its arguments are the time and the key.
func inTime(d dialect, key string) string {
	return "CASE WHEN " + d.now() + " < ? THEN " + key + " END"
}

// manyRows is VALUES with so many rows, and arguments are theirs.
func manyRows(d dialect, n int) string {
	rest := strings.Repeat(",?", len(columns)-1) + ")"
	return "VALUES (" + inTime(d, "?") + rest + strings.Repeat(",(?"+rest, n-1)
}

func arguments(rows []storage.DirtyRow, until int64) []any {
	args := make([]any, 0, 1+len(rows)*len(columns))
	args = append(args, until)
	for i := range rows {
		r := &rows[i]
		args = append(args, r.Key(), r.Owner.Logic, r.Owner.ID, r.Name, notNil(r.Value), r.Version, flag(r.Removed), r.RemovedAt, r.Owner.Key(), r.Created, r.Updated)
	}
	return args
}

// notNil keeps an empty value from being NULL.
func notNil(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// onConflict is how PostgreSQL and SQLite keep the newer row.
func onConflict(d dialect) string {
	sets := make([]string, len(replaced))
	for i, column := range replaced {
		sets[i] = d.quote(column) + " = excluded." + d.quote(column)
	}
	return " ON CONFLICT (primary_key) DO UPDATE SET " + strings.Join(sets, ", ") + " WHERE COALESCE(t.up_version, 0) <= excluded.up_version"
}

// affected executes an upsert that affects exactly the rows it does not leave alone.
func affected(ctx context.Context, db *sql.DB, statement string, args []any, rows int) (kept bool, err error) {
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n < int64(rows), err
}

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

// unfitKeys says why the columns of keys cannot be those of fields. The query tells of columns
// the name, of what kind it is, whether different texts are different in it, and whether it
// identifies a row.
func unfitKeys(ctx context.Context, db *sql.DB, query, table string) (why string, err error) {
	rows, err := db.QueryContext(ctx, query, table)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	why = "its column primary_key is not the primary key"
	for rows.Next() {
		var name, kind string
		var exact, identifies bool
		switch err := rows.Scan(&name, &kind, &exact, &identifies); {
		case err != nil:
			return "", err
		case !exact && (name == "primary_key" || name == "query_all_key"):
			return "its column " + name + " " + kind + ", under which different keys are equal", nil
		case identifies && name == "primary_key":
			why = ""
		}
	}
	return why, rows.Err()
}

// foldCase marks capital letters: for databases whose names of tables have no case. A name of
// storage's has no circumflex.
func foldCase(table string) string {
	var b strings.Builder
	if strings.HasPrefix(table, "sqlite_") { // which SQLite keeps for itself
		b.WriteString("^^")
	}
	for _, c := range []byte(table) {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('^')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

func unfoldCase(name string) string {
	var b strings.Builder
	name = strings.TrimPrefix(name, "^^")
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '^' && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z' {
			i++
			c = name[i] - ('a' - 'A')
		}
		b.WriteByte(c)
	}
	return b.String()
}
