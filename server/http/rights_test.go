package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/server/edge"
)

// rightsKit is a gateway whose requests all come from a caller with these rights.
func rightsKit(t *testing.T, notes ...access.Notes) (k *kit, with func(rules ...string)) {
	var rights atomic.Pointer[guard.Caller]
	rights.Store(new(guard.Caller))
	k = start(t, func(cfg *Config, _ *Stores) {
		for _, n := range notes {
			cfg.edge().Audit = n
		}
		cfg.letIn(rights.Load)
	})
	return k, func(rules ...string) { rights.Store(guardtest.Caller(t, rules...)) }
}

// A route without a decision would be open to everyone: each is refused to those who have no
// rights at all, unless its row says that everyone may use it.
func TestEachRouteIsRefusedToThoseWithoutRights(t *testing.T) {
	var noted atomic.Int64
	k, _ := rightsKit(t, func(e access.Event) {
		if e.Kind == access.EventDenied && e.By.Address != "" && e.Outcome == codes.Forbidden {
			noted.Add(1)
		}
	})
	seen := 0
	for _, rt := range k.routes() {
		for _, method := range rt.allowed() {
			if rt.right == access.Anyone {
				continue
			}
			got := k.do(method, strings.TrimSuffix(rt.pattern, "{$}"), "")
			require.Equal(t, http.StatusForbidden, got.status, "%s %s %s", method, rt.pattern, got.body)
			require.Contains(t, got.body, "you may not", rt.name)
			seen++
		}
	}
	require.Greater(t, seen, 60)
	require.EqualValues(t, seen, noted.Load(), "the audit knows of each")
}

