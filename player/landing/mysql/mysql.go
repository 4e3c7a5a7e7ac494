// Package mysql has package landing work with MySQL and MariaDB: import it for its effect.
package mysql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"confcenter/player/field"
	"confcenter/player/landing"
)

func init() { landing.Register("mysql", open) }

// dialect is for MySQL and MariaDB.
type dialect struct {
	database string                 // set at open
	about    atomic.Pointer[server] // nil until Learn
}

// server is what one has to know of a server.
type server struct {
	collation string
	packet    int  // its max_allowed_packet
	foldsCase bool // names of tables have no case, as on Windows
}

func open(a *landing.Address) (driver.Connector, landing.Dialect, error) {
	given, err := a.Parameters("socket", "tls", "timeout")
	if err != nil {
		return nil, nil, err
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", a.HostPort("3306"), a.Database()
	cfg.User, cfg.Passwd = a.URL.User.Username(), a.Password
	if socket := given["socket"]; socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	}
	cfg.Timeout = 10 * time.Second
	if text := given["timeout"]; text != "" {
		if cfg.Timeout, err = time.ParseDuration(text); err != nil || cfg.Timeout <= 0 {
			return nil, nil, landing.BadDSN("timeout must be a time like 10s")
		}
	}
	if cfg.TLSConfig = given["tls"]; cfg.TLSConfig != "" && !slices.Contains([]string{"true", "false", "skip-verify", "preferred"}, cfg.TLSConfig) {
		return nil, nil, landing.BadDSN("tls must be true, false, skip-verify or preferred")
	}
	if cfg.TLSConfig == "true" {
		cfg.TLS = &tls.Config{ServerName: a.URL.Hostname()}
	}
	cfg.Collation = "utf8mb4_bin"
	cfg.InterpolateParams = true // one round trip for a statement
	cfg.MaxAllowedPacket = 0     // the server's
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, nil, landing.BadDSN(a.Hide(err.Error()))
	}
	return connector, &dialect{database: cfg.DBName}, nil
}

// session is what sessions are whatever the server's defaults and its init_connect are, which
// comes after all that the driver sets: what was written is there, as it was written, nothing is
// cut silently, and nothing is left out.
var session = []landing.Setting{
	{Name: "autocommit", Value: "1"},
	{Name: "character_set_client", Value: "utf8mb4"}, {Name: "character_set_results", Value: "utf8mb4"}, {Name: "collation_connection", Value: "utf8mb4_bin"},
	{Name: "sql_mode", Value: "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"},
	{Name: "time_zone", Value: "+00:00"},
	{Name: "sql_select_limit", Value: "18446744073709551615"},
	{Name: "sql_safe_updates", Value: "0"},
	{Name: "default_storage_engine", Value: "InnoDB"},
}

// begin sets the session, in the right database and outside of any transaction, and looks whether it is so.
func (d *dialect) begin(ctx context.Context, conn *landing.Conn) error {
	set, get := make([]string, len(session)), make([]string, len(session))
	for i, s := range session {
		value := s.Value
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			value = "'" + value + "'"
		}
		set[i], get[i] = "SESSION "+s.Name+" = "+value, "@@SESSION."+s.Name
	}
	for _, statement := range []string{"ROLLBACK", "USE " + d.Quote(d.database), "SET " + strings.Join(set, ", ")} {
		if err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return conn.Has(ctx, "SELECT "+strings.Join(get, ", "), session)
}

func (d *dialect) Learn(ctx context.Context, conn *landing.Conn) error {
	if err := d.begin(ctx, conn); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, "SELECT VERSION(), @@lower_case_table_names, @@max_allowed_packet")
	if err != nil {
		return err
	}
	version, lower := rows[0][0], rows[0][1]
	packet, err := strconv.Atoi(rows[0][2])
	if err != nil {
		return err
	}
	// Two texts are equal only if their bytes are: no case, and no trailing blanks that do
	// not count.
	s := &server{collation: "utf8mb4_0900_bin", packet: packet, foldsCase: lower != "0"}
	if strings.Contains(version, "MariaDB") {
		s.collation = "utf8mb4_nopad_bin"
	}
	d.about.Store(s)
	return nil
}

func (d *dialect) Quote(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}
func (d *dialect) Bind(statement string) string { return statement }

// Ordered needs nothing: Unfit refuses the collations that do not compare bytes.
func (d *dialect) Ordered(column string) string { return d.Quote(column) }

func (d *dialect) Create(table string) []string {
	return []string{"CREATE TABLE IF NOT EXISTS " + d.Quote(table) + " (" +
		"primary_key VARCHAR(255) NOT NULL PRIMARY KEY, logic_type VARCHAR(255) NOT NULL, owner_id VARCHAR(255) NOT NULL, `key` VARCHAR(100) NOT NULL, " +
		"value MEDIUMBLOB NOT NULL, up_version BIGINT NOT NULL DEFAULT 0, is_del INTEGER NOT NULL DEFAULT 0, del_time BIGINT NOT NULL DEFAULT 0, " +
		"query_all_key VARCHAR(255) NOT NULL, create_time BIGINT NOT NULL DEFAULT 0, update_time BIGINT NOT NULL DEFAULT 0, " +
		"INDEX query_all_key (query_all_key, is_del)" +
		") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE " + d.about.Load().collation + " ROW_FORMAT=DYNAMIC"}
}

