package integration

import (
	"bytes"
	"encoding/json" // reads replies as their readers do
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

const twoRole = `{
	"approval": ["config:live/*", "kv:live"],
	"rules": [
		{"who": ["token:zoe", "token:max", "listener:web"], "allow": ["*"], "what": ["config:live/*", "config:base.json", "kv:live", "kv:free"]},
		{"who": ["listener:old"], "allow": ["read", "write"], "what": ["config:live/*"]},
		{"who": ["token:stranger"], "allow": ["*"], "what": ["kv:free"]}
	]}`

// twoPersons is a server where something is marked, and tokens for two.
func twoPersons(t *testing.T, flags ...string) (srv *Process, admin string, tokens map[string]string) {
	srv, admin = guarded(t, flags...)
	root := as(t, srv, admin)
	tokens = map[string]string{}
	for _, name := range []string{"zoe", "max", "stranger"} {
		_, tokens[name] = tokenFor(t, root, name)
	}
	_, tokens["stolen"] = tokenFor(t, root, "zoe")
	require.NoError(t, os.MkdirAll(filepath.Join(srv.Conf, "live"), 0o755))
	for name, text := range map[string]string{"live/a.json": `{"a":1}`, "live/heir.json": `{}`, "base.json": `{"b":1}`,
		"_meta.json": `{"conf_inherit":{"live/heir.json":"base.json"}}`, "_access/two.json": twoRole} {
		require.NoError(t, os.WriteFile(filepath.Join(srv.Conf, name), []byte(text), 0o644))
	}
	eventually(t, "the marks", func() bool {
		status, _ := bearer(t, srv, tokens["zoe"], "GET", "/v1/config/file?name=live/heir.json", "")
		return status == 200
	})
	return srv, admin, tokens
}

var heldAs = regexp.MustCompile(`held as change (\d+)`)

// heldIn is the number under which a reply says that a change is held.
func heldIn(t *testing.T, reply string) int64 {
	m := heldAs.FindStringSubmatch(reply)
	require.NotNil(t, m, reply)
	number, err := strconv.ParseInt(m[1], 10, 64)
	require.NoError(t, err)
	return number
}

// Every way to change something, over TCP and HTTP: what is marked waits.
func TestEveryWayToChangeWhatIsMarkedIsHeld(t *testing.T) {
	srv, admin, tokens := twoPersons(t, "--listen-as", "listen@127.0.0.0/8=old")
	zoe := as(t, srv, tokens["zoe"])
	require.Contains(t, zoe.Call(protocol.KVPut, `{"ns":"free","key":"a","value":"1"}`), `"code":0`)
	const role = `{"rules":[]}`
	var numbers []int64
	for _, c := range []struct {
		cmd  protocol.Command
		body string
	}{
		{protocol.SetConfig, `{"filename":"live/a.json","contents":{"a":2}}`},
		{protocol.SetConfig, `{"filename":"live/a.json","contents":null}`},
		{protocol.SetConfig, `{"filename":"base.json","contents":{"b":2}}`},
		{protocol.KVPut, `{"ns":"live","key":"k","value":"1"}`},
		{protocol.KVIncr, `{"ns":"live","key":"k"}`},
		{protocol.KVCas, `{"ns":"live","key":"k","expect":null,"value":"1"}`},
		{protocol.KVTxn, `{"ns":"free","then":[{"op":"put","key":"b","value":"1"},{"op":"put","ns":"live","key":"k","value":"1"}]}`},
		{protocol.KVDel, `{"ns":"live","key":"k"}`},
	} {
		reply := zoe.Call(c.cmd, c.body)
		require.Contains(t, reply, `"code":1030`, "%v %s", c.cmd, c.body)
		numbers = append(numbers, heldIn(t, reply))
	}
	for _, c := range [][3]string{
		{"PUT", "/v1/config/file?name=live/a.json", `{"a":3}`},
		{"DELETE", "/v1/config/file?name=live/a.json", ""},
		{"PUT", "/v1/store/key?ns=live&key=k", `{"value":"x"}`},
		{"POST", "/v1/store/batch?ns=live", `{"items":[{"key":"k","value":"x"}]}`},
		{"POST", "/v1/store/incr?ns=live&key=k", `{}`},
		{"POST", "/v1/store/txn", `{"then":[{"op":"put","ns":"live","key":"k","value":"x"}]}`},
		{"PUT", "/v1/kv/live/k", `{"value":"x"}`},
		{"DELETE", "/v1/kv/live/k", ``},
		{"POST", "/v1/history/apply", `{"documents":[{"name":"live/b.json","text":"{}"},{"name":"base.json","keep":true}]}`},
	} {
		token := tokens["zoe"]
		if strings.HasPrefix(c[1], "/v1/history") {
			token = admin
		}
		status, body := bearer(t, srv, token, c[0], c[1], c[2])
		require.Equal(t, 409, status, "%v %s", c, body)
		number := heldIn(t, body)
		numbers = append(numbers, number)
		if !strings.HasPrefix(c[1], "/v1/kv/") {
			require.Contains(t, body, `"error":"held"`)
			require.Contains(t, body, fmt.Sprintf(`"held":%d`, number))
		}
	}
	root := as(t, srv, admin)
	for _, text := range []string{role, "null"} {
		numbers = append(numbers, heldIn(t, root.Call(protocol.SetConfig, `{"filename":"_access/two.json","contents":`+text+`}`)))
	}
	for i, number := range numbers {
		require.EqualValues(t, i+1, number)
	}
	for _, c := range []string{`{"ns":"live","key":"k","lease":%d}`} {
		lease := root.Call(protocol.KVLease, `{"ttl":60000}`)
		var granted struct{ Lease int64 }
		require.NoError(t, json.Unmarshal([]byte(lease), &granted), lease)
		require.Contains(t, root.Call(protocol.KVLock, fmt.Sprintf(c, granted.Lease)), `"code":402`, "it cannot be a lock")
	}
	// a dry run says so
	_, body := bearer(t, srv, admin, "POST", "/v1/history/apply", `{"documents":[{"name":"live/a.json","text":"{}"}],"dry_run":true}`)
	require.Contains(t, body, `"approval":["live/a.json"]`)

	old := servertest.Dial(t, srv.Addr) // knows of no tokens
	old.Identify(`{"svrid":0,"svrname":"app1","clitype":100}`)
	reply := old.Call(protocol.SetConfig, `{"filename":"live/a.json","contents":{"a":9}}`)
	require.Contains(t, reply, `"code":1030`)
	heldIn(t, reply)

	require.Contains(t, zoe.Call(protocol.GetConfig, `{"file_pattern":"live/a.json"}`), `"a":1`)
	require.Contains(t, zoe.Call(protocol.KVGet, `{"ns":"live","key":"k"}`), `"code":404`)
	require.Contains(t, zoe.Call(protocol.KVGet, `{"ns":"free","key":"b"}`), `"code":404`)
	require.Contains(t, as(t, srv, tokens["stranger"]).Call(protocol.OfModel("review", 0), `{}`), `"changes":[]`)
	require.Contains(t, zoe.Call(protocol.KVGet, `{"ns":"@review","key":"last"}`), `"code":1025`)
}

func TestTwoPersonsChangeWhatIsMarked(t *testing.T) {
	srv, admin, tokens := twoPersons(t)
	zoe, other := as(t, srv, tokens["zoe"]), as(t, srv, tokens["max"])
	number := heldIn(t, zoe.Call(protocol.SetConfig, `{"filename":"live/a.json","contents":{"a":2},"comment":"for the sale"}`))
	keys := heldIn(t, zoe.Call(protocol.KVTxn, `{"ns":"live","then":[{"op":"put","key":"k","value":"1"},{"op":"put","key":"l","value":"2"}]}`))
	thief := as(t, srv, tokens["stolen"])
	stolen := []int64{
		heldIn(t, thief.Call(protocol.SetConfig, `{"filename":"live/a.json","contents":{"stolen":true}}`)),
		heldIn(t, thief.Call(protocol.KVPut, `{"ns":"live","key":"s","value":"1"}`)),
	}
	require.Contains(t, as(t, srv, admin).Call(protocol.OfModel("auth", 2), fmt.Sprintf(`{"id":%q}`, strings.Split(tokens["stolen"], "_")[1])), `"code":0`)
	require.Contains(t, zoe.Call(protocol.OfModel("review", 2), fmt.Sprintf(`{"number":%d}`, number)), `"code":1025`)
	require.Contains(t, as(t, srv, tokens["stranger"]).Call(protocol.OfModel("review", 2), fmt.Sprintf(`{"number":%d}`, number)), `"code":404`)

	srv.Kill()
	srv.Start()
	zoe, other = as(t, srv, tokens["zoe"]), as(t, srv, tokens["max"])
	require.Contains(t, other.Call(protocol.OfModel("review", 0), `{}`), "for the sale")
	for _, number := range stolen { // zoe has another token
		require.Contains(t, other.Call(protocol.OfModel("review", 2), fmt.Sprintf(`{"number":%d}`, number)), `"code":1025`)
	}
	_, shown := bearer(t, srv, tokens["max"], "GET", fmt.Sprintf("/v1/review/show?number=%d", number), "")
	require.Contains(t, shown, `+{\"a\":2}`)
	require.Contains(t, other.Call(protocol.OfModel("review", 2), fmt.Sprintf(`{"number":%d}`, number)), `"state":"approved"`)
	require.Contains(t, zoe.Call(protocol.GetConfig, `{"file_pattern":"live/a.json"}`), `"a":2`)
	_, log := bearer(t, srv, admin, "GET", "/v1/history/log?name=live/a.json", "")
	require.Contains(t, log, `"author":"token:zoe, approved by token:max"`)
	require.Contains(t, log, `"comment":"for the sale"`)
	status, body := bearer(t, srv, tokens["max"], "POST", "/v1/review/approve", fmt.Sprintf(`{"number":%d}`, keys))
	require.Equal(t, 200, status, body)
	require.Contains(t, zoe.Call(protocol.KVGet, `{"ns":"live","key":"l"}`), `"value":"2"`)
	status, _ = bearer(t, srv, "", "GET", "/v1/review/list", "")
	require.Equal(t, 401, status)

	// who asked and who decided is in the audit
	root := as(t, srv, admin)
	for do, who := range map[string]string{"hold": "token:zoe", "approve": "token:max"} {
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(whatAudit(t, root), func(l audit.Line) bool {
				return l.Kind == "review" && l.Do == do && l.Who == who && slices.Contains(l.What, "config:live/a.json")
			})
		}, 20*time.Second, 20*time.Millisecond, do)
	}

	// a token, too, is of no use before someone else approves
	_, text := tokenFor(t, root, "friend", "administrators")
	status, _ = bearer(t, srv, text, "GET", "/v1/review/list", "")
	require.Equal(t, 401, status)
}