func TestEachRouteNeedsTheRightsToWhatItNames(t *testing.T) {
	k, with := rightsKit(t)
	for _, key := range []string{"k", "l"} {
		with("* kv")
		require.Equal(t, 200, k.do("PUT", "/v1/store/key?ns=n&key="+key, `{"type":"int","value":1}`).status)
	}
	with("* config")
	require.Equal(t, 200, k.do("PUT", "/v1/config/file?name=a.json", `{"a":1}`).status)
	mod := k.state.Revision()
	const past = "history config:a.json,read config:a.json"
	table := k.routes()
	unseen := map[string]bool{} // routes that decide about names, by pattern
	seen := http.NewServeMux()
	for _, rt := range table {
		for _, method := range rt.allowed() {
			if pattern := method + " " + rt.pattern; rt.named && !strings.HasPrefix(rt.name, "storage.") && !strings.HasPrefix(rt.name, "flow.") { // see TestStorageRoutesNeed… and models/flow
				seen.Handle(pattern, http.NotFoundHandler())
				unseen[pattern] = true
			}
		}
	}
	type way struct{ method, path, body, rights string }
	ways := []way{
		{"GET", "/v1/store/key?ns=n&key=k", "", "read kv:n/k"},
		{"GET", fmt.Sprintf("/v1/store/key?ns=n&key=k&revision=%d", mod), "", "read kv:n/k,history kv:n/k"},
		{"GET", "/v1/store/key?ns=@conf&key=a.json", "", "history config,history roles,read config,read roles,read kv:x"},
		{"GET", "/v1/store/key?ns=@conf&key=doc/a.json", "", past + ",read kv:x"},
		{"GET", "/v1/store/keys?ns=n&prefix=k", "", "read kv:n/k*"},
		{"GET", "/v1/store/keys?ns=n&count=1", "", "read kv:n"},
		{"GET", "/v1/store/keys?ns=n&contains=x&values=1", "", "read kv:n"},
		{"GET", "/v1/store/history?ns=n&key=k", "", "read kv:n/k,history kv:n/k"},
		{"PUT", "/v1/store/key?ns=n&key=k", `{"type":"int","value":2}`, "write kv:n/k"},
		{"PUT", "/v1/store/key?ns=n&key=k", `{"type":"int","value":2,"if_absent":true}`, "write kv:n/k,read kv:n/k"},
		{"POST", "/v1/store/incr?ns=n&key=k", `{"by":1}`, "write kv:n/k,read kv:n/k"},
		{"POST", "/v1/store/cas?ns=n&key=k", `{"expect":null,"type":"int","value":2}`, "write kv:n/k,read kv:n/k"},
		{"POST", "/v1/store/batch?ns=n", `{"items":[{"key":"k","type":"int","value":3},{"key":"l","delete":true}]}`, "write kv:n/k,delete kv:n/l"},
		{"POST", "/v1/store/txn", `{"then":[{"op":"get","ns":"n","key":"k"}],"else":[{"op":"put","ns":"n","key":"l","type":"int","value":1}]}`, "read kv:n/k,write kv:n/l"},
		{"POST", "/v1/store/restore?ns=n&key=k", fmt.Sprintf(`{"revision":%d}`, mod), "write kv:n/k,history kv:n/k,read kv:n/k"},
		{"DELETE", "/v1/store/key?ns=n&key=m", "", "delete kv:n/m"},
		{"DELETE", "/v1/store/namespace?ns=z&confirm=z", "", "delete kv:z"},
		{"GET", "/v1/store/stream?ns=n&key=k", "", "watch kv:n/k,read kv:n/k"},
		{"GET", "/v1/store/stream?ns=n", "", "watch kv:n,read kv:n"},
		{"GET", "/v1/kv/n/k", "", "read kv:n/k"},
		{"GET", "/v1/kv/n/keys", "", "read kv:n"},
		{"GET", "/v1/kv/n?prefix=k", "", "read kv:n/k*"},
		{"PUT", "/v1/kv/n/k", `{"value":"v","type":"string"}`, "write kv:n/k"},
		{"DELETE", "/v1/kv/n/m", "", "delete kv:n/m"},
		{"POST", "/v1/kv/n/batch", `{"items":[{"key":"m","value":"v","type":"string"}]}`, "write kv:n/m"},
		{"GET", "/v1/stream?namespace=n", "", "watch kv:n,read kv:n"},
		{"GET", "/v1/config/file?name=a.json", "", "read config:a.json"},
		{"GET", "/v1/config/file?name=a.json&raw=1", "", "read config:a.json"},
		{"GET", "/v1/config/resolved?name=a.json", "", "read config:a.json"},
		{"GET", "/v1/config/revisions?name=a.json&state=1", "", "watch config:a.json,read config:a.json"},
		{"GET", "/v1/config/revisions?prefix=a&resolved=1", "", "watch config:a*,read config:a*"},
		{"PUT", "/v1/config/file?name=a.json", `{"a":2}`, "write config:a.json,read config:a.json"},
		{"PUT", "/v1/config/file?name=_meta.json", `{}`, "write config:_meta.json,read config:_meta.json"},
		{"GET", "/v1/history/log?name=a", "", past},
		{"GET", "/v1/history/show?name=a.json", "", past},
		{"GET", "/v1/history/diff?name=a@~0", "", past},
		{"GET", "/v1/history/blame?name=a", "", past},
		{"GET", "/v1/history/explain?name=a", "", past},
		{"GET", "/v1/history/export?from=a.json", "", past},
		{"POST", "/v1/history/rollback", `{"name":"a","dry_run":true}`, past + ",write config:a.json"},
		{"POST", "/v1/history/apply", `{"documents":[{"name":"a.json","text":"{}"}],"dry_run":true}`, "write config:a.json,read config:a.json"},
		{"GET", "/v1/history/uses?name=a", "", "read config:a.json,read clients:x"},
		{"POST", "/v1/history/preview", `{"name":"a.json","text":"{}"}`, "write config:a.json,read config:a.json,history config:b.json"},
		{"DELETE", "/v1/config/file?name=a.json", "", "delete config:a.json,read config:a.json"},
	}
	for _, kind := range kv.OpKinds() {
		rights := map[bool]string{true: "write kv:n/new,read kv:n/new", false: "delete kv:n/new"}[kind.Sets()]
		if path := "/v1/store/" + kind.String() + "?ns=n&key=new"; kind.Has(kv.MemberValue) && kind.Follows() {
			ways = append(ways, way{"POST", path, `{"value":"x"}`, rights})
		} else if kind.Follows() {
			ways = append(ways, way{"POST", path, `{}`, rights}, way{"DELETE", "/v1/store/key?ns=n&key=new", "", "delete kv:n/new"})
		}
	}
	for _, c := range ways {
		what := c.method + " " + c.path
		request, err := http.NewRequest(c.method, c.path, nil)
		require.NoError(t, err)
		_, pattern := seen.Handler(request)
		delete(unseen, pattern)
		rights := strings.Split(c.rights, ",")
		for i, without := range rights {
			if without == "read kv:x" || without == "history config:b.json" {
				continue // only to be let through to the handler
			}
			with(append([]string{"* kv", "* config", "-" + without}, append(append([]string{}, rights[:i]...), rights[i+1:]...)...)...)
			got := k.do(c.method, c.path, c.body)
			require.Equal(t, http.StatusForbidden, got.status, "%s without %s: %s", what, without, got.body)
		}
		with("* kv:other", "* config:other.json")
		require.Equal(t, http.StatusForbidden, k.do(c.method, c.path, c.body).status, what)
		with(rights...)
		if strings.Contains(c.path, "stream") || strings.Contains(c.path, "revisions") {
			r, err := k.client.Get(k.url + c.path)
			require.NoError(t, err)
			require.Equal(t, 200, r.StatusCode, what)
			require.NoError(t, r.Body.Close())
			continue
		}
		got := k.do(c.method, c.path, c.body)
		require.NotContains(t, []int{400, 403, 500}, got.status, "%s with %s: %s", what, c.rights, got.body)
	}
	for name, why := range map[string]string{
		"GET /v1/config/files": "it lists what may be read", "GET /v1/config/search": "likewise", "GET /v1/config/stream": "it tells of what may be watched",
		"GET /v1/clients": "it lists what may be read", "GET /v1/kv": "it lists what may be read", "GET /v1/store/namespaces": "likewise", "POST /v1/history/stage": "nothing comes of what is staged by itself",
	} {
		require.True(t, unseen[name], "%s: %s", name, why)
		delete(unseen, name)
	}
	require.Empty(t, unseen, "say what these need")
}

