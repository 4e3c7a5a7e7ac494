package integration

import (
	"encoding/json" // reads replies as their readers do
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

const gameRole = `{"rules": [
	{"name": "own files", "who": ["token:game-1"], "allow": ["read", "watch", "write"], "what": ["config:game/*", "kv:match"]},
	{"name": "old programs", "who": ["listener:old"], "allow": ["read", "watch"], "what": ["config:app1-dev.json"]}]}`

// guarded is a server with access control, and the token of its administrator.
func guarded(t *testing.T, flags ...string) (srv *Process, admin string) {
	conf := sampleConf(t)
	for name, text := range map[string]string{"_access/games.json": gameRole, "game/a.json": `{"a":1}`, "other.json": `{"o":1}`} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(conf, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	srv = process.Start(t, conf, append([]string{"--access-control", "--refusal-delay", "0"}, flags...)...)
	path := filepath.Join(srv.Data, "administrator.token")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return srv, strings.TrimSpace(string(text))
}

// as is a connection that has said who it is.
func as(t *testing.T, srv *Process, token string) *servertest.Peer {
	p := servertest.Dial(t, srv.Addr)
	p.Identify(fmt.Sprintf(`{"svrid":0,"svrname":"game","token":%q}`, token))
	return p
}

// tokenFor makes a token.
func tokenFor(t *testing.T, admin *servertest.Peer, name string, groups ...string) (id, text string) {
	ask, err := json.Marshal(map[string]any{"name": name, "groups": groups})
	require.NoError(t, err)
	var made struct{ ID, Text string }
	reply := admin.Call(protocol.OfModel("auth", 0), string(ask))
	require.NoError(t, json.Unmarshal([]byte(reply), &made), reply)
	require.NotEmpty(t, made.Text, reply)
	return made.ID, made.Text
}

// bearer asks over HTTP, with a token unless it is empty.
func bearer(t *testing.T, srv *Process, token, method, path, body string) (status int, text string) {
	r, err := http.NewRequest(method, "http://"+srv.HTTP+path, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(all)
}

func TestOnlyWhoProvesToBeSomebodyIsLetIn(t *testing.T) {
	srv, admin := guarded(t)
	for _, body := range []string{`{"svrid":0}`, `{"svrid":0,"token":"cct_0123456789abcdef_x"}`, `{"svrid":0,"token":7}`} {
		p := servertest.Dial(t, srv.Addr)
		refused := whoami(t, p, body)
		require.EqualValues(t, 401, refused.Code, body)
		p.Closed()
	}
	root := as(t, srv, admin)
	require.Contains(t, root.Call(protocol.GetConfig, `{"file_pattern":"other.json"}`), `"o":1`)
	require.NotContains(t, root.Call(protocol.GetCli, `{}`), "cct_", "nobody sees the tokens of others")

	for _, path := range []string{"/v1/config/files", "/v1/kv", "/metrics", "/v1/status"} {
		status, text := bearer(t, srv, "", "GET", path, "")
		require.Equal(t, 401, status, "%s %s", path, text)
		status, _ = bearer(t, srv, admin+"x", "GET", path, "")
		require.Equal(t, 401, status, path)
		status, text = bearer(t, srv, admin, "GET", path, "")
		require.Contains(t, []int{200, 404}, status, "%s %s", path, text)
	}
	status, _ := bearer(t, srv, "", "GET", "/readyz", "")
	require.Equal(t, 200, status)
}

func TestRolesSayWhatATokenMayDo(t *testing.T) {
	srv, admin := guarded(t)
	root := as(t, srv, admin)
	id, text := tokenFor(t, root, "game-1")
	p := as(t, srv, text)
	require.Contains(t, p.Call(protocol.GetConfig, `{"file_pattern":"game/a.json"}`), `"a":1`)
	require.Contains(t, p.Call(protocol.SetConfig, `{"filename":"game/a.json","contents":{"a":2}}`), `"code":0`)
	require.Contains(t, p.Call(protocol.KVPut, `{"ns":"match","key":"k","type":"int","value":1}`), `"code":0`)
	for _, c := range []struct {
		cmd  protocol.Command
		body string
	}{
		{protocol.GetConfig, `{"file_pattern":"other.json"}`},
		{protocol.GetConfig, `{"file_pattern":"_access/games.json"}`},
		{protocol.SetConfig, `{"filename":"other.json","contents":{}}`},
		{protocol.SetConfig, `{"filename":"_access/games.json","contents":{"rules":[{"who":["*"],"allow":["*"],"what":["*"]}]}}`},
		{protocol.KVGet, `{"ns":"other","key":"k"}`},
		{protocol.OfModel("auth", 0), `{"name":"game-2"}`},
		{protocol.OfModel("auth", 1), `{}`},
	} {
		require.Contains(t, p.Call(c.cmd, c.body), `"code":1025`, "%v %s", c.cmd, c.body)
	}
	names := p.Call(protocol.GetCfgName, `{}`)
	require.Contains(t, names, "game/a.json")
	require.NotContains(t, names, "other.json")
	require.NotContains(t, names, "_access")
	require.Contains(t, p.Call(protocol.Whoami, fmt.Sprintf(`{"svrid":0,"token":%q,"tag":"x"}`, text)), `"code":0`)

	status, body := bearer(t, srv, text, "GET", "/v1/config/file?name=game/a.json", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `\"a\":2`)
	status, _ = bearer(t, srv, text, "GET", "/v1/config/file?name=other.json", "")
	require.Equal(t, 403, status)

	// who did it is what was proved
	_, body = bearer(t, srv, admin, "GET", "/v1/history/log?name=game/a.json", "")
	require.Contains(t, body, `"author":"token:game-1"`)

	_, body = bearer(t, srv, admin, "GET", "/v1/auth/can?name=token:game-1&verb=read&what=config:game/a.json", "")
	require.Contains(t, body, `"allowed":true`)
	require.Contains(t, body, `own files`)

	// another token does not make the connection another's
	_, second := tokenFor(t, root, "game-2")
	require.EqualValues(t, 400, whoami(t, p, fmt.Sprintf(`{"svrid":0,"token":%q}`, second)).Code)

	// the end of a token is that of what came by it
	p = as(t, srv, text)
	stream := openStream(t, srv, text, "/v1/store/stream?ns=match&key=k")
	root.Call(protocol.OfModel("auth", 2), fmt.Sprintf(`{"id":%q}`, id))
	p.Closed()
	stream.awaitEnd()
	require.EqualValues(t, 401, whoami(t, servertest.Dial(t, srv.Addr), fmt.Sprintf(`{"svrid":0,"token":%q}`, text)).Code)
}

// TestAnotherTokenOfTheSameNameTakesNothingAway: what a connection already watches would go on, by a
// right that it has no more, and would not end with the token that gave it.
func TestAnotherTokenOfTheSameNameTakesNothingAway(t *testing.T) {
	srv, admin := guarded(t)
	root := as(t, srv, admin)
	_, less := tokenFor(t, root, "game-1")
	id, more := tokenFor(t, root, "game-1", "administrators")
	again := func(token string) string { return fmt.Sprintf(`{"svrid":0,"token":%q}`, token) }

	p := as(t, srv, less)
	require.Contains(t, p.Call(protocol.Whoami, again(more)), `"code":0`, "a token that allows more may follow")
	require.Contains(t, p.Call(protocol.KVWatch, `{"ns":"other"}`), `"code":0`)
	require.Contains(t, p.Call(protocol.Whoami, again(less)), `"code":400`)
	p.Closed()

	p = as(t, srv, more)
	require.Contains(t, p.Call(protocol.KVWatch, `{"ns":"other"}`), `"code":0`)
	require.Contains(t, root.Call(protocol.OfModel("auth", 2), fmt.Sprintf(`{"id":%q}`, id)), `"code":0`)
	p.Closed()
}

func TestARoleThatIsTakenAwayEndsWhatDependsOnIt(t *testing.T) {
	srv, admin := guarded(t)
	root := as(t, srv, admin)
	_, text := tokenFor(t, root, "game-1")
	watching, writing := as(t, srv, text), as(t, srv, text)
	require.Contains(t, watching.Call(protocol.KVWatch, `{"ns":"match","key":"k"}`), `"code":0`)
	stream := openStream(t, srv, text, "/v1/store/stream?ns=match&key=k")

	// more than before disturbs no one
	more := strings.Replace(gameRole, `"kv:match"`, `"kv:match", "kv:more"`, 1)
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/games.json","contents":`+more+`}`), `"code":0`)
	eventually(t, "more rights", func() bool {
		return !strings.Contains(writing.Call(protocol.KVPut, `{"ns":"more","key":"k","type":"int","value":1}`), `"code":1025`)
	})
	require.Contains(t, watching.Call(protocol.KVGet, `{"ns":"more","key":"k"}`), `"code":0`)

	less := strings.Replace(gameRole, `"kv:match"`, `"kv:other"`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(srv.Conf, "_access/games.json"), []byte(less), 0o644), "by an editor")
	watching.Closed()
	writing.Closed()
	stream.awaitEnd()
	require.Contains(t, as(t, srv, text).Call(protocol.KVGet, `{"ns":"match","key":"k"}`), `"code":1025`)
	require.Contains(t, root.Call(protocol.KVGet, `{"ns":"match","key":"k"}`), `"code":`, "the administrator stays")
}

// Leases outlive connections, so that locks would be held by who may no longer have them.
func TestALeaseEndsWithTheTokenOfItsOwner(t *testing.T) {
	srv, admin := guarded(t)
	root := as(t, srv, admin)
	id, text := tokenFor(t, root, "game-1")
	_, second := tokenFor(t, root, "game-2")
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/locks.json","contents":{"rules":[{"who":["token:game-*"],"allow":["lock","read"],"what":["kv:locks"]}]}}`), `"code":0`)
	mine, theirs := as(t, srv, text), as(t, srv, second)
	granted := mine.Call(protocol.KVLease, `{"ttl":3600000}`)
	var lease struct{ Lease int64 }
	require.NoError(t, json.Unmarshal([]byte(granted), &lease))
	require.Positive(t, lease.Lease, granted)
	lock := fmt.Sprintf(`{"ns":"locks","key":"k","lease":%d}`, lease.Lease)
	require.Contains(t, mine.Call(protocol.KVLock, lock), `"granted":1`)
	require.Contains(t, theirs.Call(protocol.KVLock, lock), `"code":1021`)
	require.Contains(t, theirs.Call(protocol.KVAlive, fmt.Sprintf(`{"lease":%d}`, lease.Lease)), `"code":1021`)

	srv.Restart()
	root, mine, theirs = as(t, srv, admin), as(t, srv, text), as(t, srv, second)
	about := fmt.Sprintf(`{"lease":%d}`, lease.Lease)
	require.Contains(t, mine.Call(protocol.KVAlive, about), `"code":0`)
	require.Contains(t, theirs.Call(protocol.KVRevoke, about), `"code":1021`)
	root.Call(protocol.OfModel("auth", 2), fmt.Sprintf(`{"id":%q}`, id))
	began := time.Now()
	eventually(t, "the lock is free", func() bool {
		return !strings.Contains(theirs.Call(protocol.KVGet, `{"ns":"locks","key":"k"}`), `"code":0`)
	})
	require.Less(t, time.Since(began), 5*time.Second, "within about a second")
}

// Programs that know of no tokens get what their listener may have.
func TestProgramsWithoutTokensAreWhoTheirListenerIs(t *testing.T) {
	srv, _ := guarded(t, "--listen-as", "listen=old,http@127.0.0.0/8=web")
	p := servertest.Dial(t, srv.Addr)
	p.Identify(`{"svrid":0,"svrname":"app1","clitype":100}`)
	require.Contains(t, p.Call(protocol.GetConfig, `{"file_pattern":"app1-dev.json"}`), `"code":0`)
	require.Contains(t, p.Call(protocol.GetConfig, `{"file_pattern":"other.json"}`), `"code":1025`)
	status, text := bearer(t, srv, "", "GET", "/v1/config/file?name=app1-dev.json", "")
	require.Equal(t, 403, status, text)
}

// openedStream is a stream of events over HTTP.
type openedStream struct {
	t    *testing.T
	body io.ReadCloser
}

func openStream(t *testing.T, srv *Process, token, path string) openedStream {
	r, err := http.NewRequest("GET", "http://"+srv.HTTP+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { got.Body.Close() })
	require.Equal(t, 200, got.StatusCode)
	return openedStream{t, got.Body}
}

// awaitEnd reads until the server ends the stream.
func (s openedStream) awaitEnd() { s.rest() }

// rest is what there is to read until the server ends the stream.
func (s openedStream) rest() string {
	tooLong := time.AfterFunc(servertest.Patience, func() { _ = s.body.Close() })
	text, _ := io.ReadAll(s.body) // which fails if the connection is cut
	require.True(s.t, tooLong.Stop(), "the stream goes on")
	return string(text)
}
