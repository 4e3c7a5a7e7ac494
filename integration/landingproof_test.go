package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/dbtest"
	"confcenter/integration/process"
	"confcenter/player/field"
	"confcenter/player/landing"
)

// A lander that writes elsewhere than the server reads would have it evict fields that it does
// not find again. It reports nothing as landed, says why, and goes on when the server has been
// started as it should be.
func TestALanderOfAnotherDatabaseLandsNothing(t *testing.T) {
	two := map[string]func() string{
		"MariaDB": func() string { return dbtest.MariaDB(t).Database(t) },
		"SQLite":  func() string { return "sqlite:" + filepath.Join(t.TempDir(), "players.db") },
	}
	for name, database := range two {
		t.Run(name, func(t *testing.T) {
			server, own := database(), database()
			flags := []string{"--landing", server, "--lander=false"}
			landerOfAnotherDatabase(t, flags, own, "does not load from", "give as --dsn or CONFCENTER_LANDING the database that it was started with")
		})
	}
	t.Run("none", func(t *testing.T) {
		landerOfAnotherDatabase(t, nil, two["SQLite"](), "no database is set up", "start the server with --landing")
	})
}

func landerOfAnotherDatabase(t *testing.T, flags []string, own string, want ...string) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(`{"homo.dirty.landing.delayTime":1}`), 0o644))
	d, err := landing.OpenDatabase(own)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	p := StartProcess(t, conf, flags...)
	bag, done := bagOf(t, p)
	_, err = bag.Update(t.Context(), map[string][]byte{"a": []byte("1")})
	require.NoError(t, err)
	done()

	lander := process.NewProgram(t, "landing", "--addr", p.Addr, "--dsn", own, "--name", "one")
	lander.Start()
	line := lander.Line("nothing is landed")
	for _, text := range append(want, p.Addr, d.Name()) {
		require.Contains(t, line, text)
	}
	if _, rest, ok := strings.Cut(own, "://"); ok {
		user, _, _ := strings.Cut(rest, "@")
		if _, password, _ := strings.Cut(user, ":"); password != "" {
			require.NotContains(t, lander.Said(), password)
		}
	}
	rows, err := d.All(t.Context(), field.Owner{App: "1", Region: "1", Logic: "bag", ID: "42"})
	require.NoError(t, err)
	require.Empty(t, rows)
	if flags != nil {
		require.Equal(t, [2]int64{1, 0}, dirtyAndLanded(t, p))
	}

	right := process.New(t, conf, "--landing", own, "--lander=false", "--landing-moved")
	p.Stop()
	right.Data, right.Addr = p.Data, p.Addr
	right.Start()
	lander.Line("landing goes on")
	landsIn(t, d, map[string]string{"a": "1"})
	require.Equal(t, 1, strings.Count(lander.Said(), "nothing is landed"), "it is said once")
	lander.Stop()
	rows, err = d.All(t.Context(), landing.Proof)
	require.NoError(t, err)
	require.Empty(t, rows, "the proof leaves nothing behind")
	require.Zero(t, countOwners(t, right, landing.Proof))
}

// countOwners counts those who have fields beside an owner, and that one.
func countOwners(t *testing.T, p *Process, o field.Owner) int64 {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "owners-test"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	n, err := c.StorageOf(o.App, o.Region).CountOwners(t.Context(), o.Logic)
	require.NoError(t, err)
	return int64(n)
}

// dirtyAndLanded are the sums over the dirty tables.
func dirtyAndLanded(t *testing.T, p *Process) (sums [2]int64) {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "status-test"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	tables, err := c.Landing().Status(t.Context())
	require.NoError(t, err)
	for _, table := range tables {
		sums[0] += int64(table.Dirty)
		sums[1] += int64(table.Landed)
	}
	return sums
}
