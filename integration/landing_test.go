package integration

import (
	"database/sql"
	"fmt"
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
	_ "confcenter/player/landing/mysql" // databases of the tests
	_ "confcenter/player/landing/postgres"
	_ "confcenter/player/landing/sqlite"
	"confcenter/protocol"
)

// bagOf is the bag of one owner, on a connection of its own.
func bagOf(t *testing.T, p *Process) (bag *client.Owner, done func()) {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "landing-test"})
	require.NoError(t, err)
	return c.Storage().Owner("bag", "42"), func() { require.NoError(t, c.Close()) }
}

// landsIn waits until the database has these fields of the bag of one owner.
func landsIn(t *testing.T, d *landing.Database, want map[string]string) {
	t.Helper()
	bag := field.Owner{App: "1", Region: "1", Logic: "bag", ID: "42"}
	var got map[string]string
	require.Eventually(t, func() bool {
		rows, err := d.All(t.Context(), bag)
		if err != nil {
			return false
		}
		got = map[string]string{}
		for _, r := range rows {
			got[r.Name] = string(r.Value)
			if r.Removed {
				got[r.Name] += " removed"
			}
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, servertest.Patience, 10*time.Millisecond, "%v %v", &got, want)
}

// H29, H30 and H37: what was acknowledged is landed, by whichever server comes after the one that
// was killed, and the configuration says how often.
func TestLandingSurvivesAKilledServer(t *testing.T) {
	for name, dsn := range map[string]string{
		"MariaDB": dbtest.MariaDB(t).Database(t), "PostgreSQL": dbtest.PostgreSQL(t).Database(t), "SQLite": "sqlite:" + filepath.Join(t.TempDir(), "players.db"),
	} {
		t.Run(name, func(t *testing.T) {
			conf := filepath.Join(t.TempDir(), "conf")
			require.NoError(t, os.Mkdir(conf, 0o755))
			set := func(text string) {
				require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(text), 0o644))
			}
			set(`{"homo.dirty.landing.delayTime":3600000}`)
			d, err := landing.OpenDatabase(dsn)
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			p := StartProcess(t, conf, "--landing", dsn)
			bag, done := bagOf(t, p)
			update := func(fields map[string]string) {
				values := map[string][]byte{}
				for name, value := range fields {
					values[name] = []byte(value)
				}
				_, err := bag.Update(t.Context(), values)
				require.NoError(t, err)
			}
			update(map[string]string{"a": "1", "b": "\x00\xff"})
			done()
			p.Kill()
			set(`{"homo.dirty.landing.delayTime":50,"homo.dirty.tableNum":"4"}`)
			p.Start()
			bag, done = bagOf(t, p)
			defer done()
			landsIn(t, d, map[string]string{"a": "1", "b": "\x00\xff"})
			update(map[string]string{"a": "2"})
			_, err = bag.Remove(t.Context(), []string{"b"})
			require.NoError(t, err)
			landsIn(t, d, map[string]string{"a": "2", "b": "\x00\xff removed"})
			set(`{"homo.dirty.landing.delayTime":20,"homo.dirty.tableNum":2}`)
			p.Line("settings of landing have changed")
			update(map[string]string{"b": "3"})
			landsIn(t, d, map[string]string{"a": "2", "b": "3"})
		})
	}
}

