package integration

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/protocol"
)

// planted begins every value that the tests want kept secret.
const planted = "planted-hunter2"

// secretWay is a way to write a secret, whether it succeeds or not.
type secretWay struct {
	who  string // "": the administrator
	via  string // a command, a method and path, or cli
	what string // the body, or the arguments; VALUE is what is planted
	want string // is in the answer
}

var secretWays = []secretWay{
	{"", "SETCONFIG", `{"filename":"base.json","contents":{"db":{"password":{"$seal":"VALUE"}}}}`, `"code":0`},
	{"", "SETCONFIG", `{"filename":"base.json","contents":{"a":{"$seal":"VALUE","b":1}}}`, `"code":400`},
	{"", "SETCONFIG", `{"filename":"base.json","contents":{"a":{"$seal":"VALUE"}},"if_mtime":1}`, `"code":412`},
	{"", "SETCONFIG", `{"filename":"base.json","contents":{"a":{"$seal":"VALUE"}},"mtime":1}`, `"code"`},
	{"", "SETCONFIG", `{"filename":"../x.json","contents":{"a":{"$seal":"VALUE"}}}`, `"code"`},
	{"", "SETCONFIG", `{"filename":"base.json","contents":{"a":{"$seal":"VALUE"}`, `"code"`},
	{"program", "SETCONFIG", `{"filename":"base.json","contents":{"a":{"$seal":"VALUE"}}}`, `"code":1025`},
	{"", "CFAPPLY", `{"documents":[{"name":"heir.json","text":"{\"own\":{\"$seal\":\"VALUE\"}}"}],"dry_run":true}`, `"code":0`},
	{"", "CFAPPLY", `{"documents":[{"name":"heir.json","text":"{\"own\":{\"$seal\":\"VALUE\"}}"}]}`, `"code":0`},
	{"", "CFPREVIEW", `{"name":"heir.json","text":"{\"own\":{\"$seal\":\"VALUE\"}}"}`, `"code":0`},
	{"", "KVPUT", `{"ns":"game","key":"k","value":"VALUE","seal":1}`, `"code":0`},
	{"", "KVPUT", `{"ns":"game","key":"k","value":"VALUE","seal":1,"token":"t","prev":1}`, `"code":0`},
	{"", "KVPUT", `{"ns":"game","key":"k","value":"VALUE other","seal":1,"token":"t"}`, `"code":1019`},
	{"", "KVPUT", `{"ns":"game","key":"k","type":"json","value":{"p":{"$seal":"VALUE"}}}`, `"code":0`},
	{"", "KVPUT", `{"ns":"game","key":"k","type":"int","value":"VALUE","seal":1}`, `"code":1009`},
	{"", "KVPUT", `{"ns":"game","key":"k","type":"bytes","value":"VALUE","seal":1}`, `"code":1009`},
	{"", "KVPUT", `{"ns":"game","key":"k","value":"VALUE","seal":1,"if_mod":1}`, `"code":412`},
	{"", "KVPUT", `{"ns":"game","key":"k","value":"VALUE` + strings.Repeat("x", 1<<20) + `","seal":1}`, `"code":413`},
	{"", "KVPUT", `{"ns":"@conf","key":"k","value":"VALUE","seal":1}`, `"code"`},
	{"program", "KVPUT", `{"ns":"game","key":"k","value":"VALUE","seal":1}`, `"code":1025`},
	{"", "KVCAS", `{"ns":"game","key":"cas","expect":null,"value":"VALUE","seal":1}`, `"code":0`},
	{"", "KVCAS", `{"ns":"game","key":"cas","expect":{"type":"json","value":{"$seal":"VALUE"}},"value":"1"}`, `"code":400`},
	{"", "KVTXN", `{"ns":"game","then":[{"op":"put","key":"t","value":"VALUE","seal":1},{"op":"get","key":"t"}]}`, `"code":0`},
	{"", "KVTXN", `{"ns":"game","then":[{"op":"put","key":"t","value":"VALUE","seal":1},{"op":"incr","key":"k"}]}`, `"code":1016`},
	{"", "KVINCR", `{"ns":"game","key":"t"}`, `"code":1016`},
	{"", "KVLOCK", `{"ns":"game","key":"lock","lease":1,"type":"json","value":{"$seal":"VALUE"}}`, `"code":400`},
	{"", "PUT /v1/config/file?name=heir.json", `{"own":{"$seal":"VALUE"}}`, ``},
	{"", "PUT /v1/config/file?name=heir.json", `{"own":{"$seal":"VALUE"},`, `error`},
	{"reader", "PUT /v1/config/file?name=_access/x.json", `{"rules":{"$seal":"VALUE"}}`, `error`},
	{"", "PUT /v1/config/file?name=_access/x.json", `{"about":{"$seal":"VALUE"}}`, ``},
	{"", "PUT /v1/store/key?ns=game&key=h", `{"value":"VALUE","seal":true}`, `"version"`},
	{"", "PUT /v1/store/key?ns=game&key=h", `{"value":"VALUE","type":"bool","seal":true}`, `error`},
	{"", "POST /v1/store/cas?ns=game&key=h", `{"expect":null,"value":"VALUE","seal":true}`, `error`},
	{"", "POST /v1/store/batch?ns=game", `{"items":[{"key":"b","value":"VALUE","seal":true}]}`, `"count":1`},
	{"", "POST /v1/store/txn", `{"ns":"game","then":[{"op":"put","key":"b","value":"VALUE","seal":true,"prev":true}],"token":"h"}`, `"held":true`},
	{"", "POST /v1/store/txn", `{"ns":"game","then":[{"op":"put","key":"b","value":"VALUE other","seal":true,"prev":true}],"token":"h"}`, `error`},
	{"", "PUT /v1/kv/game/plum", `{"value":{"$seal":"VALUE"}}`, ``},
	{"", "PUT /v1/store/key?ns=game&key=h", `{"value":"VALUE","sael":true}`, `error`},
	{"", "cli", "set base /db/password --secret", ``},
	{"", "cli", "kv put game c --secret", ``},
	{"", "cli", "kv put game c --secret --type int", `not of type int`},
	{"", "cli", "kv put game c --secret --type bytes -o json", ``},
	{"program", "cli", "kv put game c --secret", `you may not read "kv"`},
	{"", "cli", "secret reseal", ``},
}