func (d *dialect) Columns() string {
	return "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?"
}

// Indexed is asked for, because an index is made only with its table.
func (d *dialect) Indexed() string {
	return "SELECT column_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? AND seq_in_index = 1"
}

func (d *dialect) Tables() string {
	return "SELECT table_name FROM information_schema.columns WHERE table_schema = DATABASE() AND column_name = 'query_all_key'"
}

// Unfit refuses above all the tables of homo's landers, where K and k would share a row, and a
// value of 64 KiB is too long.
func (d *dialect) Unfit(ctx context.Context, db *sql.DB, table string) (string, bool, error) {
	rows, err := db.QueryContext(ctx, `SELECT column_name, data_type, COALESCE(collation_name, 'binary'), column_key
		FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?`, table)
	if err != nil {
		return "", false, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, kind, collation, key string
		if err := rows.Scan(&name, &kind, &collation, &key); err != nil {
			return "", false, err
		}
		switch name {
		case "primary_key", "query_all_key":
			if exact := collation == "binary" || strings.HasSuffix(collation, "_nopad_bin") || collation == "utf8mb4_0900_bin"; !exact {
				return "its column " + name + " has the collation " + collation + ", under which different keys are equal", true, rows.Err()
			}
			if name == "primary_key" && key != "PRI" {
				return "its column primary_key is not the primary key", false, rows.Err()
			}
		case "value":
			if kind != "mediumblob" && kind != "longblob" {
				return "its column value is a " + kind + ", which is too short", false, rows.Err()
			}
		}
	}
	return "", false, rows.Err()
}

func (d *dialect) Most() (rows, bytes int) {
	// Quoted, a value has up to twice its bytes; the rest of a row is below 4 KiB.
	const least = 64 << 10
	return 2000, min(4<<20, max(d.about.Load().packet/4, least))
}

func (d *dialect) Now() string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
}

// Upsert finds out in the same statement whether it has left a row alone: only then the
// server has a "last insert id" to tell, unless the table numbers its rows.
func (d *dialect) Upsert(ctx context.Context, db *sql.DB, table string, rows []field.DirtyRow, g landing.Guard) (bool, error) {
	var b strings.Builder
	b.WriteString(landing.Insert(d, table))
	b.WriteString(landing.Values(d, g, len(rows)))
	b.WriteString(" ON DUPLICATE KEY UPDATE ")
	for _, column := range landing.Replaced { // up_version is compared in all, so it is the last to change
		otherwise := column
		if column == "up_version" {
			otherwise = "LAST_INSERT_ID(up_version)"
		}
		b.WriteString(column + " = IF(COALESCE(up_version, 0) <= VALUES(up_version), VALUES(" + column + "), " + otherwise + "), ")
	}
	result, err := db.ExecContext(ctx, strings.TrimSuffix(b.String(), ", "), landing.Arguments(rows, g)...)
	if err != nil {
		return false, err
	}
	id, err := result.LastInsertId()
	return id != 0, err
}

// Errors of MySQL that are not about a statement's rows: of limits on the server, of rights and
// passwords, of locks, of its end.
var trouble = []uint16{
	1020, 1021, 1030, 1037, 1038, 1040, 1041, 1042, 1043, 1044, 1045, 1046, 1047, 1049, 1053, 1077, 1078, 1079, 1080, 1081, 1094, 1105, 1114, 1129, 1130, 1135,
	1142, 1143, 1152, 1157, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1206, 1213, 1226, 1227, 1290, 1317, 1412, 1613, 1614, 1637, 1689, 1698, 1792, 1836, 1927, 1969,
	3024, 3118, 3572, 4031,
}

func (d *dialect) Fault(err error) landing.Fault {
	var said *mysql.MySQLError
	switch {
	case errors.Is(err, mysql.ErrPktTooLarge):
		return landing.Refused
	case !errors.As(err, &said):
		return landing.Broken
	case said.Number == 1146: // no such table
		return landing.Absent
	case said.Number == 1048 && strings.Contains(said.Message, "primary_key"): // cannot be null
		return landing.Late
	case said.Number == 1105 && strings.Contains(said.Message, "mysql_send_long_data"): // an unknown error that is known: a value beyond max_allowed_packet
		return landing.Refused
	case slices.Contains(trouble, said.Number):
		return landing.Unreachable
	}
	return landing.Refused
}

func (d *dialect) Fold(table string) string {
	if d.about.Load().foldsCase {
		return landing.FoldCase(table)
	}
	return table
}

func (d *dialect) Unfold(name string) string {
	if d.about.Load().foldsCase {
		return landing.UnfoldCase(name)
	}
	return name
}
