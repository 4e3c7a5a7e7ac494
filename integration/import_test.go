package integration

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/dbtest"
	"confcenter/internal/servertest"
)

const importOwners = 12_000

// homoTable makes a database with a table as the framework does: an owner of bags for each
// number, who has gold.
func homoTable(t *testing.T) (dsn string) {
	t.Helper()
	dsn = dbtest.MariaDB(t).Database(t)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	name := u.Path[1:]
	db := dbtest.MariaDB(t).DB(t)
	for _, statement := range []string{
		"CREATE TABLE " + name + ".`1_1` (primary_key VARCHAR(255) NOT NULL, logic_type VARCHAR(255), owner_id VARCHAR(255), `key` VARCHAR(100), value BLOB, up_version BIGINT, " +
			"is_del INTEGER, del_time BIGINT DEFAULT 0, query_all_key VARCHAR(255), create_time BIGINT DEFAULT 0, update_time BIGINT DEFAULT 0, PRIMARY KEY (primary_key)) ENGINE=InnoDB DEFAULT CHARSET=utf8",
		"INSERT INTO " + name + ".`1_1` SELECT CONCAT('bag:', seq, ':gold'), 'bag', seq, 'gold', '1000', NULL, 0, 0, CONCAT('bag:', seq), 1, 2 FROM " + name + ".seq_1_to_" + strconv.Itoa(importOwners),
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	return dsn
}

// rowsOf counts rows of the table in the database of a DSN.
func rowsOf(t *testing.T, dsn string) (count func(where string) int) {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	db := dbtest.MariaDB(t).DB(t)
	return func(where string) (n int) {
		if err := db.QueryRow("SELECT COUNT(*) FROM " + u.Path[1:] + ".`1_1` WHERE " + where).Scan(&n); err != nil {
			return 0 // there is no table yet
		}
		return n
	}
}

// An import is killed and started again while the server is being used: what was written there
// stays, before as after it has been landed, and everything else is found.
func TestAnImportBesideARunningServer(t *testing.T) {
	from, to := homoTable(t), dbtest.MariaDB(t).Database(t)
	rows := rowsOf(t, to)
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	delay := func(ms int) {
		require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), fmt.Appendf(nil, `{"homo.dirty.landing.delayTime":%d}`, ms), 0o644))
	}
	delay(20)
	p := StartProcess(t, conf, "--landing", to)
	connected, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "import-test"})
	require.NoError(t, err)
	defer func() { require.NoError(t, connected.Close()) }()
	gold := func(owner int) string {
		fields, err := connected.Storage().Owner("bag", strconv.Itoa(owner)).Get(t.Context(), "gold")
		require.NoError(t, err)
		return string(fields["gold"])
	}
	write := func(owner int, value string) {
		_, err := connected.Storage().Owner("bag", strconv.Itoa(owner)).Update(t.Context(), map[string][]byte{"gold": []byte(value)})
		require.NoError(t, err)
	}
	write(1, "landed")
	_, err = connected.Storage().Owner("bag", "2").Update(t.Context(), map[string][]byte{"gold": []byte("gone")})
	require.NoError(t, err)
	_, err = connected.Storage().Owner("bag", "2").Remove(t.Context(), []string{"gold"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return rows("TRUE") == 2 }, servertest.Patience, 10*time.Millisecond)
	delay(3_600_000)
	p.Line("settings of landing have changed")
	write(3, "dirty")
	require.Empty(t, gold(4), "and that is remembered")

	writing, stop := context.WithCancel(t.Context())
	wrote := make(chan int, 1)
	go func() {
		n := 0
		for ; writing.Err() == nil; n++ {
			write(100+n%(importOwners/2), "mine")
		}
		wrote <- n
	}()
	c := newCLI(t, p)
	c.verb = "storage"
	command := c.command("import")
	command.Env = append(command.Env, "CONFCENTER_FROM="+from, "CONFCENTER_LANDING="+to)
	require.NoError(t, command.Start())
	require.Eventually(t, func() bool { return rows("TRUE") > 2 }, servertest.Patience, time.Millisecond)
	require.NoError(t, command.Process.Kill())
	_ = command.Wait()

	again := c.command("import", "-o", "json")
	again.Env = command.Env
	out, err := again.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf(`[{"converted":0,"copied":true,"into":"1_1","missing":0,"odd":0,"refused":0,"rows":%d,"table":"1_1","there":%[1]d}]`, importOwners))
	stop()
	mine := min(<-wrote, importOwners/2)
	delay(20)
	for _, land := range []bool{false, true} {
		if land {
			require.Eventually(t, func() bool { return rows("value = 'mine'") == mine }, servertest.Patience, 20*time.Millisecond)
		}
		for owner, want := range map[int]string{1: "landed", 2: "", 3: "dirty", 4: "1000", 100: "mine", 99 + mine: "mine", importOwners - 1: "1000", importOwners: "1000"} {
			require.Equal(t, want, gold(owner), "owner %d", owner)
		}
		n, err := connected.Storage().CountOwners(t.Context(), "bag")
		require.NoError(t, err)
		require.EqualValues(t, importOwners-1, n)
	}
	sums, err := connected.Storage().Owner("bag", strconv.Itoa(importOwners)).Incr(t.Context(), map[string]int64{"gold": 1})
	require.NoError(t, err)
	require.EqualValues(t, 1001, sums.Values["gold"])
}

func TestAnImportNeedsAServerThatLands(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	from := "sqlite:" + filepath.Join(t.TempDir(), "from.db")
	for _, one := range []struct {
		flags []string
		want  string
	}{
		{nil, "no database is set up that fields could be landed in: start the server with --landing"},
		{[]string{"--landing", "sqlite:" + filepath.Join(t.TempDir(), "its.db")}, "give as --landing the database that it was started with"},
	} {
		c := newCLI(t, StartProcess(t, conf, one.flags...))
		c.verb = "storage"
		code, _, stderr := c.run("", "import", "--from", from, "--landing", "sqlite:"+filepath.Join(t.TempDir(), "to.db"))
		require.Equal(t, 5, code, stderr)
		require.Contains(t, stderr, one.want)
	}
	c := newCLI(t, StartProcess(t, conf))
	c.verb = "storage"
	for want, args := range map[string][]string{
		"import needs two databases":                {"import"},
		"--app and --region go together":            {"import", "--from", from, "--landing", from, "--app", "1"},
		"from: the DSN of the landing database is ": {"import", "--from", "mysql://u:geheim@h", "--landing", from},
	} {
		code, _, stderr := c.run("", args...)
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, want)
		require.NotContains(t, stderr, "geheim")
	}
}
