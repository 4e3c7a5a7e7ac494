package integration

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/dbtest"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/storage/landing"
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

// A server with another database, an empty one or none answers for nothing that it does not have
// itself, and serves everything else.
func TestAServerTakesNoOtherDatabase(t *testing.T) {
	for name, database := range map[string]func() string{
		"MariaDB": func() string { return dbtest.MariaDB(t).Database(t) }, "PostgreSQL": func() string { return dbtest.PostgreSQL(t).Database(t) },
		"SQLite": func() string { return "sqlite:" + filepath.Join(t.TempDir(), "players.db") },
	} {
		t.Run(name, func(t *testing.T) {
			conf := filepath.Join(t.TempDir(), "conf")
			require.NoError(t, os.Mkdir(conf, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(`{"homo.dirty.landing.delayTime":20}`), 0o644))
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
			require.Contains(t, second.Line("fail until this is put right"), `"level":"error"`)
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
			require.Eventually(t, func() bool { status, body = fields(t, moved); return status == http.StatusOK }, servertest.Patience, 1)
			require.Contains(t, body, `"2"`)
			require.False(t, strings.Contains(moved.Said(), "fail until this is put right"))
		})
	}
}