// tell writes a secret in one way, and returns what is said of it.
func (w *secretWay) tell(t *testing.T, srv *Process, token, value string) string {
	what := strings.ReplaceAll(w.what, "VALUE", value)
	method, path, overHTTP := strings.Cut(w.via, " ")
	switch {
	case w.via == "cli":
		cmd := process.ToolCommand(t, strings.Fields(what)...)
		cmd.Env = append(cmd.Env, "CONFCENTER_ADDR="+srv.Addr, "CONFCENTER_TOKEN="+token)
		cmd.Stdin = strings.NewReader(value + "\n")
		out, _ := cmd.CombinedOutput()
		return string(out)
	case overHTTP:
		_, text := bearer(t, srv, token, method, path, what)
		return text
	}
	for _, row := range protocol.Commands {
		if row.Name == w.via {
			return as(t, srv, token).Call(row.ID, what)
		}
	}
	require.Fail(t, "there is no such command", w.via)
	return ""
}

// Whichever way a secret is written, whether it is accepted or refused: it is neither in what is
// answered nor in anything that the server keeps, says or gives away.
func TestWhicheverWayASecretIsWrittenItIsNowhereInTheClear(t *testing.T) {
	beside := t.TempDir()
	srv, admin, reader, program := secretServer(t, secretKey(t, randomKey()), "--audit-file", filepath.Join(beside, "audit.jsonl"), "--http-access-log")
	tokens := map[string]string{"": admin, "reader": reader, "program": program}
	for i := range secretWays {
		w := &secretWays[i]
		said := w.tell(t, srv, tokens[w.who], fmt.Sprintf("%s-%d", planted, i))
		require.NotContains(t, said, planted, "%+v", w)
		require.Contains(t, said, w.want, "%.200s", fmt.Sprintf("%+v", w))
	}
	revealed := as(t, srv, admin).Call(protocol.KVList, `{"ns":"game","reveal":1}`)
	for _, key := range []string{"k", "cas", "h", "b", "c"} {
		require.Contains(t, revealed, `"key":"`+key+`"`)
	}
	require.Contains(t, revealed, planted, "they are kept after all")

	everything := everythingThatIsTold(t, srv, reader)
	for _, token := range []string{reader, admin} {
		for _, args := range []string{"export --dir DIR", "kv list game --all -o json", "kv history game k -o json", "log base", "diff base", "audit", "secret status --uses", "get heir --merged", "clients", "kv stat"} {
			dir := t.TempDir()
			cmd := process.ToolCommand(t, strings.Fields(strings.ReplaceAll(args, "DIR", filepath.Join(dir, "e")))...)
			cmd.Env = append(cmd.Env, "CONFCENTER_ADDR="+srv.Addr, "CONFCENTER_TOKEN="+token)
			out, _ := cmd.CombinedOutput()
			everything = append(everything, args+" "+string(out))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "out"), out, 0o600))
			holdsNot(t, dir, planted)
		}
	}
	for _, path := range []string{"/v1/status", "/metrics", "/v1/backup", "/v1/history/export", "/v1/audit/lines", "/v1/config/search?q=planted", "/v1/store/keys?ns=game&contains=planted&values=1", "/debug/pprof/goroutine?debug=2"} {
		_, text := bearer(t, srv, admin, "GET", path, "")
		everything = append(everything, path+" "+text)
	}
	eventually(t, "the audit", func() bool {
		text, err := os.ReadFile(filepath.Join(beside, "audit.jsonl"))
		return err == nil && strings.Contains(string(text), "kv:game/b")
	})
	require.Contains(t, srv.Said(), "slow request")
	srv.Stop()
	for _, one := range append(everything, srv.Said()) {
		require.NotContains(t, one, planted)
	}
	for _, dir := range []string{srv.Conf, srv.Data, beside} {
		holdsNot(t, dir, planted)
	}
}

