package landing

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/storage"
	"confcenter/storage/field"
)

// onServers is onEach for the databases that are programs of their own.
func onServers(t *testing.T, test func(t *testing.T, d *Database)) {
	onEach(t, func(t *testing.T, d *Database) {
		if d.address.kind != "sqlite" {
			test(t, d)
		}
	})
}

// of is the element for a database's kind.
func of(d *Database, each map[string]string) string { return each[d.address.kind] }

// global sets a variable of MariaDB's until the test ends. It counts for new connections.
func global(t testing.TB, d *Database, name, value string) {
	t.Helper()
	set := func(value string) { exec(t, d, "SET GLOBAL "+name+" = "+value) }
	var old string
	require.NoError(t, d.db.QueryRow("SELECT @@GLOBAL."+name).Scan(&old))
	if strings.Contains(old, ",") || old == "" {
		old = "'" + old + "'"
	}
	t.Cleanup(func() { set(old) })
	set(value)
}

func TestWhatErrorsMean(t *testing.T) {
	for want, numbers := range map[fault][]uint16{
		unreachable: {1040, 1044, 1045, 1053, 1114, 1142, 1205, 1213, 1290, 1317, 1836, 1927, 1969, 3024},
		refused:     {1048, 1062, 1153, 1264, 1364, 1366, 1406, 1644, 3819, 4025},
		absent:      {1146},
	} {
		for _, n := range numbers {
			require.Equal(t, want, (&mysqlDialect{}).fault(fmt.Errorf("it says: %w", &mysql.MySQLError{Number: n})), n)
		}
	}
	require.Equal(t, broken, (&mysqlDialect{}).fault(mysql.ErrInvalidConn))
	require.Equal(t, refused, (&mysqlDialect{}).fault(mysql.ErrPktTooLarge))
	for want, states := range map[fault][]string{
		unreachable: {"08006", "28P01", "3D000", "40001", "40P01", "42501", "25006", "53100", "53300", "55P03", "57014", "57P01", "57P03", "58030", "XX000", ""},
		refused:     {"22001", "22003", "22021", "23502", "23505", "23514", "42804", "42703", "P0001"},
		absent:      {"42P01"},
	} {
		for _, state := range states {
			require.Equal(t, want, postgresDialect{}.fault(fmt.Errorf("it says: %w", &pgconn.PgError{Code: state})), state)
		}
	}
	require.Equal(t, broken, postgresDialect{}.fault(io.ErrUnexpectedEOF))
	require.Equal(t, unreachable, sqliteDialect{}.fault(io.ErrUnexpectedEOF))
}

// held has somebody else lock a row, has rows written meanwhile, and returns when that waits. The id
// is that of the connection which waits.
func held(t *testing.T, d *Database, rows ...storage.DirtyRow) (other *sql.Tx, id int64, got chan error) {
	t.Helper()
	other, err := d.db.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Rollback() })
	last := rows[len(rows)-1]
	_, err = other.Exec(d.dialect.bind("UPDATE "+d.dialect.quote(last.Table())+" SET is_del = 0 WHERE primary_key = ?"), last.Key())
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
	require.Eventually(t, func() bool { return d.db.QueryRow(waits).Scan(&id) == nil }, patience, time.Millisecond)
	return other, id, got
}

func TestAStatementThatIsCutOffIsNoFaultOfItsRows(t *testing.T) {
	onServers(t, func(t *testing.T, d *Database) {
		rows := []storage.DirtyRow{row(player, "a", "1", 1), row(player, "b", "1", 1)}
		write(t, d, rows...)
		for i, kill := range strings.Split(of(d, map[string]string{
			"mysql": "KILL QUERY %d;KILL CONNECTION %d", "postgres": "SELECT pg_cancel_backend(%d);SELECT pg_terminate_backend(%d)",
		}), ";") {
			newer := []storage.DirtyRow{row(player, "a", kill, int64(i+2)), row(player, "b", kill, int64(i+2))}
			other, id, got := held(t, d, newer...)
			exec(t, d, fmt.Sprintf(kill, id))
			require.ErrorIs(t, <-got, codes.Unreachable)
			require.NoError(t, other.Rollback())
			require.NotContains(t, all(t, d, player)["a"], kill, "the statement is all or nothing")
			require.Zero(t, write(t, d, newer...).Newer)
		}
	})
}