func TestOnlyNamesAreToldThatMayBeRead(t *testing.T) {
	k, with := rightsKit(t)
	with("* config", "* kv", "* roles")
	for name, text := range map[string]string{"a.json": `{"a":1}`, "b.json": `{"b":1}`, "secret.json": `{"s":1}`, "_meta.json": `{"conf_inherit":{"a.json":"b.json secret.json"}}`} {
		require.Equal(t, 200, k.do("PUT", "/v1/config/file?name="+name, text).status)
	}
	for _, ns := range []string{"m", "n"} {
		_, err := k.commit(kv.PutTxn(ns, "k", kv.StringValue("v")))
		require.NoError(t, err)
	}
	with("* config", "-read config:secret.json", "* kv", "-read kv:n/k")
	for _, path := range []string{"/v1/config/file?name=a.json", "/v1/config/resolved?name=a.json"} {
		got := k.get(path)
		require.Equal(t, 200, got.status)
		require.NotContains(t, got.body, "secret")
		require.Contains(t, got.body, "b.json")
	}
	require.Contains(t, k.get("/v1/config/resolved?name=a.json").body, `"s":1`)
	for _, path := range []string{"/v1/store/namespaces", "/v1/kv"} {
		got := k.get(path)
		require.Equal(t, 200, got.status, got.body)
		require.Contains(t, got.body, `"m"`)
		require.NotContains(t, got.body, `"n"`)
	}
	for _, key := range []string{"open1", "open2", "other"} {
		_, err := k.commit(kv.PutTxn("n", key, kv.StringValue("v")))
		require.NoError(t, err)
	}
	with("* config", "-read config:secret.json", "* kv:n/open*")
	for _, path := range []string{"/v1/store/keys?ns=n", "/v1/store/keys?ns=n&contains=o", "/v1/store/keys?ns=n&contains=v&values=1", "/v1/kv/n/keys", "/v1/kv/n?prefix=", "/v1/kv/n?prefix=o", "/v1/store/namespaces", "/v1/kv"} {
		got := k.get(path)
		require.Equal(t, 200, got.status, got.body)
		require.NotContains(t, got.body, `other`, path)
		require.NotContains(t, got.body, `"k"`, path)
		require.NotContains(t, got.body, `"m"`, path)
		if strings.Contains(path, "n?") || strings.Contains(path, "keys") {
			require.Contains(t, got.body, `"open1"`, path)
			require.Contains(t, got.body, `"open2"`, path)
		}
	}
	require.Contains(t, k.get("/v1/store/keys?ns=n&count=1").body, `"count":2`)
	require.Contains(t, k.get("/v1/store/namespaces").body, `{"name":"n","keys":2,"bytes":12}],"more":false`)
	require.Contains(t, k.get("/v1/kv").body, `["n"]`)
	require.Contains(t, k.get("/v1/store/keys?ns=n&limit=1&keys_only=1&after=open1").body, `"more":false`)
	for _, path := range []string{"/v1/store/keys?ns=m", "/v1/store/keys?ns=n&prefix=other", "/v1/kv/n?prefix=x", "/v1/store/stream?ns=n", "/v1/store/stream?ns=n&prefix=o"} {
		require.Equal(t, http.StatusForbidden, k.get(path).status, path)
	}
	with("* config", "-read config:secret.json", "* kv", "-read kv:n/k")
	for _, path := range []string{"/v1/config/files", "/v1/config/search?q=json"} {
		got := k.get(path)
		require.Equal(t, 200, got.status, got.body)
		require.Contains(t, got.body, `"a.json"`)
		require.NotContains(t, got.body, `"secret.json"`)
	}
	require.NotContains(t, k.get("/v1/config/search?q=s").body, `"/s"`)
	for _, path := range []string{"/v1/store/keys?ns=@conf", "/v1/store/keys?ns=@conf&contains=doc", "/v1/kv/@conf/keys", "/v1/kv/@conf?prefix=doc/"} {
		got := k.get(path)
		require.Equal(t, 200, got.status, got.body)
		require.Contains(t, got.body, `doc/a.json`, path)
		require.NotContains(t, got.body, `secret`, path)
	}
	require.Contains(t, k.get("/v1/store/keys?ns=@conf&count=1").body, `"count":3`)

	told := func(all []message) (names []string) {
		for _, m := range all {
			if m.event == "config" {
				var file struct{ Name string }
				require.NoError(t, json.Unmarshal([]byte(m.data), &file))
				names = append(names, file.Name)
			}
		}
		return names
	}
	until := func(s *eventSource, name string) { // a.json changes, too, with what it inherits
		for {
			switch names := told(s.until("config")); names[0] {
			case name:
				return
			case "a.json", "b.json", "_meta.json":
			default:
				require.Fail(t, "told of what may not be read", names[0])
			}
		}
	}
	s := k.listen("/v1/config/stream", "")
	require.Equal(t, []string{"_meta.json", "a.json", "b.json"}, told(s.until("synced")))
	with("* config", "* roles")
	for _, name := range []string{"secret.json", "_access/new.json", "b.json", "secret.json"} { // the caller of the stream is as it was
		text := fmt.Sprintf(`{"b":%d}`, k.state.Revision())
		if name == "_access/new.json" {
			text = `{"rules":[]}`
		}
		got := k.do("PUT", "/v1/config/file?name="+name, text)
		require.Equal(t, 200, got.status, got.body)
	}
	until(s, "b.json")
	require.Equal(t, 200, k.do("PUT", "/v1/config/file?name=_meta.json", `{}`).status)
	until(s, "_meta.json")
	last := s.last
	s.closeNow()
	with("* config", "-read config:secret.json")
	missed := k.listen("/v1/config/stream", last)
	require.Equal(t, 200, k.do("PUT", "/v1/config/file?name=b.json", `{"b":0}`).status)
	until(missed, "b.json") // it goes on where it was
	missed.closeNow()

	with("read config", "-read config:secret.json")
	require.Equal(t, http.StatusForbidden, k.get("/v1/config/stream").status, "nothing may be watched")
	with("* kv")
	for _, path := range []string{"/v1/config/files", "/v1/config/search?q=json", "/v1/config/stream"} {
		require.Equal(t, http.StatusForbidden, k.get(path).status, path)
	}
}