// What waits for approval holds what is sealed, wherever it is kept, shown or compared; what was
// approved is what was asked for.
func TestSecretsThatWaitForApprovalAreSealed(t *testing.T) {
	beside := t.TempDir()
	srv, admin, tokens := twoPersons(t, "--secret-key-file", secretKey(t, randomKey()), "--audit-file", filepath.Join(beside, "audit.jsonl"), "--log-level", "debug", "--slow-request", "1ms")
	zoe := as(t, srv, tokens["zoe"])
	cli := newCLI(t, srv)
	var numbers []int64
	told := []string{}
	held := func(reply string) {
		t.Helper()
		numbers = append(numbers, heldIn(t, reply))
		told = append(told, reply)
	}
	held(zoe.Call(protocol.SetConfig, `{"filename":"live/a.json","contents":{"pw":{"$seal":"`+planted+` a"}}}`))
	held(zoe.Call(protocol.KVPut, `{"ns":"live","key":"k","value":"`+planted+` k","seal":1}`))
	held(zoe.Call(protocol.KVTxn, `{"ns":"live","if":[{"key":"j","target":"version","number":0}],"then":[{"op":"put","key":"j","type":"json","value":{"pw":{"$seal":"`+planted+` j"}}}],"token":"once"}`))
	_, reply := bearer(t, srv, tokens["zoe"], "PUT", "/v1/store/key?ns=live&key=h", `{"value":"`+planted+` h","seal":true}`)
	held(reply)
	_, reply = bearer(t, srv, tokens["zoe"], "PUT", "/v1/config/file?name=live/b.json", `{"pw":{"$seal":"`+planted+` b"}}`)
	held(reply)
	_, reply = bearer(t, srv, admin, "POST", "/v1/history/apply", `{"documents":[{"name":"live/c.json","text":"{\"pw\":{\"$seal\":\"`+planted+` c\"}}"}]}`)
	held(reply)

	everything := func() {
		t.Helper()
		for _, token := range []string{tokens["zoe"], tokens["max"], admin} {
			told = append(told, as(t, srv, token).Call(protocol.OfModel("review", 0), `{}`))
			_, list := bearer(t, srv, token, "GET", "/v1/review/list", "")
			_, log := bearer(t, srv, token, "GET", "/v1/audit/lines", "")
			told = append(told, list, log)
			for _, number := range numbers {
				_, shown := bearer(t, srv, token, "GET", fmt.Sprintf("/v1/review/show?number=%d", number), "")
				_, out, errs := cli.by(token, "review", "show", fmt.Sprint(number))
				told = append(told, shown, out, errs)
			}
		}
		_, backup := bearer(t, srv, admin, "GET", "/v1/backup", "")
		for _, one := range append(told, backup, srv.Said()) {
			require.NotContains(t, one, planted)
		}
		for _, dir := range []string{srv.Conf, srv.Data} {
			holdsNot(t, dir, planted)
		}
	}
	everything()
	require.Contains(t, strings.Join(told, ""), "$secret:v2:", "a mark is compared")
	srv.Kill()
	srv.Start()
	holdsNot(t, srv.Data, planted)
	other, root := as(t, srv, tokens["max"]), as(t, srv, admin)
	for _, number := range numbers {
		reply := other.Call(protocol.OfModel("review", 2), fmt.Sprintf(`{"number":%d}`, number))
		require.Contains(t, reply, `"state":"approved"`)
		told = append(told, reply)
	}
	zoe = as(t, srv, tokens["zoe"])
	for name, want := range map[string]string{"live/a": "a", "live/b": "b", "live/c": "c"} {
		require.Contains(t, zoe.Call(protocol.GetConfig, `{"file_pattern":"`+name+`"}`), `"pw":"`+planted+" "+want+`"`)
		require.Contains(t, zoe.Call(protocol.GetConfig, `{"file_pattern":"`+name+`","marks":1}`), ":config:"+name+".json")
	}
	for key, want := range map[string]string{"k": `"type":"string","value":"` + planted + ` k"`, "h": `"type":"string","value":"` + planted + ` h"`, "j": `{"pw":"` + planted + ` j"}`} {
		require.Contains(t, zoe.Call(protocol.KVGet, `{"ns":"live","key":"`+key+`","reveal":1}`), want)
		require.Contains(t, zoe.Call(protocol.KVGet, `{"ns":"live","key":"`+key+`"}`), ":kv:live/"+key)
	}
	told = append(told, root.Call(protocol.OfModel("review", 0), `{}`))
	everything()
	srv.Stop()
	holdsNot(t, beside, planted)
	require.NotContains(t, srv.Said(), planted)
}

