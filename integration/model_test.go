package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/internal/servertest"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/protocol"
)

// command is the command of that name.
func command(t *testing.T, name string) protocol.Command {
	t.Helper()
	for _, row := range protocol.Commands {
		if row.Name == name {
			return row.ID
		}
	}
	require.FailNow(t, "no such command", name)
	return 0
}

type modelStep struct{ name, body, want string }

func expectModel(t *testing.T, server *Process, steps []modelStep) {
	t.Helper()
	p := server.Peer()
	for _, s := range steps {
		t.Log(s.name, s.body)
		kvExpect(t, p, command(t, s.name), s.body, s.want)
	}
}

const application = `"parts":[{"key":"sess.S"},{"key":"flow.F","parent":"sess.S"},{"key":"node.N1","parent":"flow.F","fields":{"func":"run"}},{"key":"node.N2","parent":"flow.F"}]`

// What a program in any language says, and what it is answered.
func TestFlowConversation(t *testing.T) {
	t.Parallel()
	expectModel(t, players(t), []modelStep{
		{"FLTREE", `{}`, `{"code":0,"lines":[]}`},
		{"FLREGISTER", `{"app":"A","token":"t1",` + application + `}`, `{"code":0}`},
		{"FLREGISTER", `{"token":"t1","app":"A",` + application + `}`, `{"code":0}`},
		{"FLREGISTER", `{"app":"A","token":"t1"}`, `{"code":1019}`},
		{"FLJOIN", `{"key":"wokr.W","ttl":60000}`, `{"code":0}`},
		{"FLCLAIM", `{"worker":"wokr.W"}`, `{"code":0,"ukey":"node.N1","lkey":"flow.F.node"}`},
		{"FLCLAIM", `{"worker":"wokr.X"}`, `{"code":1021}`},
		{"FLSTATUS", `{"key":"node.N1","status":"WAITING"}`, `{"code":412}`},
		{"FLSTATUS", `{"key":"node.N1","status":"STARTING"}`, `{"code":0}`},
		{"FLLIST", `{"list":"flow.F.node","status":"STARTING"}`, `{"code":0,"members":[{"key":"node.N1","status":"STARTING"}]}`},
		{"FLTREE", `{"app":"A"}`, `{"code":0,"lines":[{"depth":0,"key":"cfapp.A"},{"depth":1},{"depth":2},{"depth":3,"status":"STARTING","worker":"W"},{"depth":3,"status":"WAITING"}]}`},

		{"FLTREE", `{"App":"A"}`, `{"code":400,"desc":"member \"App\" is not known here"}`},
		{"FLTREE", `{"app":1}`, `{"code":400,"desc":"member \"app\" must be a string"}`},
		{"FLTREE", `{"app":"A","app":"B"}`, `{"code":400,"desc":"member \"app\" is there twice"}`},
		{"FLTREE", `[]`, `{"code":1001}`},
		{"KVPUT", `{"ns":"@flow/cl","key":"k","value":1}`, `{"code":1027}`},
	})
}

func TestBenchConversation(t *testing.T) {
	t.Parallel()
	expectModel(t, players(t), []modelStep{
		{"BNNODES", `{}`, `{"code":0,"nodes":[]}`},
		{"BNREGISTERNODE", `{"node":{"id":"n1","addr":{"remoteAddr":"1.2.3.4:5"},"config":{"role":"loader"}}}`, `{"code":0,"id":"n1","node":{"addr":{"ip":"127.0.0.1"},"config":{"role":"LOADER"}}}`},
		{"BNADDNODE", `{"node":{"id":"n1"}}`, `{"code":1028}`},
		{"BNNODES", `{"role":"LOADER"}`, `{"code":0,"nodes":[{}]}`},
		{"BNNODES", `{"role":"CENTRAL"}`, `{"code":0,"nodes":[]}`},
		{"BNCOUNTNODES", `{}`, `{"code":0,"count":1}`},
		{"BNNODES", `{"role":"x"}`, `{"code":1029}`},
	})
}

