package landing_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/integration/dbtest"
	"confcenter/player/field"
	"confcenter/player/landing/landingtest"
)

// of is the element for a database's kind.
func of(d *landingtest.Database, each map[string]string) string { return each[d.Address.Kind] }

// held has another connection lock a row, has rows written meanwhile, and returns when that write waits.
// The id is that of the connection which waits.
func held(t *testing.T, d *landingtest.Database, rows ...field.DirtyRow) (other *sql.Tx, id int64, got chan error) {
	t.Helper()
	other, err := d.DB.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Rollback() })
	last := rows[len(rows)-1]
	_, err = other.Exec(d.Dialect.Bind("UPDATE "+d.Dialect.Quote(last.Table())+" SET is_del = 0 WHERE primary_key = ?"), last.Key())
	require.NoError(t, err)
	got = make(chan error, 1)
	go func() {
		w, err := d.Write(ctx, rows)
		if len(w.Failed) > 0 {
			err = fmt.Errorf("refused: %s", w.Failed[0].Reason)
		}
		got <- err
	}()
	waits := of(d, map[string]string{
		"mysql": "SELECT p.id FROM information_schema.processlist p, information_schema.global_status s WHERE p.db = DATABASE() AND p.info LIKE 'INSERT INTO%' " +
			"AND s.variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS' AND s.variable_value > 0",
		"postgres": "SELECT pid FROM pg_stat_activity WHERE datname = CURRENT_DATABASE() AND wait_event_type = 'Lock'",
	})
	require.Eventually(t, func() bool { return d.DB.QueryRow(waits).Scan(&id) == nil }, patience, time.Millisecond)
	return other, id, got
}

func TestAStatementThatIsCutOffIsNoFaultOfItsRows(t *testing.T) {
	landingtest.On(t, servers, func(t *testing.T, d *landingtest.Database) {
		rows := []field.DirtyRow{row(someone, "a", "1", 1), row(someone, "b", "1", 1)}
		write(t, d, rows...)
		for i, kill := range strings.Split(of(d, map[string]string{
			"mysql": "KILL QUERY %d;KILL CONNECTION %d", "postgres": "SELECT pg_cancel_backend(%d);SELECT pg_terminate_backend(%d)",
		}), ";") {
			newer := []field.DirtyRow{row(someone, "a", kill, int64(i+2)), row(someone, "b", kill, int64(i+2))}
			other, id, got := held(t, d, newer...)
			exec(t, d, fmt.Sprintf(kill, id))
			require.ErrorIs(t, <-got, codes.Unreachable)
			require.NoError(t, other.Rollback())
			require.NotContains(t, all(t, d, someone)["a"], kill, "the statement is all or nothing")
			require.Zero(t, write(t, d, newer...).Newer)
		}
	})
}

// InnoDB ends the one that has done less.
func TestADeadlockIsNoFaultOfTheRows(t *testing.T) {
	d := mariaDB.Open(t)
	rows := []field.DirtyRow{row(someone, "a", "1", 1), row(someone, "b", "1", 1)}
	write(t, d, rows...)
	other, _, got := held(t, d, row(someone, "a", "2", 2), row(someone, "b", "2", 2))
	for i := range 200 {
		_, err := other.Exec("INSERT INTO `1_1` (primary_key, logic_type, owner_id, `key`, value, query_all_key) VALUES (?, 'other', '1', 'x', '', 'other:1')", fmt.Sprint("other:1:", i))
		require.NoError(t, err)
	}
	_, err := other.Exec("UPDATE `1_1` SET is_del = 0 WHERE primary_key = 'user:100:a'")
	require.NoError(t, err)
	err = <-got
	require.ErrorIs(t, err, codes.Unreachable)
	require.ErrorContains(t, err, "Deadlock")
	require.NoError(t, other.Commit())
	write(t, d, row(someone, "a", "2", 2), row(someone, "b", "2", 2))
}

func TestARowThatATriggerRefusesIsAlone(t *testing.T) {
	landingtest.On(t, servers, func(t *testing.T, d *landingtest.Database) {
		write(t, d, row(someone, "there", "1", 1))
		switch d.Address.Kind {
		case "mysql":
			exec(t, d, "CREATE TRIGGER no BEFORE INSERT ON `1_1` FOR EACH ROW IF NEW.value = 'poison' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF")
		case "postgres":
			exec(t, d, "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.value = 'poison'::bytea THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$")
			exec(t, d, `CREATE TRIGGER no BEFORE INSERT ON "1_1" FOR EACH ROW EXECUTE FUNCTION no()`)
		}
		w, err := d.Write(ctx, []field.DirtyRow{row(someone, "a", "1", 1), row(someone, "b", "poison", 2), row(someone, "c", "3", 3), row(someone, "d", "4", 4)})
		require.NoError(t, err)
		require.Equal(t, 3, w.Rows)
		require.Len(t, w.Failed, 1)
		require.Equal(t, "user:100:b", w.Failed[0].Key)
		require.Contains(t, w.Failed[0].Reason, "not this one")
	})
}