// InnoDB ends the one that has done less.
func TestADeadlockIsNoFaultOfTheRows(t *testing.T) {
	d := open(t, databases["MariaDB"](t))
	rows := []storage.DirtyRow{row(player, "a", "1", 1), row(player, "b", "1", 1)}
	write(t, d, rows...)
	other, _, got := held(t, d, row(player, "a", "2", 2), row(player, "b", "2", 2))
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
	write(t, d, row(player, "a", "2", 2), row(player, "b", "2", 2))
}

func TestARowThatATriggerRefusesIsAlone(t *testing.T) {
	onServers(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "there", "1", 1))
		switch d.address.kind {
		case "mysql":
			exec(t, d, "CREATE TRIGGER no BEFORE INSERT ON `1_1` FOR EACH ROW IF NEW.value = 'poison' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF")
		case "postgres":
			exec(t, d, "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.value = 'poison'::bytea THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$")
			exec(t, d, `CREATE TRIGGER no BEFORE INSERT ON "1_1" FOR EACH ROW EXECUTE FUNCTION no()`)
		}
		w, err := d.Write(ctx, []storage.DirtyRow{row(player, "a", "1", 1), row(player, "b", "poison", 2), row(player, "c", "3", 3), row(player, "d", "4", 4)})
		require.NoError(t, err)
		require.Equal(t, 3, w.Rows)
		require.Len(t, w.Failed, 1)
		require.Equal(t, "user:100:b", w.Failed[0].Key)
		require.Contains(t, w.Failed[0].Reason, "not this one")
	})
}

// Whatever the server's mode is, what is too long or too great for a table of somebody else's is
// refused.
func TestNothingIsCutByNarrowColumns(t *testing.T) {
	onServers(t, func(t *testing.T, d *Database) {
		if d.address.kind == "mysql" {
			global(t, d, "sql_mode", "''")
			d = open(t, d.address.url.String())
		}
		exec(t, d, "CREATE TABLE "+d.dialect.quote("1_1")+of(d, map[string]string{
			"mysql": " (primary_key VARCHAR(20) PRIMARY KEY, logic_type VARCHAR(5), owner_id VARCHAR(5), `key` VARCHAR(5), value MEDIUMBLOB, up_version INT, is_del TINYINT, del_time INT, " +
				"query_all_key VARCHAR(20), create_time BIGINT, update_time BIGINT) DEFAULT CHARSET latin1 COLLATE latin1_nopad_bin",
			"postgres": " (primary_key VARCHAR(20) PRIMARY KEY, logic_type VARCHAR(5), owner_id VARCHAR(5), key VARCHAR(5), value BYTEA, up_version INT, is_del INT, del_time INT, " +
				"query_all_key VARCHAR(20), create_time BIGINT, update_time BIGINT)",
		}))
		gone := row(player, "gone", "1", 5)
		gone.Removed, gone.RemovedAt = true, 1_700_000_000_123
		rows := []storage.DirtyRow{row(player, "a", "fits", 1), row(player, "b", "fits", 2), row(player, "longer", "x", 3), row(player, "great", "x", 1<<40), gone}
		failed := 3
		if d.address.kind == "mysql" {
			rows, failed = append(rows, row(player, "😀", "not latin", 6)), 4
		}
		w, err := d.Write(ctx, rows)
		require.NoError(t, err)
		require.Len(t, w.Failed, failed)
		require.Equal(t, map[string]string{"a": "fits v1", "b": "fits v2"}, all(t, d, player))
	})
}

func TestValuesBeyondWhatTheServerTakesAreHalved(t *testing.T) {
	d := open(t, databases["MariaDB"](t))
	d.db.SetMaxIdleConns(0) // a connection keeps the limit that it began with
	write(t, d, row(player, "a", "1", 1))
	global(t, d, "max_allowed_packet", "524288")
	var rows []storage.DirtyRow
	for i := range 8 {
		rows = append(rows, row(player, fmt.Sprint("f", i), strings.Repeat("'", 300<<10), int64(i+1)))
	}
	rows = append(rows, row(player, "whole", strings.Repeat("'", 1<<20), 9))
	for _, knows := range []bool{false, true} { // that it has become less
		w, err := d.Write(ctx, rows)
		require.NoError(t, err, "%v", knows)
		require.Len(t, w.Failed, 1)
		require.Equal(t, "user:100:whole", w.Failed[0].Key)
		require.Regexp(t, "packet", w.Failed[0].Reason)
		require.Len(t, all(t, d, player), 9)
		d = open(t, "mysql://root@/"+d.address.database()+"?"+d.address.url.RawQuery)
	}
}