// Whether something exists makes no difference to a refusal.
func TestARefusalDoesNotTellWhatExists(t *testing.T) {
	k, with := rightsKit(t)
	with("* config", "* kv")
	require.Equal(t, 200, k.do("PUT", "/v1/config/file?name=a.json", `{"a":1}`).status)
	require.Equal(t, 200, k.do("PUT", "/v1/store/key?ns=n&key=a", `{"type":"int","value":1}`).status)
	with("* kv:other", "* config:other.json")
	for _, path := range []string{
		"/v1/config/file?name=%s.json", "/v1/config/resolved?name=%s.json", "/v1/store/key?ns=n&key=%s", "/v1/store/history?ns=n&key=%s",
		"/v1/kv/n/%s", "/v1/store/stream?ns=n&key=%s",
	} {
		there, none := k.get(fmt.Sprintf(path, "a")), k.get(fmt.Sprintf(path, "z"))
		require.Equal(t, http.StatusForbidden, there.status, path)
		require.Equal(t, strings.ReplaceAll(there.body, "a.json", "z.json"), strings.ReplaceAll(strings.ReplaceAll(none.body, "n/z", "n/a"), "a.json", "z.json"), path)
	}
}

// ended is a pass whose rights were taken away.
type ended struct{}

func (ended) Renew(*policy.Permits) (*policy.Permits, bool) { return nil, false }

