package integration

import (
	"database/sql"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/integration/dbtest"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/protocol"
)

// fields asks for the bag of one owner over HTTP.
func fields(t *testing.T, p *Process) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.HTTP+"/v1/storage/1/1/bag/42", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// logsError waits for an error in the log that says why requests fail, also if it came before
// the server was ready.
func logsError(t *testing.T, p *Process, why string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for line := range strings.Lines(p.Said()) {
			if strings.Contains(line, "fail until this is put right") && strings.Contains(line, why) && strings.Contains(line, `"level":"error"`) {
				return true
			}
		}
		return false
	}, servertest.Patience, time.Millisecond, why)
}

// A server with another database, an empty one or none answers for nothing that it does not have
// itself, and serves everything else.
func TestAServerTakesNoOtherDatabase(t *testing.T) {
	for name, database := range map[string]func() string{
		"MariaDB": func() string { return dbtest.MariaDB(t).Database(t) }, "PostgreSQL": func() string { return dbtest.PostgreSQL(t).Database(t) },
		"SQLite": func() string { return "sqlite:" + filepath.Join(t.TempDir(), "players.db") },
	} {
		t.Run(name, func(t *testing.T) {
			conf := landedConf(t)
			mine, other := database(), database()
			d, err := landing.OpenDatabase(mine)
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			first := StartProcess(t, conf, "--landing", mine)
			bag, done := bagOf(t, first)
			_, err = bag.Update(t.Context(), map[string][]byte{"a": []byte("1")})
			require.NoError(t, err)
			done()
			landsIn(t, d, map[string]string{"a": "1"})
			first.Stop()

			second := StartProcess(t, conf, "--landing", mine) // with a data directory of its own
			status, body := fields(t, second)
			require.Equal(t, http.StatusBadGateway, status, body)
			require.Contains(t, body, "two would overwrite each other")
			require.NotContains(t, body, "players.db")
			logsError(t, second, "two would overwrite each other")
			require.Contains(t, second.Peer().Call(protocol.KVGet, `{"ns":"n","key":"k"}`), `"code":404`, "all else is served")
			second.Stop()

			for _, flags := range [][]string{{"--landing", other}, nil} {
				p := process.New(t, conf, flags...)
				p.Data, p.Addr = first.Data, first.Addr
				p.Start()
				stranger, done := bagOf(t, p)
				_, err := stranger.Update(t.Context(), map[string][]byte{"a": []byte("2")})
				require.NoError(t, err, "it is in memory")
				done()
				p.Stop()
			}

			moved := process.New(t, conf, "--landing", other, "--landing-moved")
			moved.Data, moved.Addr = first.Data, first.Addr
			moved.Start()
			there, err := landing.OpenDatabase(other)
			require.NoError(t, err)
			defer func() { require.NoError(t, there.Close()) }()
			landsIn(t, there, map[string]string{"a": "2"})
			require.Eventually(t, func() bool { status, body = fields(t, moved); return status == http.StatusOK }, servertest.Patience, 10*time.Millisecond)
			require.Contains(t, body, `"2"`)
			require.False(t, strings.Contains(moved.Said(), "fail until this is put right"))
		})
	}
}

// landedConf is a directory of configuration files with which landing is quick.
func landedConf(t *testing.T) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(`{"homo.dirty.landing.delayTime":20}`), 0o644))
	return conf
}

