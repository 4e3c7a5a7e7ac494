package integration

import (
	"bytes"
	"encoding/json" // reads replies as their readers do
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/internal/servertest"
	"confcenter/kv"
	"confcenter/protocol"
)

// whatAudit are all lines, asked for by an administrator.
func whatAudit(t *testing.T, root *servertest.Peer) (lines []audit.Line) {
	reply := root.Call(protocol.OfModel("audit", 0), `{}`)
	var answer struct{ Lines []audit.Line }
	require.NoError(t, json.Unmarshal([]byte(reply), &answer), reply)
	return answer.Lines
}

// Over every edge: who, from where, what and with what outcome; never a value or a token.
func TestTheAuditHasWhatPeopleDo(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "audit.jsonl")
	srv, admin := guarded(t, "--audit-file", copied)
	root := as(t, srv, admin)
	id, text := tokenFor(t, root, "game-1")
	game := as(t, srv, text)
	require.Contains(t, game.Call(protocol.SetConfig, `{"filename":"game/a.json","contents":{"password":"hunter2"}}`), `"code":0`)
	require.Contains(t, game.Call(protocol.KVPut, `{"ns":"match","key":"k","value":"hunter2"}`), `"code":0`)
	for range 30 {
		require.Contains(t, game.Call(protocol.KVGet, `{"ns":"other","key":"k"}`), `"code":1025`)
	}
	require.Contains(t, game.Call(protocol.GetConfig, `{"file_pattern":"other.json"}`), `"code":1025`)
	status, _ := bearer(t, srv, text, "GET", "/v1/store/key?ns=secret&key=k", "")
	require.Equal(t, 403, status)
	status, _ = bearer(t, srv, admin, "PUT", "/v1/config/file?name=_access/more.json", `{"rules":[]}`)
	require.Equal(t, 200, status)
	status, _ = bearer(t, srv, "cct_0123456789abcdef_wrong", "GET", "/v1/store/key?ns=secret&key=k", "")
	require.Equal(t, 401, status)
	first, second := signIn(t, srv, text), signIn(t, srv, text)
	require.Contains(t, root.Call(protocol.OfModel("auth", 5), fmt.Sprintf(`{"id":%q}`, first)), `"code":0`)
	require.Contains(t, root.Call(protocol.OfModel("auth", 5), `{"who":"token:game-1"}`), `"code":0`)
	require.Contains(t, root.Call(protocol.OfModel("auth", 2), fmt.Sprintf(`{"id":%q}`, id)), `"code":0`)
	game.Closed()

	has := func(want string) func() bool {
		return func() bool {
			return slices.ContainsFunc(whatAudit(t, root), func(l audit.Line) bool {
				return want == fmt.Sprintf("%s %s %s %s %s %s", l.Kind, l.Who, l.Via, l.Do, strings.Join(l.What, " "), l.Outcome)
			})
		}
	}
	for _, want := range []string{
		"token  server make token:administrator id:" + strings.Split(admin, "_")[1] + " ok",
		"login token:administrator tcp WHOAMI  ok",
		"token token:administrator tcp make token:game-1 id:" + id + " ok",
		"login token:game-1 tcp WHOAMI  ok",
		"change token:game-1 tcp write config:game/a.json ok",
		"change token:game-1 tcp put kv:match/k ok",
		"denied token:game-1 tcp read kv:other/k forbidden",
		"denied token:game-1 tcp read config:other.json forbidden",
		"denied token:game-1 http read kv:secret/k forbidden",
		"permission token:administrator http write config:_access/more.json ok",
		"login  http store.get  not_identified",
		"login token:game-1 http request  ok",
		"login token:game-1 http sign in session:" + first + " ok",
		"logout token:administrator tcp end token:game-1 session:" + first + " ok",
		"logout token:administrator tcp end token:game-1 session:" + second + " ok",
		"token token:administrator tcp revoke token:game-1 id:" + id + " ok",
	} {
		require.Eventually(t, has(want), 20*time.Second, 20*time.Millisecond, want)
	}
	denied := 0
	for _, l := range whatAudit(t, root) {
		require.NotContains(t, strings.Join(l.What, " "), "access:", "the server's own keys")
		if l.Kind == "denied" && l.What[0] == "kv:other/k" {
			denied++
		}
	}
	require.LessOrEqual(t, denied, 2, "they are added up")
	srv.Stop()
	file, err := os.ReadFile(copied)
	require.NoError(t, err)
	for _, secret := range []string{"hunter2", text, admin, "wrong"} {
		require.NotContains(t, string(file), secret)
	}
	var c audit.Checker
	require.NoError(t, c.ReadAll(bytes.NewReader(file)))
	require.EqualValues(t, 1, c.First)
}