func TestAReadOnlyDatabaseIsReadAndWaitedFor(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "a", "1", 1))
		dsn, again := "", func() {}
		switch d.address.kind {
		case "mysql":
			exec(t, d, "CREATE USER IF NOT EXISTS ordinary")
			exec(t, d, "GRANT ALL ON "+d.address.database()+".* TO ordinary")
			global(t, d, "read_only", "1")
			dsn, again = "mysql://ordinary@/"+d.address.database()+"?"+d.address.url.RawQuery, func() { exec(t, d, "SET GLOBAL read_only = 0") }
		case "postgres":
			set := "ALTER DATABASE " + d.address.database() + " SET default_transaction_read_only = "
			exec(t, d, set+"on")
			dsn, again = d.address.url.String(), func() { exec(t, d, "SET default_transaction_read_only = off; "+set+"off") }
		default:
			d.db.SetMaxOpenConns(1)
			exec(t, d, "PRAGMA query_only = 1")
			again = func() { exec(t, d, "PRAGMA query_only = 0") }
		}
		reader := d
		if dsn != "" {
			reader = open(t, dsn)
		}
		for range 2 { // with a table that it knows, and a new one
			w, err := reader.Write(ctx, []storage.DirtyRow{row(player, "a", "2", 2), row(storage.Owner{App: "2", Region: "2", Logic: "l", ID: "o"}, "a", "2", 2)})
			require.ErrorIs(t, err, codes.Unreachable)
			require.Empty(t, w.Failed)
			require.Equal(t, map[string]string{"a": "1 v1"}, all(t, reader, player))
		}
		again()
		if d.address.kind == "postgres" {
			reader = open(t, dsn)
		}
		write(t, reader, row(player, "a", "2", 2))
	})
}

// Under the collations and types of these tables, keys that differ are equal, or rows have none.
func TestATableThatMixesKeysUpIsRefusedByName(t *testing.T) {
	const rest = ", logic_type TEXT, owner_id TEXT, key TEXT, value %s, up_version BIGINT, is_del INT, del_time BIGINT, create_time BIGINT, update_time BIGINT"
	for kind, tables := range map[string][][2]string{
		"PostgreSQL": {
			{`(primary_key VARCHAR(255) COLLATE nocase PRIMARY KEY, query_all_key TEXT` + rest, "primary_key has the collation nocase"},
			{`(primary_key TEXT PRIMARY KEY, query_all_key TEXT COLLATE nocase` + rest, "query_all_key has the collation nocase"},
			{`(primary_key citext PRIMARY KEY, query_all_key TEXT` + rest, "primary_key is of type citext"},
			{`(primary_key CHAR(255) PRIMARY KEY, query_all_key TEXT` + rest, "primary_key is of type character"},
			{`(primary_key TEXT, query_all_key TEXT` + rest, "primary_key is not the primary key"},
			{`(primary_key TEXT, query_all_key TEXT` + rest + `, PRIMARY KEY (primary_key, owner_id)`, "primary_key is not the primary key"},
		},
		"SQLite": {
			{`(primary_key TEXT COLLATE NOCASE PRIMARY KEY, query_all_key TEXT` + rest, "primary_key has the collation NOCASE"},
			{`(primary_key TEXT COLLATE RTRIM PRIMARY KEY, query_all_key TEXT` + rest, "primary_key has the collation RTRIM"},
			{`(primary_key TEXT PRIMARY KEY, query_all_key TEXT COLLATE NOCASE` + rest, "query_all_key has the collation NOCASE"},
			{`(primary_key TEXT, query_all_key TEXT` + rest, "primary_key is not the primary key"},
			{`(primary_key TEXT, query_all_key TEXT` + rest + `, PRIMARY KEY (primary_key, owner_id)`, "primary_key is not the primary key"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			d := open(t, databases[kind](t))
			blob := "BLOB"
			if kind == "PostgreSQL" {
				blob = "BYTEA"
				exec(t, d, "CREATE EXTENSION citext")
				exec(t, d, "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
			}
			make := func(table string) { exec(t, d, `CREATE TABLE "1_1" `+fmt.Sprintf(table, blob)+")") }
			for _, test := range tables {
				make(test[0])
				w, err := d.Write(ctx, []storage.DirtyRow{row(player, "K", "1", 1), row(player, "k", "2", 2)})
				require.NoError(t, err)
				require.Zero(t, w.Rows)
				require.Len(t, w.Failed, 2)
				require.Contains(t, w.Failed[0].Reason, test[1])
				require.Contains(t, w.Failed[0].Reason, "alter it")
				exec(t, d, `DROP TABLE "1_1"`)
			}
			make(`(primary_key VARCHAR(255) PRIMARY KEY, query_all_key VARCHAR(255)` + rest)
			write(t, d, row(player, "K", "1", 1), row(player, "k", "2", 2), row(player, "k ", "3", 3))
			require.Len(t, all(t, d, player), 3)
		})
	}
}

// A table of somebody else's may number its rows.
func TestATableWithColumnsOfItsOwnIsLandedIn(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "old", "1", 1))
		exec(t, d, "ALTER TABLE "+d.dialect.quote("1_1")+of(d, map[string]string{
			"mysql": " ADD id BIGINT NOT NULL AUTO_INCREMENT UNIQUE, ADD note VARCHAR(9) DEFAULT 'x'", "postgres": " ADD id BIGSERIAL UNIQUE, ADD note TEXT DEFAULT 'x'", "sqlite": " ADD note TEXT DEFAULT 'x'",
		}))
		require.Zero(t, write(t, d, row(player, "a", "2", 2), row(player, "b", "3", 3)).Newer, "nobody has a later version")
		require.Zero(t, write(t, d, row(player, "a", "4", 4), row(player, "c", "5", 5)).Newer)
		require.EqualValues(t, 4, write(t, d, row(player, "a", "3", 3), row(player, "c", "6", 6), row(player, "d", "7", 7)).Newer)
		require.Equal(t, map[string]string{"old": "1 v1", "a": "4 v4", "b": "3 v3", "c": "6 v6", "d": "7 v7"}, all(t, d, player))
	})
}