// Who is told secrets, and may not be any more, is told none a second later.
func TestARightToRevealThatIsTakenAwayEndsWatches(t *testing.T) {
	srv, admin, _, _ := secretServer(t, secretKey(t, randomKey()))
	root := as(t, srv, admin)
	const may = `{"rules":[{"who":["token:told"],"allow":["read","watch","reveal"],"what":["kv:game","config:base.json"]}%s]}`
	role := func(more string) string {
		return `{"filename":"_access/told.json","contents":` + fmt.Sprintf(may, more) + `}`
	}
	require.Contains(t, root.Call(protocol.SetConfig, role("")), `"code":0`)
	_, token := tokenFor(t, root, "told")
	put := func(n int) {
		require.Contains(t, root.Call(protocol.KVPut, fmt.Sprintf(`{"ns":"game","key":"k","value":"%s %d","seal":1}`, planted, n)), `"code":0`)
		require.Contains(t, root.Call(protocol.SetConfig, fmt.Sprintf(`{"filename":"base.json","contents":{"pw":{"$seal":"%s %d"}}}`, planted, n)), `"code":0`)
	}
	keys, files := as(t, srv, token), as(t, srv, token)
	require.Contains(t, keys.Call(protocol.KVWatch, `{"ns":"game","reveal":1}`), `"code":0`)
	require.Contains(t, files.Call(protocol.CfWatch, `{"name":"base.json","reveal":1}`), `"code":0`)
	lines := make(chan string, 1024)
	for _, path := range []string{"/v1/store/stream?ns=game&reveal=1", "/v1/config/revisions?name=base.json&reveal=1"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+srv.HTTP+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		go func() {
			defer got.Body.Close()
			for s := bufio.NewScanner(got.Body); s.Scan(); {
				lines <- s.Text()
			}
			lines <- "the end"
		}()
	}
	put(1)
	require.Contains(t, keys.Next().Body, planted+" 1")
	require.Contains(t, files.Next().Body, planted+" 1")
	for seen := 0; seen < 2; {
		if strings.Contains(<-lines, planted+" 1") {
			seen++
		}
	}
	require.Contains(t, root.Call(protocol.SetConfig, role(`,{"who":["token:told"],"deny":["reveal"],"what":["kv:game","config:base.json"]}`)), `"code":0`)
	since := time.Now()
	keys.Closed()
	files.Closed()
	for ends := 0; ends < 2; {
		if <-lines == "the end" {
			ends++
		}
	}
	t.Logf("everything had ended after %v", time.Since(since))
	put(2)
	again := as(t, srv, token)
	require.Contains(t, again.Call(protocol.KVWatch, `{"ns":"game","state":1,"reveal":1}`), `"code":0`)
	state := again.Next().Body
	require.NotContains(t, state, planted)
	require.Contains(t, state, "$secret:v2:")
	require.NotContains(t, as(t, srv, token).Call(protocol.GetConfig, `{"file_pattern":"base.json"}`), planted)
}