// signIn begins a session at the console, and returns its id.
func signIn(t *testing.T, srv *Process, token string) (id string) {
	r, err := http.NewRequest("POST", "http://"+srv.HTTP+"/v1/session", strings.NewReader(fmt.Sprintf(`{"token":%q}`, token)))
	require.NoError(t, err)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	reply, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer reply.Body.Close()
	var answer struct{ ID string }
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&answer))
	require.NotEmpty(t, answer.ID)
	return answer.ID
}

// A caller who may do everything else sees nothing of the audit in any way.
func TestTheAuditIsHiddenFromThoseWithoutTheRight(t *testing.T) {
	srv, admin := guarded(t)
	root := as(t, srv, admin)
	role := `{"rules":[{"who":["token:all"],"allow":["*"],"what":["config","kv","storage","landing","flow","bench","clients","services","log","status","roles"]}]}`
	status, text := bearer(t, srv, admin, "PUT", "/v1/config/file?name=_access/all.json", role)
	require.Equal(t, 200, status, text)
	_, token := tokenFor(t, root, "all")
	p := as(t, srv, token)
	tells := func(text string) bool {
		return strings.Contains(text, `"prev"`) || strings.Contains(text, "segments") || strings.Contains(text, "WHOAMI")
	}
	for _, ns := range []string{kv.AuditNamespace, kv.AuditLines} {
		for _, c := range []struct {
			cmd  protocol.Command
			body string
		}{
			{protocol.KVGet, `{"ns":%q,"key":"books"}`}, {protocol.KVList, `{"ns":%q}`}, {protocol.KVList, `{"ns":%q,"count":true}`}, {protocol.KVHistory, `{"ns":%q,"key":"books"}`},
			{protocol.KVWatch, `{"ns":%q,"state":true}`}, {protocol.KVPut, `{"ns":%q,"key":"books","value":"x"}`}, {protocol.KVDel, `{"ns":%q,"key":"books"}`},
			{protocol.KVTxn, `{"then":[{"op":"get","ns":%q,"key":"books"}]}`},
			{protocol.KVTxn, `{"if":[{"ns":%q,"key":"books","version":0,"rel":"eq"}]}`},
			{protocol.KVIncr, `{"ns":%q,"key":"books","by":1}`},
		} {
			reply := p.Call(c.cmd, fmt.Sprintf(c.body, ns))
			require.NotContains(t, reply, `"code":0`, "%v %s", c.cmd, ns)
			require.False(t, tells(reply), reply)
		}
		for _, path := range []string{"/v1/store/key?key=books&ns=", "/v1/store/keys?ns=", "/v1/store/history?key=books&ns=", "/v1/store/stream?state=1&ns="} {
			status, text := bearer(t, srv, token, "GET", path+ns, "")
			require.NotEqual(t, http.StatusOK, status, path)
			require.False(t, tells(text), text)
		}
	}
	for place := range 3 {
		require.Contains(t, p.Call(protocol.OfModel("audit", place), `{}`), `"code":1025`)
	}
	for _, path := range []string{"/v1/audit", "/v1/audit/lines", "/v1/audit/verify", "/v1/audit/head", "/v1/store/stream?state=1", "/v1/backup"} {
		status, text := bearer(t, srv, token, "GET", path, "")
		require.Equal(t, http.StatusForbidden, status, path)
		require.False(t, tells(text), text)
	}
	require.NotContains(t, p.Call(protocol.KVNames, `{}`), "@audit")
	require.Contains(t, root.Call(protocol.OfModel("audit", 2), `{}`), `"code":0`)
}