// TestAStreamWhoseRightsEndedWhileItWasLetInEnds: nothing says so a second time.
func TestAStreamWhoseRightsEndedWhileItWasLetInEnds(t *testing.T) {
	open := streams{open: map[*reply]stream{}}
	cut := 0
	w := newReply(httptest.NewRecorder(), memory.NewPool(1<<20), nil)
	open.enter(w, stream{by: &edge.Request{Rights: &guard.Caller{}}, cut: func() { cut++ }})()
	require.Zero(t, cut)
	leave := open.enter(w, stream{by: &edge.Request{Rights: &guard.Caller{Pass: ended{}}}, cut: func() { cut++ }})
	require.Equal(t, 1, cut)
	leave()
	require.Zero(t, open.count())
}

// lessened is a pass whose rights have become others.
type lessened struct{ now *policy.Permits }

func (l lessened) Renew(*policy.Permits) (*policy.Permits, bool) { return l.now, false }

// TestARequestWhoseBodyComesSlowlyIsJudgedAnew: a sender may take its time over a body, and must not
// keep by that what was taken away meanwhile.
func TestARequestWhoseBodyComesSlowlyIsJudgedAnew(t *testing.T) {
	var rights atomic.Pointer[guard.Caller]
	k := start(t, func(cfg *Config, _ *Stores) {
		cfg.letIn(rights.Load)
	})
	for name, c := range map[string]struct {
		pass   guard.Pass
		status int
	}{
		"its proof has ended":       {ended{}, http.StatusUnauthorized},
		"it may do less":            {lessened{guardtest.Caller(t, "* kv").Permits}, http.StatusForbidden},
		"it may do nothing anymore": {lessened{new(policy.Permits)}, http.StatusForbidden},
	} {
		before := k.state.Revision()
		caller := guardtest.Caller(t, "* kv", "* config", "* storage")
		caller.Pass = c.pass
		rights.Store(caller)
		for _, way := range []struct{ method, path, body string }{
			{"PUT", "/v1/store/key?ns=n&key=a", `{"type":"int","value":1}`},
			{"POST", "/v1/store/txn", `{"then":[{"op":"put","ns":"n","key":"l","type":"int","value":1}]}`},
			{"PUT", "/v1/kv/n/k", `{"value":"v","type":"string"}`},
			{"PUT", "/v1/config/file?name=a.json", `{"a":1}`},
			{"POST", "/v1/history/apply", `{"documents":[{"name":"a.json","text":"{}"}]}`},
			{"GET", "/v1/store/keys?ns=n&contains=x", ""}, // it waits for its turn
		} {
			got := k.do(way.method, way.path, way.body)
			require.Equal(t, c.status, got.status, "%s %s where %s: %s", way.method, way.path, name, got.body)
		}
		require.Equal(t, before, k.state.Revision(), name)
	}
}

