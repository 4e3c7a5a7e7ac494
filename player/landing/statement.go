package landing

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"confcenter/player/field"
)

// A table's columns, in the order of all statements.
var columns = []string{"primary_key", "logic_type", "owner_id", "key", "value", "up_version", "is_del", "del_time", "query_all_key", "create_time", "update_time"}

// Replaced are the columns that a newer version changes, up_version being the last.
var Replaced = []string{"value", "is_del", "del_time", "update_time", "up_version"}

// quoteAll lists identifiers.
func quoteAll(d Dialect, names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = d.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// QuoteDouble writes an identifier as standard SQL does.
func QuoteDouble(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Insert begins an INSERT of all columns of a table.
func Insert(d Dialect, table string) string {
	return "INSERT INTO " + d.Quote(table) + " (" + quoteAll(d, columns) + ") "
}

// Guard is what must be so when a statement with rows reaches the database: a connection may go on
// in one that was made again meanwhile, and a process after a stop of any length.
type Guard struct {
	Until    int64  // it is before that time in the database's clock, in µs since 1970
	Database string // the name that the database has; "": any, or none
}

// Key is a primary key as long as it is so, and else NULL: no table takes that, whatever else is in
// the statement. Its arguments are those of the Guard and those of the key.
func (g Guard) Key(d Dialect, key string) string {
	is := d.Now() + " < ?"
	if g.Database != "" {
		is += " AND EXISTS (SELECT 1 FROM " + identityTable + " WHERE what = '" + aboutDatabase + "' AND name = ?)"
	}
	return "CASE WHEN " + is + " THEN " + key + " END"
}

// Arguments are those of Key, before those of the key.
func (g Guard) Arguments() []any {
	if g.Database == "" {
		return []any{g.Until}
	}
	return []any{g.Until, g.Database}
}

// Values is VALUES with n rows, which goes after Insert. Arguments are its arguments.
func Values(d Dialect, g Guard, n int) string {
	rest := strings.Repeat(",?", len(columns)-1) + ")"
	return "VALUES (" + g.Key(d, "?") + rest + strings.Repeat(",(?"+rest, n-1)
}

// Arguments are those of Values for rows.
func Arguments(rows []field.DirtyRow, g Guard) []any {
	args := make([]any, 0, 2+len(rows)*len(columns))
	args = append(args, g.Arguments()...)
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

// flag is how a column has a yes or no.
func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// OnConflict is how PostgreSQL and SQLite keep the newer row. The table must be called t in the
// statement.
func OnConflict(d Dialect) string {
	sets := make([]string, len(Replaced))
	for i, column := range Replaced {
		sets[i] = d.Quote(column) + " = excluded." + d.Quote(column)
	}
	return " ON CONFLICT (primary_key) DO UPDATE SET " + strings.Join(sets, ", ") + " WHERE COALESCE(t.up_version, 0) <= excluded.up_version"
}

// Affected executes an upsert of so many rows that affects exactly those it does not leave
// alone; kept says that there are others.
func Affected(ctx context.Context, db *sql.DB, statement string, args []any, rows int) (kept bool, err error) {
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n < int64(rows), err
}

// UnfitKeys says why the columns of keys cannot be those of fields. The query, whose argument is
// the table, tells of columns the name, of what kind it is, whether different texts are different
// in it, and whether it identifies a row.
func UnfitKeys(ctx context.Context, db *sql.DB, query, table string) (why string, mixes bool, err error) {
	rows, err := db.QueryContext(ctx, query, table)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	why = "its column primary_key is not the primary key"
	for rows.Next() {
		var name, kind string
		var exact, identifies bool
		switch err := rows.Scan(&name, &kind, &exact, &identifies); {
		case err != nil:
			return "", false, err
		case !exact && (name == "primary_key" || name == "query_all_key"):
			return "its column " + name + " " + kind + ", under which different keys are equal", true, nil
		case identifies && name == "primary_key":
			why = ""
		}
	}
	return why, false, rows.Err()
}

// FoldCase marks capital letters: for databases whose names of tables have no case. A name of
// storage's has no circumflex. No folded name begins as those that SQLite keeps for itself.
func FoldCase(table string) string {
	var b strings.Builder
	if strings.HasPrefix(table, "sqlite_") {
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

// UnfoldCase is the inverse of FoldCase.
func UnfoldCase(name string) string {
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
