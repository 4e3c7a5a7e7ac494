// Package postgres has package landing work with PostgreSQL: import it for its effect.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"confcenter/player/field"
	"confcenter/player/landing"
)

func init() { landing.Register("postgres", open) }

// dialect is for PostgreSQL.
type dialect struct{}

func open(a *landing.Address) (driver.Connector, landing.Dialect, error) {
	cfg, err := pgx.ParseConfig(a.URL.String())
	if err != nil {
		return nil, nil, landing.BadDSN(a.Hide(err.Error()))
	}
	a.Password = cmp.Or(a.Password, cfg.Password) // of the environment or a file
	return stdlib.GetConnector(*cfg), dialect{}, nil
}

// session is what sessions are whatever the database and the role begin them with.
var session = []landing.Setting{
	{Name: "client_encoding", Value: "UTF8"}, {Name: "TimeZone", Value: "UTC"}, {Name: "standard_conforming_strings", Value: "on"},
}

func (dialect) Learn(ctx context.Context, conn *landing.Conn) error {
	set, get := make([]string, len(session)), make([]string, len(session))
	for i, s := range session {
		set[i], get[i] = "set_config('"+s.Name+"', '"+s.Value+"', false)", "current_setting('"+s.Name+"')"
	}
	// What counts as landed has to be on the database's disk.
	const durable = "set_config('synchronous_commit', COALESCE(NULLIF(current_setting('synchronous_commit'), 'off'), 'on'), false)"
	if err := conn.Exec(ctx, "SELECT "+strings.Join(append(set, durable), ", ")); err != nil {
		return err
	}
	return conn.Has(ctx, "SELECT "+strings.Join(get, ", "), session)
}

func (dialect) Quote(name string) string { return landing.QuoteDouble(name) }

func (dialect) Bind(statement string) string {
	var b strings.Builder
	n := 0
	for _, c := range []byte(statement) {
		if c != '?' {
			b.WriteByte(c)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

func (dialect) Ordered(column string) string { return landing.QuoteDouble(column) + ` COLLATE "C"` }

func (d dialect) Create(table string) []string {
	text := func(n int) string { return fmt.Sprintf(`VARCHAR(%d) COLLATE "C" NOT NULL`, n) }
	hash := fnv.New64a() // an index has a name of its own, of at most 63 bytes
	hash.Write([]byte(table))
	return []string{
		"CREATE TABLE IF NOT EXISTS " + d.Quote(table) + " (" +
			"primary_key " + text(255) + " PRIMARY KEY, logic_type " + text(255) + ", owner_id " + text(255) + ", key " + text(100) + ", " +
			"value BYTEA NOT NULL, up_version BIGINT NOT NULL DEFAULT 0, is_del INTEGER NOT NULL DEFAULT 0, del_time BIGINT NOT NULL DEFAULT 0, " +
			"query_all_key " + text(255) + ", create_time BIGINT NOT NULL DEFAULT 0, update_time BIGINT NOT NULL DEFAULT 0)",
		fmt.Sprintf("CREATE INDEX IF NOT EXISTS query_all_key_%x ON %s (query_all_key, is_del)", hash.Sum64(), d.Quote(table)),
	}
}

func (dialect) Columns() string {
	return "SELECT column_name FROM information_schema.columns WHERE table_schema = CURRENT_SCHEMA() AND table_name = ?"
}

func (dialect) Indexed() string { return "" }

func (dialect) Tables() string {
	return "SELECT table_name FROM information_schema.columns WHERE table_schema = CURRENT_SCHEMA() AND column_name = 'query_all_key'"
}

// Unfit asks for the collation in a way that servers understand on which all are deterministic.
func (d dialect) Unfit(ctx context.Context, db *sql.DB, table string) (string, bool, error) {
	return landing.UnfitKeys(ctx, db, `SELECT a.attname,
			CASE WHEN a.atttypid IN ('text'::regtype, 'varchar'::regtype) THEN 'has the collation ' || COALESCE(c.collname, '') ELSE 'is of type ' || format_type(a.atttypid, NULL) END,
			a.atttypid IN ('text'::regtype, 'varchar'::regtype) AND COALESCE(to_jsonb(c)->>'collisdeterministic', 'true') = 'true',
			a.attnotnull AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indpred IS NULL AND i.indkey::text = a.attnum::text)
		FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation WHERE a.attrelid = to_regclass($1)`, d.Quote(table))
}

func (dialect) Most() (rows, bytes int) { return 4000, 4 << 20 }

func (dialect) Now() string {
	return "CAST(EXTRACT(EPOCH FROM STATEMENT_TIMESTAMP()) * 1000000 AS BIGINT)"
}

// Upsert hands over the columns as arrays, so that the statement is the same for any number of
// rows.
func (d dialect) Upsert(ctx context.Context, db *sql.DB, table string, rows []field.DirtyRow, g landing.Guard) (bool, error) {
	n := len(rows)
	texts := [5][]string{} // primary_key, logic_type, owner_id, key, query_all_key
	for i := range texts {
		texts[i] = make([]string, n)
	}
	values, deleted := make([][]byte, n), make([]int32, n)
	numbers := [4][]int64{} // up_version, del_time, create_time, update_time
	for i := range numbers {
		numbers[i] = make([]int64, n)
	}
	for i := range rows {
		r := &rows[i]
		texts[0][i], texts[1][i], texts[2][i], texts[3][i], texts[4][i] = r.Key(), r.Owner.Logic, r.Owner.ID, r.Name, r.Owner.Key()
		if values[i] = r.Value; r.Value == nil { // which would be NULL
			values[i] = []byte{}
		}
		if r.Removed {
			deleted[i] = 1
		}
		numbers[0][i], numbers[1][i], numbers[2][i], numbers[3][i] = r.Version, r.RemovedAt, r.Created, r.Updated
	}
	statement := strings.Replace(landing.Insert(d, table), " (", " AS t (", 1) +
		d.Bind("SELECT "+g.Key(d, "c1")+", c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 FROM UNNEST("+
			"?::text[], ?::text[], ?::text[], ?::text[], ?::bytea[], ?::bigint[], ?::integer[], ?::bigint[], ?::text[], ?::bigint[], ?::bigint[]"+
			") AS r (c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11)") + landing.OnConflict(d)
	args := append(g.Arguments(), texts[0], texts[1], texts[2], texts[3], values, numbers[0], deleted, numbers[1], texts[4], numbers[2], numbers[3])
	return landing.Affected(ctx, db, statement, args, n)
}

// Fault goes by the class of the error: connection, authorization, database, transaction
// (deadlocks), resources, limits of the operator, system; and by rights and read-only servers.
func (dialect) Fault(err error) landing.Fault {
	var said *pgconn.PgError
	switch {
	case !errors.As(err, &said):
		return landing.Broken
	case len(said.Code) < 2:
		return landing.Unreachable
	case said.Code == "42P01": // no such table
		return landing.Absent
	case said.Code == "23502" && said.ColumnName == "primary_key": // not null
		return landing.Late
	case said.Code == "42501", said.Code == "25006", said.Code == "3F000", // no right, read only, no schema
		slices.Contains([]string{"08", "28", "3D", "40", "53", "55", "57", "58", "XX"}, said.Code[:2]):
		return landing.Unreachable
	}
	return landing.Refused
}

func (dialect) Fold(table string) string  { return table }
func (dialect) Unfold(name string) string { return name }