// No matter who asks, confirm is how many refused fields are given up.
func TestGivingUpIsConfirmedTheSameWayOverEveryEdge(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(`{"homo.dirty.landing.delayTime":20}`), 0o644))
	file := filepath.Join(t.TempDir(), "players.db")
	p := StartProcess(t, conf, "--landing", "sqlite:"+file)
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "operator"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	bag, here := c.Storage().Owner("bag", "42"), c.Landing()
	update := func(fields map[string][]byte) {
		t.Helper()
		_, err := bag.Update(t.Context(), fields)
		require.NoError(t, err)
	}
	refused := func() (counts [2]int64) {
		tables, err := here.Status(t.Context())
		require.NoError(t, err)
		return [...]int64{tables[0].Refused, tables[0].Dropped}
	}
	update(map[string][]byte{"good": nil}) // the table is there once this is
	require.Eventually(t, func() bool { tables, err := here.Status(t.Context()); return err == nil && tables[0].Landed > 0 }, servertest.Patience, time.Millisecond)
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `CREATE TRIGGER picky BEFORE INSERT ON "1_1" WHEN NEW.key LIKE 'bad%' BEGIN SELECT RAISE(ABORT, 'not this one'); END`)
	require.NoError(t, err)
	update(map[string][]byte{"bad1": nil, "bad2": nil, "bad3": nil})
	require.Eventually(t, func() bool { return refused() == [...]int64{3, 0} }, servertest.Patience, time.Millisecond)

	const would = "landing 3 refused fields would be given up"
	shell := newCLI(t, p)
	shell.verb = "storage"
	code, _, stderr := shell.run("", "drop")
	require.Equal(t, 5, code)
	require.Contains(t, stderr, would)
	require.Contains(t, p.Peer().Call(protocol.StDrop, `{"confirm":2}`), would)
	_, err = here.Drop(t.Context(), 4)
	require.ErrorIs(t, err, codes.Unconfirmed)
	require.ErrorContains(t, err, would)
	drop := func(query string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+p.HTTP+"/v1/landing/errors?"+query, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	status, body := drop("confirm=1")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, would)
	require.Equal(t, [...]int64{3, 0}, refused())

	status, body = drop("logicType=bag&ownerId=42&name=bad1&confirm=1")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"count":1}`, body)
	rows := `"rows":[{"logicType":"bag","ownerId":"42","name":"bad1"},{"logicType":"bag","ownerId":"42","name":"bad2"}]`
	require.Contains(t, p.Peer().Call(protocol.StDrop, `{`+rows+`,"confirm":2}`), "landing 1 refused")
	require.JSONEq(t, `{"code":0,"count":1}`, p.Peer().Call(protocol.StDrop, `{`+rows+`,"confirm":1}`))
	require.JSONEq(t, `{"code":0,"count":0}`, p.Peer().Call(protocol.StDrop, `{`+rows+`,"confirm":1}`))
	require.Equal(t, "1", shell.ok("drop", "--confirm", "1"))
	require.Equal(t, [...]int64{0, 3}, refused())
	require.Regexp(t, `^\[\{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","name":"bad1","list":"dirtyKey:0error","revision":\d+,"reason":".*not this one.*","attempts":\d+,"first":\d+,"next":0,"dropped":true\},\{.*\}\]$`,
		shell.ok("errors", "-o", "json"))
	require.Regexp(t, `^\[\{"table":0,"list":"dirtyKey:0",.*"dropped":3,.*\}\]$`, shell.ok("status", "-o", "json"))
}

// The password is in no line of the log and no page.
func TestLandingKeepsItsPassword(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(`{"homo.dirty.landing.delayTime":50}`), 0o644))
	p := StartProcess(t, conf, "--landing", "mysql://u:geheim@127.0.0.1:1/db", "--log-level", "debug")
	bag, done := bagOf(t, p)
	defer done()
	_, err := bag.Update(t.Context(), map[string][]byte{"a": nil})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(p.Said(), "landing has to wait") }, servertest.Patience, time.Millisecond, "as it does from the beginning")
	require.NotContains(t, p.Said(), "geheim")
}

// A server that does not land itself, and a lander that outlives it.
func TestLandingInAProcessOfItsOwn(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(`{"homo.dirty.landing.delayTime":20,"homo.dirty.tableNum":4}`), 0o644))
	dsn := dbtest.MariaDB(t).Database(t)
	d, err := landing.OpenDatabase(dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	p := StartProcess(t, conf, "--landing", dsn, "--lander=false")
	bag, done := bagOf(t, p)
	update := func(value string) {
		t.Helper()
		_, err := bag.Update(t.Context(), map[string][]byte{"a": []byte(value), "b": []byte("\x00\xff")})
		require.NoError(t, err)
	}
	update("1")
	lander := process.StartLander(t, p, dsn, "one")
	landsIn(t, d, map[string]string{"a": "1", "b": "\x00\xff"})
	done()

	p.Stop()
	lander.Line("landing waits for the server")
	p.Start()
	lander.Line("connected to the server")
	bag, done = bagOf(t, p)
	defer done()
	update("2")
	landsIn(t, d, map[string]string{"a": "2", "b": "\x00\xff"})
	require.NotContains(t, lander.Said(), "has to wait", "it was the server that was away, and it is said once")

	lander.Stop()
	update("3")
	other := process.StartLander(t, p, dsn, "two") // which need not wait for the claim of the first one
	landsIn(t, d, map[string]string{"a": "3", "b": "\x00\xff"})
	other.Stop()
}

// A lander may be started before its server.
func TestLanderWaitsForItsServer(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "players.db")
	p := StartProcess(t, t.TempDir(), "--landing", dsn, "--lander=false")
	p.Stop()
	lander := process.NewProgram(t, "landing", "--addr", p.Addr, "--dsn", dsn)
	lander.Start()
	lander.Line("landing waits for the server")
	p.Start()
	lander.Line("ready")
	lander.Stop()
}