// On a server whose names of tables have no case.
func TestTablesThatDifferInCaseAreTwoEverywhere(t *testing.T) {
	d := open(t, databases["MariaDB"](t))
	require.Empty(t, all(t, d, player)) // it knows the server now
	about := *d.dialect.(*mysqlDialect).about.Load()
	about.foldsCase = true
	d.dialect.(*mysqlDialect).about.Store(&about)
	lower, upper := storage.Owner{App: "a", Region: "b", Logic: "l", ID: "o"}, storage.Owner{App: "A", Region: "b", Logic: "l", ID: "o"}
	write(t, d, row(lower, "k", "lower", 1), row(upper, "k", "upper", 2))
	require.Equal(t, map[string]string{"k": "lower v1"}, all(t, d, lower))
	require.Equal(t, map[string]string{"k": "upper v2"}, all(t, d, upper))
	tables, err := d.Tables(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"A_b", "a_b"}, tables)
	var names []string
	names, err = column(ctx, d.db, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"^a_b", "a_b"}, names)
}

// line is a way to a database that breaks after some bytes.
type line struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	whole  bool       // guarded by mu: it does not break any more
	marker string     // guarded by mu: if not "", it breaks when this is to be carried, and only then
}

// through makes a line to a socket.
func through(t *testing.T, socket string) (l *line, here string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "line")
	require.NoError(t, err)
	here = filepath.Join(dir, filepath.Base(socket))
	listener, err := net.Listen("unix", here)
	require.NoError(t, err)
	l = &line{listener: listener, to: socket, random: rand.New(rand.NewPCG(7, 7))}
	l.wg.Go(l.serve)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		l.wg.Wait()
		require.NoError(t, os.RemoveAll(dir))
	})
	return l, here
}

// lineTo makes a line to a database.
func lineTo(t *testing.T, d *Database) (l *line, dsn string) {
	t.Helper()
	query := d.address.url.Query()
	name, file := "socket", ""
	if d.address.kind == "postgres" {
		name, file = "host", "/.s.PGSQL.5432"
	}
	l, here := through(t, query.Get(name)+file)
	query.Set(name, strings.TrimSuffix(here, file))
	url := *d.address.url
	url.RawQuery = query.Encode()
	return l, url.String()
}

func (l *line) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", l.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		const least, most, no = 2 << 10, 200 << 10, 1 << 40
		l.mu.Lock()
		there, back := int64(least+l.random.IntN(most)), int64(no)
		if l.random.IntN(2) == 0 { // the answer is lost
			there, back = no, int64(least/2+l.random.IntN(least))
		}
		if l.whole || l.marker != "" {
			there, back = no, no
		}
		l.mu.Unlock()
		carry := func(to, from net.Conn, n int64) {
			_, _ = io.CopyN(to, from, n)
			_ = from.Close()
			_ = to.Close()
		}
		l.wg.Go(func() { carry(&cutter{Conn: to, l: l}, from, there) })
		l.wg.Go(func() { carry(from, to, back) })
	}
}