// Whatever the server's mode is, what is too long or too great for a table that others have made is
// refused.
func TestNothingIsCutByNarrowColumns(t *testing.T) {
	landingtest.On(t, servers, func(t *testing.T, d *landingtest.Database) {
		if d.Address.Kind == "mysql" {
			global(t, d, "sql_mode", "''")
			d = landingtest.Open(t, d.Address.URL.String())
		}
		exec(t, d, "CREATE TABLE "+d.Dialect.Quote("1_1")+of(d, map[string]string{
			"mysql": " (primary_key VARCHAR(20) PRIMARY KEY, logic_type VARCHAR(5), owner_id VARCHAR(5), `key` VARCHAR(5), value MEDIUMBLOB, up_version INT, is_del TINYINT, del_time INT, " +
				"query_all_key VARCHAR(20), create_time BIGINT, update_time BIGINT) DEFAULT CHARSET latin1 COLLATE latin1_nopad_bin",
			"postgres": " (primary_key VARCHAR(20) PRIMARY KEY, logic_type VARCHAR(5), owner_id VARCHAR(5), key VARCHAR(5), value BYTEA, up_version INT, is_del INT, del_time INT, " +
				"query_all_key VARCHAR(20), create_time BIGINT, update_time BIGINT)",
		}))
		gone := row(someone, "gone", "1", 5)
		gone.Removed, gone.RemovedAt = true, 1_700_000_000_123
		rows := []field.DirtyRow{row(someone, "a", "fits", 1), row(someone, "b", "fits", 2), row(someone, "longer", "x", 3), row(someone, "great", "x", 1<<40), gone}
		failed := 3
		if d.Address.Kind == "mysql" {
			rows, failed = append(rows, row(someone, "😀", "not latin", 6)), 4
		}
		w, err := d.Write(ctx, rows)
		require.NoError(t, err)
		require.Len(t, w.Failed, failed)
		require.Equal(t, map[string]string{"a": "fits v1", "b": "fits v2"}, all(t, d, someone))
	})
}

func TestValuesBeyondWhatTheServerTakesAreHalved(t *testing.T) {
	d := mariaDB.Open(t)
	d.DB.SetMaxIdleConns(0) // a connection keeps the limit that it began with
	write(t, d, row(someone, "a", "1", 1))
	global(t, d, "max_allowed_packet", "524288")
	var rows []field.DirtyRow
	for i := range 8 {
		rows = append(rows, row(someone, fmt.Sprint("f", i), strings.Repeat("'", 300<<10), int64(i+1)))
	}
	rows = append(rows, row(someone, "whole", strings.Repeat("'", 1<<20), 9))
	for _, knows := range []bool{false, true} { // that it has become less
		w, err := d.Write(ctx, rows)
		require.NoError(t, err, "%v", knows)
		require.Len(t, w.Failed, 1)
		require.Equal(t, "user:100:whole", w.Failed[0].Key)
		require.Regexp(t, "packet", w.Failed[0].Reason)
		require.Len(t, all(t, d, someone), 9)
		d = landingtest.Open(t, "mysql://root@/"+d.Address.Database()+"?"+d.Address.URL.RawQuery)
	}
}

// On a server whose names of tables have no case.
func TestTablesThatDifferInCaseAreTwoEverywhere(t *testing.T) {
	d := landingtest.Open(t, dbtest.CaselessMariaDB(t).Database(t))
	lower, upper := field.Owner{App: "a", Region: "b", Logic: "l", ID: "o"}, field.Owner{App: "A", Region: "b", Logic: "l", ID: "o"}
	write(t, d, row(lower, "k", "lower", 1), row(upper, "k", "upper", 2))
	require.Equal(t, map[string]string{"k": "lower v1"}, all(t, d, lower))
	require.Equal(t, map[string]string{"k": "upper v2"}, all(t, d, upper))
	tables, err := d.Tables(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"A_b", "a_b"}, tables)
	var names string
	require.NoError(t, d.DB.QueryRow("SELECT GROUP_CONCAT(table_name) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE '%a_b'").Scan(&names))
	require.ElementsMatch(t, []string{"^a_b", "a_b"}, strings.Split(names, ","))
}

// Under the collations and types of these tables, keys that differ are equal, or rows have none.
func TestATableThatMixesKeysUpIsRefusedByName(t *testing.T) {
	d := postgreSQL.Open(t)
	exec(t, d, "CREATE EXTENSION citext")
	exec(t, d, "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	rest := landingtest.OtherColumns("BYTEA")
	landingtest.TablesThatMixKeysUpAreRefused(t, d, "BYTEA", [][2]string{
		{`primary_key VARCHAR(255) COLLATE nocase PRIMARY KEY, query_all_key TEXT` + rest, "primary_key has the collation nocase"},
		{`primary_key TEXT PRIMARY KEY, query_all_key TEXT COLLATE nocase` + rest, "query_all_key has the collation nocase"},
		{`primary_key citext PRIMARY KEY, query_all_key TEXT` + rest, "primary_key is of type citext"},
		{`primary_key CHAR(255) PRIMARY KEY, query_all_key TEXT` + rest, "primary_key is of type character"},
		{`primary_key TEXT, query_all_key TEXT` + rest, "primary_key is not the primary key"},
		{`primary_key TEXT, query_all_key TEXT` + rest + `, PRIMARY KEY (primary_key, owner_id)`, "primary_key is not the primary key"},
	})
}