// The same application, seen and changed over HTTP, by the Go client and on the command line.
func TestFlowOverEveryEdge(t *testing.T) {
	t.Parallel()
	server := players(t)
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequest(method, "http://"+server.HTTP+path, strings.NewReader(body))
		require.NoError(t, err)
		reply, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = reply.Body.Close() }()
		text, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		return reply.StatusCode, string(text)
	}
	verbs := newCLI(t, server)
	verbs.verb = "flow"
	parts := filepath.Join(t.TempDir(), "parts.json")
	_, list, _ := strings.Cut(application, ":")
	require.NoError(t, os.WriteFile(parts, []byte(list), 0o644))
	verbs.ok("register", "A", "--parts", "@"+parts)
	require.Equal(t, "MEMBER         STATUS   NAME  WORKER  TASKS", strings.Split(verbs.ok("tree"), "\n")[0])

	next, end := verbs.lines("tree", "--watch")
	until := func(what string) {
		for !strings.Contains(next(), what) {
		}
	}
	until("node.N2")
	status, body := ask("POST", "/v1/flow/join", `{"key":"wokr.W","ttl":60000}`)
	require.Equal(t, 200, status, body)
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{server.Addr}, Name: "worker"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	got, err := calls.Flow(c).Claim(t.Context(), &flow.ClaimAsk{Worker: "wokr.W"})
	require.NoError(t, err)
	require.Equal(t, "node.N1", got.Key)
	until("PENDDING")
	require.Zero(t, end(syscall.SIGINT))

	verbs.ok("status", "node.N1", "STARTING", "--worker", "wokr.W")
	status, body = ask("GET", "/v1/flow/list?list=flow.F.node&status=STARTING", "")
	require.Equal(t, 200, status, body)
	require.Contains(t, body, `"members":[{"key":"node.N1","status":"STARTING"}]`)
	_, err = calls.Flow(c).Status(t.Context(), &flow.StatusAsk{Key: "node.N1", Status: "PENDDING"})
	require.Error(t, err)
	_, err = calls.Flow(c).Show(t.Context(), &flow.ShowAsk{Key: "node.N9"})
	require.Equal(t, codes.NotFound, codes.Of(err))
	code, _, stderr := verbs.run("", "show", "node.N9")
	require.Equal(t, 3, code, stderr)
	code, _, stderr = verbs.run("", "tree", "--limit", "x")
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, `must be a whole number, not "x"`)

	nodes, err := calls.Bench(c).Nodes(t.Context(), &bench.NodesAsk{})
	require.NoError(t, err)
	require.Empty(t, nodes.Nodes)
}

// What belongs to the models is written by their operations alone: @flow itself, and whatever is
// below it.
func TestTheNamespacesOfModelsAreReserved(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	lease := fmt.Sprint(object(t, p.Call(protocol.KVLease, `{"ttl":60000}`))["lease"])
	for _, ns := range []string{"@flow", "@flow/", "@flow/cl", "@flow/a/b", "@bench", "@bench/x"} {
		for cmd, body := range map[protocol.Command]string{
			protocol.KVPut: `{"ns":%q,"key":"k","value":"v"}`, protocol.KVDel: `{"ns":%q,"key":"k"}`, protocol.KVIncr: `{"ns":%q,"key":"k"}`,
			protocol.KVDrop: `{"ns":%[1]q,"confirm":%[1]q}`, protocol.KVLock: `{"ns":%q,"key":"k","lease":` + lease + `}`,
		} {
			require.Equal(t, int(codes.Reserved), int(result(t, p.Call(cmd, fmt.Sprintf(body, ns))).Code), "%s %s", cmd, ns)
		}
		require.EqualValues(t, 404, result(t, p.Call(protocol.KVGet, fmt.Sprintf(`{"ns":%q,"key":"k"}`, ns))).Code, "everybody may read")
	}
}