func TestNothingIsLostOnALineThatBreaks(t *testing.T) {
	onServers(t, func(t *testing.T, d *Database) {
		l, dsn := lineTo(t, d)
		s := newSource()
		s.settings.Batch = 300
		behind := open(t, dsn)
		lander := start(t, s, behind, "a")
		n := 0
		lander.pass(t, "the line has broken often", func() bool {
			for range 100 {
				s.put(player, fmt.Sprint("f", n%2000), fmt.Sprint(n, strings.Repeat("x", 100)))
				n++
			}
			return lander.Readings().Get("landing_failures_total") >= 15
		})
		l.mu.Lock()
		l.whole = true
		l.mu.Unlock()
		lander.lands(t, s)
		s.agree(t, d)
		require.Zero(t, lander.Readings().Get("landing_refused_rows_total"), "no row is to blame")
	})
}

// cutter ends a connection before the marker is written to it.
type cutter struct {
	net.Conn
	l    *line
	tail []byte // of what was written last
}

func (c *cutter) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	marker := c.l.marker
	c.l.mu.Unlock()
	c.tail = append(c.tail, p...)
	if marker != "" && bytes.Contains(c.tail, []byte(marker)) {
		return 0, io.ErrClosedPipe
	}
	c.tail = append([]byte{}, c.tail[max(0, len(c.tail)-len(marker)):]...)
	return c.Conn.Write(p)
}

// onMarkedLine is onServers with a line between that breaks whenever a text is to be carried.
func onMarkedLine(t *testing.T, marker string, test func(t *testing.T, direct, d *Database, l *line)) {
	onServers(t, func(t *testing.T, direct *Database) {
		l, dsn := lineTo(t, direct)
		l.mu.Lock()
		l.marker = marker
		l.mu.Unlock()
		test(t, direct, open(t, dsn), l)
	})
}

// A limit of a proxy's, or a fault of the database's, may end the connection over one row.
func TestARowThatBreaksTheConnectionHoldsNothingElseUp(t *testing.T) {
	onMarkedLine(t, "poison", func(t *testing.T, direct, d *Database, line *line) {
		s := newSource()
		s.settings.Tables = 4
		var owners [4]storage.Owner
		for i := range owners {
			owners[i] = player
			owners[i].ID = strings.Repeat("x", 4+i)
			for n := range 50 {
				s.put(owners[i], fmt.Sprint("f", n), "good")
			}
		}
		s.put(owners[1], "bad", "poison")
		table := func(i int) int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.dirty[i])
		}
		l := start(t, s, d, "a")
		l.clock.BlockUntil(1) // the first round is over
		for i := range owners {
			if i != 1 {
				require.Zero(t, table(i), "it waits for no other table")
			}
		}
		require.Equal(t, 51, table(1))
		require.NotZero(t, l.Readings().Get("landing_unreachable"))
		l.pass(t, "all but one are landed", func() bool { return s.left() == 1 })
		reason := s.reasons[field.Ref{Owner: owners[1], Name: "bad"}.Key()]
		require.Contains(t, reason, "the connection to the database breaks")
		require.Len(t, s.reasons, 1, "nobody else is to blame")
		l.pass(t, "it is well", func() bool { return l.Readings().Get("landing_unreachable") == 0 })
		require.Equal(t, 2, strings.Count(l.log.String(), "\n"), "it is told once, and its end: %s", l.log)

		line.mu.Lock()
		line.whole, line.marker = true, ""
		line.mu.Unlock()
		s.mu.Lock()
		s.due = true
		s.mu.Unlock()
		l.lands(t, s)
		s.agree(t, direct)
	})
}

// As a proxy does which has nobody behind it any more that takes writes.
func TestNoRowIsToBlameIfNoneIsWritten(t *testing.T) {
	onMarkedLine(t, "INSERT INTO", func(t *testing.T, direct, d *Database, line *line) {
		s := newSource()
		for n := range 50 {
			s.put(player, fmt.Sprint("f", n), "good")
		}
		l := start(t, s, d, "a")
		l.pass(t, "it has tried often", func() bool { return l.Readings().Get("landing_failures_total") >= 2*maxBreaks })
		require.Empty(t, s.reasons)
		line.mu.Lock()
		line.whole, line.marker = true, ""
		line.mu.Unlock()
		l.lands(t, s)
		s.agree(t, direct)
		require.Empty(t, s.reasons)
	})
}
