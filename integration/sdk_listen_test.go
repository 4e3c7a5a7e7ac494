package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// oldRole is what programs that can prove nothing may do.
const oldRole = `{"rules": [{"name": "old", "who": ["listener:old"], "allow": ["read", "watch"], "what": ["config:dev.json"]}]}`

// behind is a server with access control that knows programs by where they come in, and its
// administrator.
func behind(t *testing.T, as ...string) (*Process, *servertest.Peer) {
	t.Helper()
	conf := t.TempDir()
	files := cppFamily().Files
	files["_access/old.json"], files["secret.json"] = oldRole, `{"s":1}`
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(conf, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	srv := process.Start(t, conf, "--access-control", "--listen-as", strings.Join(as, ","))
	text, err := os.ReadFile(filepath.Join(srv.Data, "administrator.token"))
	require.NoError(t, err)
	root := servertest.Dial(t, srv.Addr)
	root.Identify(fmt.Sprintf(`{"svrid":0,"svrname":"root","token":%q}`, strings.TrimSpace(string(text))))
	return srv, root
}

// places are the forms in which --listen-as can mean a program on this machine.
var places = []string{"listen=old", "127.0.0.0/8=old", "127.0.0.1=old", "listen@127.0.0.0/8=old"}

// dying is what the SDK would die of, empty if it goes on.
func dying(died *func(string), do func()) (how string) {
	before := *died
	defer func() { *died = before }()
	defer func() {
		if cause, ok := recover().(string); ok {
			how = cause
		}
	}()
	*died = func(how string) { panic(how) }
	do()
	return ""
}

func TestCppSDKBehindListenAs(t *testing.T) {
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			srv, root := behind(t, place)
			c := newCppSDK(t, srv.Addr, `,"svrname":"app"`)
			require.Equal(t, "dev.json", c.init())
			c.load("dev.json")
			c.settle()
			c.has("dev.json", `{"c":1,"o":{"a":1},"a":1,"d":1}`)
			root.Set("dev.json", `{"d":2}`)
			c.changed()
			root.Set("common.json", `{"c":3}`) // which it may not read, but dev.json has it
			c.changed()
			c.has("dev.json", `{"c":3,"o":{"a":1},"a":1,"d":2}`)
			c.conn.Close()
			eventually(t, "its end", func() bool {
				return strings.Contains(root.Call(protocol.GetCli, fmt.Sprintf(`{"svrid":%d}`, c.id)), `"code":404`)
			})
			c.reconnect()
			c.settle()
			root.Set("secret.json", `{"s":2}`)
			fired := c.fired
			c.settle()
			require.Equal(t, fired, c.fired)

			// What it may not have looks like a file that cannot be loaded.
			other := newCppSDK(t, srv.Addr, `,"svrname":"app"`)
			other.init()
			for _, name := range []string{"secret.json", "none.json", "_access/old.json"} {
				require.Contains(t, dying(&other.died, func() { other.load(name) }), "cannot load a file (-52)", name)
			}
			other.load("dev.json")

			// While it runs, a refusal is logged and the old contents stay.
			c.send(protocol.GetConfig, `{"file_pattern":"secret.json","incbase":1}`)
			c.send(protocol.BookCfgChange, `{"file_pattern":"secret.json","incbase":"1"}`)
			c.settle()
			require.Equal(t, fired, c.fired)
			c.has("dev.json", `{"c":3,"o":{"a":1},"a":1,"d":2}`)
		})
	}
}

func TestPythonSDKBehindListenAs(t *testing.T) {
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			srv, root := behind(t, place)
			p := newPythonSDK(t, srv.Addr)
			p.connect()
			require.Positive(t, p.id)
			p.follow("dev.json")
			root.Set("dev.json", `{"d":2}`)
			p.until("dev.json", `{"a":1,"c":1,"d":2,"o":{"a":1}}`)
			refused := p.call(protocol.GetConfig, `{"file_pattern": "secret.json", "incbase": 1}`)
			p.load(servertest.Frame{Body: refused})
			require.Contains(t, refused, `"code":1025`)
			require.Nil(t, p.files["secret.json"])
			require.Contains(t, p.call(protocol.BookCfgChange, `{"file_pattern": "secret.json", "incbase": 1}`), `"code":1025`)
			root.Set("secret.json", `{"s":2}`)
			p.settle()
			root.Set("dev.json", `{"d":3}`)
			p.until("dev.json", `{"a":1,"c":1,"d":3,"o":{"a":1}}`)
		})
	}
}

// SDKs that come from elsewhere are refused in a way that they know: they start no further, and no
// thread of theirs ends.
func TestSDKsFromElsewhereAreRefused(t *testing.T) {
	for _, place := range []string{"10.0.0.0/8=old", "listen@10.0.0.0/8=old", "http=old"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			srv, _ := behind(t, place)
			c := newCppSDK(t, srv.Addr, `,"svrname":"app"`)
			require.Contains(t, dying(&c.died, func() { c.init() }), "fails to start (-4)")
			p := newPythonSDK(t, srv.Addr)
			p.connect()
			require.LessOrEqual(t, p.id, int32(0))
		})
	}
}

// Plum's SDK asks over HTTP and knows statuses.
func TestHTTPBehindListenAs(t *testing.T) {
	t.Parallel()
	srv, root := behind(t, "http@127.0.0.0/8=plum")
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/plum.json","contents":{"rules":[{"who":["listener:plum"],"allow":["*"],"what":["kv:plum"]}]}}`), `"code":0`)
	eventually(t, "the role", func() bool {
		status, _ := bearer(t, srv, "", http.MethodGet, "/v1/kv/plum", "")
		return status == 200
	})
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPut, "/v1/kv/plum/k", `{"type":"string","value":"v"}`, 200},
		{http.MethodGet, "/v1/kv/plum/k", "", 200},
		{http.MethodPost, "/v1/kv/plum/batch", `{"items":[{"key":"a","type":"string","value":"1"}]}`, 200},
		{http.MethodGet, "/v1/kv/plum", "", 200},
		{http.MethodDelete, "/v1/kv/plum/k", "", 204},
		{http.MethodPut, "/v1/kv/other/k", `{"type":"string","value":"v"}`, 403},
		{http.MethodGet, "/v1/kv/other/k", "", 403},
		{http.MethodPost, "/v1/kv/other/batch", `{"items":[{"key":"a","type":"string","value":"1"}]}`, 403},
		{http.MethodGet, "/v1/kv/other", "", 403},
		{http.MethodDelete, "/v1/kv/other/k", "", 403},
	} {
		status, text := bearer(t, srv, "", c.method, c.path, c.body)
		require.Equal(t, c.status, status, "%s %s %s", c.method, c.path, text)
		if status == 403 {
			require.Contains(t, text, "you may not")
		}
	}
}