// TestALongAnswerEndsWithTheRightToIt: a peer may take its time over each piece.
func TestALongAnswerEndsWithTheRightToIt(t *testing.T) {
	k, with := rightsKit(t)
	with("* kv")
	for i := range 3 {
		body := `{"type":"string","value":"` + strings.Repeat("x", plumPage) + `"}`
		require.Equal(t, 200, k.do("PUT", fmt.Sprintf("/v1/store/key?ns=n&key=%d", i), body).status)
	}
	rec := httptest.NewRecorder()
	w := newReply(rec, memory.NewPool(64<<20), k.edge)
	w.Rights = guardtest.Caller(t, "* kv")
	w.Rights.Pass = ended{}
	r := httptest.NewRequest(http.MethodGet, "/v1/kv/n", nil)
	require.NoError(t, k.Gateway.plumList(w, r, "n"))
	require.Less(t, rec.Body.Len(), plumPage, "what was to be sent after the right had ended")
}

// TestARequestIsJudgedOnce: a restoration reads and writes, and is one request.
func TestARequestIsJudgedOnce(t *testing.T) {
	var judged atomic.Int64
	k := start(t, func(cfg *Config, _ *Stores) {
		cfg.edge().Stages = []edge.Stage{func(*access.Identity, []op.Thing) error { judged.Add(1); return nil }}
	})
	require.Equal(t, http.StatusOK, k.do("PUT", "/v1/store/key?ns=n&key=a", `{"type":"int","value":1}`).status)
	revision := k.state.Revision()
	for _, way := range []struct{ method, path, body string }{
		{"PUT", "/v1/store/key?ns=n&key=a", `{"type":"int","value":2,"if_absent":false}`},
		{"POST", "/v1/store/restore?ns=n&key=a", fmt.Sprintf(`{"revision":%d}`, revision)},
		{"POST", "/v1/store/txn", `{"then":[{"op":"get","ns":"n","key":"a"}]}`},
		{"GET", "/v1/store/key?ns=n&key=a", ""},
		{"DELETE", "/v1/store/key?ns=n&key=a", ""},
		{"PUT", "/v1/config/file?name=a.json", `{"a":1}`},
		{"GET", "/v1/config/file?name=a.json", ""},
		{"GET", "/v1/flow/read?scope=s", ""},
	} {
		judged.Store(0)
		got := k.do(way.method, way.path, way.body)
		require.EqualValues(t, 1, judged.Load(), "%s %s: %d %s", way.method, way.path, got.status, got.body)
	}
}