// by runs a verb with a user's token.
func (c *cli) by(token string, args ...string) (code int, stdout, stderr string) {
	cmd := exec.Command(c.path, args...)
	cmd.Env = []string{"CONFCENTER_ADDR=" + c.addr, "CONFCENTER_TOKEN=" + token, "PATH=" + os.Getenv("PATH"), "USER=tester"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestTheCommandLineReviews(t *testing.T) {
	srv, _, tokens := twoPersons(t)
	c := newCLI(t, srv)
	file := filepath.Join(t.TempDir(), "a.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"a":5}`), 0o644))
	code, _, stderr := c.by(tokens["zoe"], "set", "live/a.json", file, "-m", "why not")
	require.Equal(t, 7, code, stderr)
	first := heldIn(t, stderr)
	code, _, stderr = c.by(tokens["zoe"], "kv", "put", "live", "k", "v")
	require.Equal(t, 7, code, stderr)
	second := heldIn(t, stderr)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "live"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "live/a.json"), []byte(`{"a":6}`), 0o644))
	code, out, stderr := c.by(tokens["zoe"], "rm", "live/a.json")
	require.Equal(t, 7, code, "%s %s", out, stderr)
	third := heldIn(t, stderr)

	code, out, stderr = c.by(tokens["max"], "review", "list")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "token:zoe")
	require.Contains(t, out, "kv:live/k")
	code, out, _ = c.by(tokens["max"], "review", "show", fmt.Sprint(first))
	require.Zero(t, code)
	require.Contains(t, out, "why: why not")
	require.Contains(t, out, "changed  config:live/a.json")
	require.Contains(t, out, `+{"a":5}`)
	code, out, _ = c.by(tokens["max"], "review", "show", fmt.Sprint(second))
	require.Zero(t, code)
	require.Contains(t, out, "created  kv:live/k\n+ v (string)\n")
	code, _, stderr = c.by(tokens["zoe"], "review", "approve", fmt.Sprint(first))
	require.NotZero(t, code)
	require.Contains(t, stderr, "asked for change")
	code, out, stderr = c.by(tokens["max"], "review", "approve", fmt.Sprint(first), "-m", "good")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "approved")
	code, _, stderr = c.by(tokens["max"], "review", "reject", fmt.Sprint(second), "-m", "no")
	require.Zero(t, code, stderr)
	code, _, _ = c.by(tokens["max"], "review", "withdraw", fmt.Sprint(third))
	require.Equal(t, 3, code)
	code, _, stderr = c.by(tokens["max"], "review", "approve", fmt.Sprint(third))
	require.Equal(t, 5, code, stderr)
	code, _, stderr = c.by(tokens["zoe"], "review", "withdraw", fmt.Sprint(third))
	require.Zero(t, code, stderr)
	code, out, _ = c.by(tokens["max"], "get", "live/a.json")
	require.Zero(t, code)
	require.Contains(t, out, "5")
}
