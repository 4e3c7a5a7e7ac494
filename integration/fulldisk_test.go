package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/protocol"
)

// TestRightsAreTakenAwayWithNoByteFree: below a quarter of the reserve nothing is written, not even
// deletes, but for the end of a token and a role that becomes less. Both last.
func TestRightsAreTakenAwayWithNoByteFree(t *testing.T) {
	conf := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(conf, "_access"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "_access/games.json"), []byte(gameRole), 0o644))
	srv := process.New(t, conf, "--access-control")
	srv.Start()
	text, err := os.ReadFile(filepath.Join(srv.Data, "administrator.token"))
	require.NoError(t, err)
	admin := strings.TrimSpace(string(text))
	root := as(t, srv, admin)
	id, token := tokenFor(t, root, "game-1")
	_, other := tokenFor(t, root, "game-1")
	require.Contains(t, root.Call(protocol.KVPut, `{"ns":"match","key":"k","value":"v"}`), `"code":0`)
	srv.Stop()

	full := process.New(t, conf, "--access-control", "--kv-reserve", "1000TiB")
	full.Data = srv.Data
	full.Start()
	root = as(t, full, admin)
	game := as(t, full, token)
	for cmd, body := range map[protocol.Command]string{
		protocol.KVPut: `{"ns":"match","key":"k","value":"w"}`, protocol.KVDel: `{"ns":"match","key":"k"}`, protocol.OfModel("auth", 0): `{"name":"game-2"}`,
		protocol.SetConfig: `{"filename":"a.json","contents":{}}`,
	} {
		require.Contains(t, root.Call(cmd, body), `"code":507`, body)
	}
	role := func(text string) string {
		return root.Call(protocol.SetConfig, `{"filename":"_access/games.json","contents":`+text+`}`)
	}
	require.Contains(t, role(strings.Replace(gameRole, `"kv:match"`, `"kv"`, 1)), `"code":507`, "it gives something")
	require.Contains(t, root.Call(authRevoke, fmt.Sprintf(`{"id":%q}`, id)), `"code":0`)
	game.Closed()
	game = as(t, full, other)
	require.Contains(t, game.Call(protocol.KVGet, `{"ns":"match","key":"k"}`), `"code":0`)
	require.Contains(t, role(strings.Replace(gameRole, `, "kv:match"`, ``, 1)), `"code":0`)
	game.Closed()

	full.Restart()
	require.Contains(t, as(t, full, other).Call(protocol.KVGet, `{"ns":"match","key":"k"}`), `"code":1025`)
	status, _ := bearer(t, full, token, "GET", "/v1/config/files", "")
	require.Equal(t, 401, status)
	status, text2 := bearer(t, full, admin, "GET", "/v1/history/log?name=_access/games.json", "")
	require.Equal(t, 200, status)
	require.Equal(t, 2, strings.Count(text2, `"kind":`), text2)
}