// A backup may be older than what the database has: it is found all the same.
func TestARestoredServerFindsWhatWasLandedSince(t *testing.T) {
	conf, dsn := landedConf(t), "sqlite:"+filepath.Join(t.TempDir(), "players.db")
	d, err := landing.OpenDatabase(dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	p := StartProcess(t, conf, "--landing", dsn)
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "restored-test"})
	require.NoError(t, err)
	_, err = c.Storage().Owner("bag", "41").Update(t.Context(), map[string][]byte{"a": []byte("before")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return dirtyAndLanded(t, p) == [2]int64{0, 1} }, servertest.Patience, 10*time.Millisecond)
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--http", p.HTTP, file)
	_, err = c.Storage().Owner("bag", "42").Update(t.Context(), map[string][]byte{"a": []byte("since")})
	require.NoError(t, err)
	landsIn(t, d, map[string]string{"a": "since"})
	require.NoError(t, c.Close())
	p.Stop()

	restored := process.New(t, conf, "--landing", dsn)
	restored.Data = filepath.Join(t.TempDir(), "data")
	process.Must(t, "restore", file, restored.Data)
	restored.Start()
	status, body := fields(t, restored)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"since"`)
}

// What a database has lost that was restored from its own backup is landed once more on demand.
func TestADatabaseThatWentBackInTimeIsLandedOnceMore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "players.db")
	d, err := landing.OpenDatabase("sqlite:" + file)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	defer db.Close()
	p := StartProcess(t, landedConf(t), "--landing", "sqlite:"+file)
	bag, done := bagOf(t, p)
	defer done()
	_, err = bag.Update(t.Context(), map[string][]byte{"a": []byte("1"), "b": []byte("2")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return dirtyAndLanded(t, p) == [2]int64{0, 2} }, servertest.Patience, 10*time.Millisecond)
	for _, statement := range []string{`DELETE FROM "1_1"`, `UPDATE confcenter__identity SET name = '' WHERE what = 'table/1_1'`} { // what it says of the table is as old
		_, err = db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	for since, want := range map[string]string{"2099-01-01T00:00:00Z": "0", "2020-01-01T00:00:00Z": "2"} {
		require.Equal(t, want, strings.TrimSpace(process.Must(t, "storage", "reland", "--addr", p.Addr, "--since", since)))
	}
	landsIn(t, d, map[string]string{"a": "1", "b": "2"})
}

// Owners whose table is missing or was emptied are not owners without fields, and none gets the fields of others.
func TestATableThatCannotBeReadIsSaidToBeSo(t *testing.T) {
	conf, file := landedConf(t), filepath.Join(t.TempDir(), "players.db")
	d, err := landing.OpenDatabase("sqlite:" + file)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	defer db.Close()
	change := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	_, err = d.Write(t.Context(), []field.DirtyRow{{Row: field.Row{Owner: field.Owner{App: "1", Region: "1", Logic: "bag", ID: "42"}, Name: "a", Value: []byte("1"), Version: 1}}})
	require.NoError(t, err)
	p := StartProcess(t, conf, "--landing", "sqlite:"+file)
	status, body := fields(t, p)
	require.Equal(t, http.StatusOK, status, body)
	p.Stop()

	refused := func(why string) {
		t.Helper()
		p.Start()
		status, body := fields(t, p)
		require.Equal(t, http.StatusBadGateway, status, body)
		require.Contains(t, body, why)
		bag, done := bagOf(t, p)
		defer done()
		_, err := bag.Incr(t.Context(), map[string]int64{"n": 1})
		require.ErrorIs(t, err, codes.Unreachable)
		require.ErrorContains(t, err, why)
		logsError(t, p, why)
		p.Stop()
	}
	for _, statement := range []string{`CREATE TABLE aside AS SELECT * FROM "1_1"`, `DELETE FROM "1_1"`} {
		change(statement)
	}
	refused("the table 1_1, in which fields have been landed, has been emptied, or made again")
	change(`INSERT INTO "1_1" SELECT * FROM aside`)
	change(`ALTER TABLE "1_1" RENAME TO away`)
	refused("the table 1_1, in which fields have been landed, is not in the landing database any more")
	change(`CREATE TABLE "1_1" (primary_key TEXT COLLATE NOCASE PRIMARY KEY, logic_type TEXT, owner_id TEXT, key TEXT, value BLOB, up_version BIGINT, is_del INT, del_time BIGINT, query_all_key TEXT, create_time BIGINT, update_time BIGINT)`)
	refused("the table 1_1, in which fields have been landed, is not what it was: its column primary_key has the collation NOCASE, under which different keys are equal")
	change(`DROP TABLE "1_1"`)
	change(`ALTER TABLE away RENAME TO "1_1"`)
	p.Start()
	status, body = fields(t, p)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"1"`)
}
