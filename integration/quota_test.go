package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// limited is a server with quotas, whose tenants may do everything with keys, the connection of its
// administrator, and the token of a tenant.
func limited(t *testing.T, quotas string, flags ...string) (srv *Process, root *servertest.Peer, admin, token string) {
	conf := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(conf, "_access"), 0o755))
	for name, text := range map[string]string{
		"_access/tenants.json": `{"rules": [{"who": ["token:tenant-*"], "allow": ["*"], "what": ["kv", "config:app/*", "storage", "flow", "bench"]}]}`,
		"_access/quotas.json":  `{"quotas": ` + quotas + `}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	srv = process.Start(t, conf, append([]string{"--access-control"}, flags...)...)
	text, err := os.ReadFile(filepath.Join(srv.Data, "administrator.token"))
	require.NoError(t, err)
	admin = strings.TrimSpace(string(text))
	root = as(t, srv, admin)
	_, token = tokenFor(t, root, "tenant-a")
	return srv, root, admin, token
}

// overQuota is a refusal: its code, the limit's name, and when to try again.
func overQuota(t *testing.T, reply string, code int, limit string) {
	t.Helper()
	require.Regexp(t, fmt.Sprintf(`"code":%d\b.*quota of %s: .*"retry_after":[1-9]`, code, limit), reply)
}

// surf asks over a connection of its own, which stays open until it is closed.
type surf struct {
	*http.Transport
	url, token string
}

func surfer(srv *Process, token string) *surf {
	return &surf{&http.Transport{MaxConnsPerHost: 1}, "http://" + srv.HTTP, token}
}

func (s *surf) ask(t *testing.T, method, path, body string) (int, string) {
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	got, err := s.RoundTrip(r)
	require.NoError(t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	if got.StatusCode == 503 || got.StatusCode == 429 {
		require.NotEmpty(t, got.Header.Get("Retry-After"))
	}
	return got.StatusCode, string(text)
}

func TestConnectionsOverTCPAndHTTPAreOneQuota(t *testing.T) {
	srv, root, admin, token := limited(t, `[{"who": ["token:tenant-*"], "connections": 2, "watches": 2, "leases": 1}]`)
	one, web := as(t, srv, token), surfer(srv, token)
	status, text := web.ask(t, "GET", "/v1/store/namespaces", "")
	require.Equal(t, 200, status, text)
	third := servertest.Dial(t, srv.Addr)
	hello := fmt.Sprintf(`{"svrid":0,"token":%q}`, token)
	overQuota(t, third.Call(protocol.Whoami, hello), 1005, "connections")
	status, text = surfer(srv, token).ask(t, "GET", "/v1/store/namespaces", "")
	require.Equal(t, 429, status)
	overQuota(t, text, 1005, "connections")
	_, other := tokenFor(t, root, "tenant-b")
	as(t, srv, other) // has a quota of its own

	web.CloseIdleConnections()
	eventually(t, "the place is free", func() bool { return strings.Contains(third.Call(protocol.Whoami, hello), `"code":0`) })

	require.Contains(t, one.Call(protocol.KVWatch, `{"ns":"n"}`), `"code":0`)
	require.Contains(t, third.Call(protocol.BookCfgChange, `{"file_pattern":"app/a.json","missing_ok":true}`), `"code":0`)
	overQuota(t, one.Call(protocol.KVWatch, `{"ns":"n","key":"k"}`), 1005, "watches")
	overQuota(t, third.Call(protocol.BookCfgChange, `{"file_pattern":"app/b.json","missing_ok":true}`), 1005, "watches")
	require.Contains(t, one.Call(protocol.KVUnwatch, `{"watch":1}`), `"code":0`)
	require.Contains(t, one.Call(protocol.KVWatch, `{"ns":"n","key":"k"}`), `"code":0`)

	require.Contains(t, one.Call(protocol.KVLease, `{"ttl":60000}`), `"code":0`)
	overQuota(t, third.Call(protocol.KVLease, `{"ttl":60000}`), 1005, "leases")

	status, text = surfer(srv, admin).ask(t, "GET", "/v1/auth/quotas?name=token:tenant-a", "")
	require.Equal(t, 200, status, text)
	for _, line := range []string{`"limit":"connections","used":2,"most":2,"quota":"quotas, quota 1"`, `"limit":"watches","used":2,"most":2`, `"limit":"leases","used":1,"most":1`} {
		require.Contains(t, text, line)
	}
	_, text = surfer(srv, admin).ask(t, "GET", "/metrics", "")
	require.Contains(t, text, `confcenter_quota_refused_total{kind="identity",limit="connections"} `)
	require.NotContains(t, text, "tenant-a", "metrics have no label for each identity")

	third.Reset()
	eventually(t, "what ended is counted no more", func() bool {
		_, text := surfer(srv, admin).ask(t, "GET", "/v1/auth/quotas?name=token:tenant-a", "")
		return strings.Contains(text, `"limit":"connections","used":1,`) && strings.Contains(text, `"limit":"watches","used":1,`)
	})
}

// refusedAmong sends many requests at once and returns how one is refused.
func refusedAmong(t *testing.T, p *servertest.Peer, cmd protocol.Command, body string) (refused string) {
	const many = 40
	for range many {
		p.Send(cmd, body)
	}
	for range many {
		if reply := p.Next().Body; strings.Contains(string(reply), `"code":503`) {
			refused = string(reply)
		}
	}
	require.NotEmpty(t, refused)
	return refused
}

func TestRequestsOfAnIdentityAreLimitedTogether(t *testing.T) {
	srv, root, _, token := limited(t, `[{"who": ["token:tenant-*"], "requests": 2}]`)
	p, second, web := as(t, srv, token), as(t, srv, token), surfer(srv, token)
	lease := p.Call(protocol.KVLease, `{"ttl":60000}`)
	overQuota(t, refusedAmong(t, p, protocol.KVNames, `{}`), 503, "requests")
	overQuota(t, second.Call(protocol.KVPut, `{"ns":"n","key":"k","value":"v"}`), 503, "requests")
	status, text := web.ask(t, "GET", "/v1/store/namespaces", "")
	require.Equal(t, 503, status)
	overQuota(t, text, 503, "requests")

	require.Empty(t, p.Call(protocol.KeepAlive, ``))
	require.Contains(t, p.Call(protocol.KVAlive, fmt.Sprintf(`{"lease":%v}`, object(t, lease)["lease"])), `"code":0`, "who could not keep a lease would lose more than a request")
	status, _ = web.ask(t, "GET", "/livez", "")
	require.Equal(t, 200, status)

	// A change of the quotas disconnects no one, and counts at once.
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/quotas.json","contents":{}}`), `"code":0`)
	eventually(t, "the limit is gone", func() bool {
		return strings.Contains(second.Call(protocol.KVPut, `{"ns":"n","key":"k","value":"v"}`), `"code":0`)
	})
	for range 20 {
		require.Contains(t, second.Call(protocol.KVPut, `{"ns":"n","key":"k","value":"v"}`), `"code":0`)
	}
}

func TestANamespaceIsLimited(t *testing.T) {
	srv, _, admin, token := limited(t, `[{"what": ["kv:keys"], "keys": 2, "size": 20}, {"what": ["kv:slow"], "requests": 2, "watches": 1}]`)
	p, web := as(t, srv, token), surfer(srv, token)
	for _, key := range []string{"a", "b"} {
		require.Contains(t, p.Call(protocol.KVPut, fmt.Sprintf(`{"ns":"keys","key":%q,"value":"1"}`, key)), `"code":0`)
	}
	overQuota(t, p.Call(protocol.KVPut, `{"ns":"keys","key":"c","value":"1"}`), 1022, "keys")
	status, text := web.ask(t, "PUT", "/v1/store/key?ns=keys&key=c", `{"value":"1"}`)
	require.Equal(t, 507, status)
	overQuota(t, text, 1022, "keys")
	status, text = web.ask(t, "PUT", "/v1/store/key?ns=keys&key=a", `{"value":"01234567890123456789"}`)
	require.Equal(t, 507, status)
	overQuota(t, text, 1022, "size")
	require.Contains(t, p.Call(protocol.KVDel, `{"ns":"keys","key":"a"}`), `"code":0`)
	require.Contains(t, p.Call(protocol.KVPut, `{"ns":"keys","key":"c","value":"1"}`), `"code":0`)

	overQuota(t, refusedAmong(t, p, protocol.KVGet, `{"ns":"slow","key":"k"}`), 503, "requests")
	status, text = web.ask(t, "GET", "/v1/store/key?ns=slow&key=k", "")
	require.Equal(t, 503, status)
	overQuota(t, text, 503, "requests")
	require.Contains(t, p.Call(protocol.KVGet, `{"ns":"keys","key":"c"}`), `"code":0`, "another one is none the slower")

	srv.Restart()
	overQuota(t, as(t, srv, token).Call(protocol.KVPut, `{"ns":"keys","key":"a","value":"1"}`), 1022, "keys")
	_, text = surfer(srv, admin).ask(t, "GET", "/v1/auth/quotas?name=kv:keys", "")
	require.Contains(t, text, `"limit":"keys","used":2,"most":2`)
	require.Contains(t, text, `"limit":"size","used":4,"most":20`)
}

// The words by which a watch on documents says which of them it means are no namespaces of keys.
func TestDocumentsAreInNoNamespace(t *testing.T) {
	srv, root, _, token := limited(t, `[{"what": ["kv:own", "kv:resolved"], "watches": 1, "requests": 1}]`)
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"app/a.json","contents":{}}`), `"code":0`)
	p := as(t, srv, token)
	for range 3 {
		require.Contains(t, p.Call(protocol.CfWatch, `{"name":"app/a"}`), `"code":0`)
		require.Contains(t, p.Call(protocol.CfWatch, `{"name":"app/a","resolved":1}`), `"code":0`)
	}
	require.Contains(t, p.Call(protocol.KVWatch, `{"ns":"own"}`), `"code":0`)
	overQuota(t, p.Call(protocol.KVWatch, `{"ns":"own"}`), 503, "requests")
}

// An administrator gets in when no one else does, and what is asked for most is answered.
func TestAFullServerAnswersAdministratorsAndProbes(t *testing.T) {
	srv, _, admin, token := limited(t, `[]`, "--max-connections", "3", "--http-max-connections", "2", "--rate", "1/s")
	for range 2 { // the administrator has one
		p := servertest.Dial(t, srv.Addr)
		eventually(t, "a place", func() bool {
			return strings.Contains(p.Call(protocol.Whoami, fmt.Sprintf(`{"svrid":0,"token":%q}`, token)), `"code":0`)
		})
	}
	p := servertest.Dial(t, srv.Addr)
	require.Regexp(t, `"code":503.*"retry_after":`, p.Call(protocol.Whoami, fmt.Sprintf(`{"svrid":0,"token":%q}`, token)))
	root := as(t, srv, admin)
	for range 5 {
		require.Contains(t, root.Call(protocol.KVStat, `{}`), `"code":0`, "no rate is for them")
	}

	one, two, three := surfer(srv, token), surfer(srv, token), surfer(srv, token)
	for _, web := range []*surf{one, two} {
		status, text := web.ask(t, "GET", "/v1/store/namespaces", "")
		require.Equal(t, 200, status, text)
	}
	status, text := three.ask(t, "GET", "/v1/store/namespaces", "")
	require.Equal(t, 503, status, text)
	require.Contains(t, text, "as many clients as it may have")
	for _, path := range []string{"/livez", "/readyz"} {
		status, text = surfer(srv, token).ask(t, "GET", path, "")
		require.Equal(t, 200, status, text)
	}
	for _, path := range []string{"/metrics", "/v1/store/namespaces"} {
		status, text = surfer(srv, admin).ask(t, "GET", path, "")
		require.Equal(t, 200, status, text)
	}
}

// By each edge and each kind of quota: who, from where, which quota, and of what. Repeated ones are
// added up, and nothing is told of what was in the requests.
func TestRefusalsByQuotasAreInTheAudit(t *testing.T) {
	srv, root, admin, token := limited(t, `[{"who": ["token:tenant-*"], "connections": 2, "watches": 1, "leases": 1}, {"who": ["token:tenant-b"], "requests": 2},
		{"what": ["kv:keys"], "keys": 1, "size": 100, "watches": 1}, {"what": ["kv:slow"], "requests": 2}, {"what": ["kv:few"], "leases": 1}, {"what": ["kv:thin"], "bytes": 100}]`)
	p, web := as(t, srv, token), surfer(srv, token)
	refuse := func(cmd protocol.Command, body, limit string) {
		t.Helper()
		require.Regexp(t, `quota of `+limit+`: `, refusedAmong(t, p, cmd, body))
	}
	denied := func(method, path, body, limit string) {
		t.Helper()
		_, text := web.ask(t, method, path, body)
		require.Contains(t, text, "quota of "+limit+": ")
	}
	require.Contains(t, p.Call(protocol.KVPut, `{"ns":"keys","key":"a","value":"1"}`), `"code":0`)
	require.Contains(t, p.Call(protocol.KVWatch, `{"ns":"keys"}`), `"code":0`)
	lease := fmt.Sprint(object(t, p.Call(protocol.KVLease, `{"ttl":60000}`))["lease"])
	require.Contains(t, p.Call(protocol.KVPut, `{"ns":"few","key":"a","value":"1","lease":`+lease+`}`), `"code":0`)
	for range 3 {
		overQuota(t, p.Call(protocol.KVPut, `{"ns":"keys","key":"hunter2","value":"hunter2"}`), 1022, "keys")
	}
	overQuota(t, p.Call(protocol.KVTxn, `{"then":[{"op":"put","ns":"other","key":"a","value":"1"},{"op":"put","ns":"keys","key":"a","value":"`+strings.Repeat("v", 200)+`"}]}`), 1022, "size")
	overQuota(t, p.Call(protocol.KVWatch, `{"ns":"other"}`), 1005, "watches")
	overQuota(t, p.Call(protocol.KVLease, `{"ttl":60000}`), 1005, "leases")
	overQuota(t, p.Call(protocol.KVPut, `{"ns":"few","key":"b","value":"1","lease":`+lease+`}`), 1022, "leases")
	refuse(protocol.KVGet, `{"ns":"slow","key":"k"}`, "requests")
	denied("PUT", "/v1/store/key?ns=keys&key=b", `{"value":"1"}`, "keys")
	denied("GET", "/v1/store/key?ns=slow&key=k", "", "requests")
	denied("GET", "/v1/kv/slow/k", "", "requests")
	require.Contains(t, p.Call(protocol.KVPut, `{"ns":"thin","key":"k","value":"`+strings.Repeat("v", 300)+`"}`), `"code":0`)
	denied("GET", "/v1/store/key?ns=thin&key=k", "", "bytes")
	third := servertest.Dial(t, srv.Addr)
	overQuota(t, third.Call(protocol.Whoami, fmt.Sprintf(`{"svrid":0,"token":%q}`, token)), 1005, "connections")
	_, other := tokenFor(t, root, "tenant-b")
	p = as(t, srv, other)
	refuse(protocol.KVNames, `{}`, "requests")

	found := func(via, do, what, outcome string) (n int64) {
		for _, l := range whatAudit(t, root) {
			if l.Kind == "refused" && strings.HasPrefix(l.Who, "token:tenant-") && l.Via == via && l.Do == "quota of "+do && strings.Join(l.What, " ") == what && l.Outcome == outcome {
				require.Contains(t, l.From, "127.0.0.1:")
				n += max(1, l.Count)
			}
		}
		return n
	}
	for _, want := range []struct{ via, do, what, outcome string }{
		{"tcp", "keys", "kv:keys", "quota"},
		{"tcp", "size", "kv:keys", "quota"},
		{"tcp", "watches", "", "limit"},
		{"tcp", "leases", "", "limit"},
		{"tcp", "leases", "kv:few", "quota"},
		{"tcp", "requests", "kv:slow", "busy"},
		{"tcp", "connections", "", "limit"},
		{"tcp", "requests", "", "busy"},
		{"http", "bytes", "kv:thin", "busy"},
	} {
		eventually(t, fmt.Sprint(want), func() bool { return found(want.via, want.do, want.what, want.outcome) > 0 })
	}
	srv.Restart() // what was added up is written by the end
	root = as(t, srv, admin)
	require.EqualValues(t, 4, found("tcp", "keys", "kv:keys", "quota"), "three over TCP and one over HTTP are added up")
	lines := 0
	for _, l := range whatAudit(t, root) {
		if l.Kind == "refused" {
			lines++
		}
		require.NotContains(t, fmt.Sprint(l), "hunter2")
	}
	require.LessOrEqual(t, lines, 2*10, "one when it happens first, and one for the others")
}

// What is not asked for by the commands of keys is paid for by its namespace all the same: over both
// edges, and by every way.
func TestModelsAndPlayerStoragePayForTheirNamespaces(t *testing.T) {
	srv, root, admin, token := limited(t, `[{"what": ["storage:1/1", "flow:blue", "bench"], "requests": 3}]`)
	p, web := as(t, srv, token), surfer(srv, token)
	flow, bench := protocol.OfModel("flow", 0), protocol.OfModel("bench", 5)
	const field = `"regionId":"1","logicType":"p","ownerId":"7"`
	for name, ask := range map[string]struct {
		cmd         protocol.Command
		body, other string // about a namespace with a quota, and about another one
		path        string
	}{
		"reads of fields": {protocol.StGet, `{"appId":"1",` + field + `,"names":["gold"]}`, `{"appId":"2",` + field + `,"names":["gold"]}`, "/v1/storage/1/1/p/7?names=gold"},
		"all fields":      {protocol.StAll, `{"appId":"1",` + field + `}`, `{"appId":"2",` + field + `}`, "/v1/storage/1/1/p/7"},
		"owners":          {protocol.StOwners, `{"appId":"1","regionId":"1"}`, `{"appId":"2","regionId":"1"}`, "/v1/storage/1/1"},
		"writes":          {protocol.StUpdate, `{"appId":"1",` + field + `,"fields":{"gold":"1"}}`, `{"appId":"2",` + field + `,"fields":{"gold":"1"}}`, ""},
		"a scope":         {flow, `{"scope":"blue","list":"cfapps"}`, `{"scope":"red","list":"cfapps"}`, "/v1/flow/list?scope=blue&list=cfapps"},
		"keys of a scope": {protocol.KVGet, `{"ns":"@flow/blue","key":"k"}`, `{"ns":"@flow/red","key":"k"}`, "/v1/store/key?ns=%40flow%2Fblue&key=k"},
		"the bench":       {bench, `{}`, "", "/v1/bench/nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			overQuota(t, refusedAmong(t, p, ask.cmd, ask.body), 503, "requests")
			if ask.other != "" {
				for range 5 {
					require.NotContains(t, p.Call(ask.cmd, ask.other), `"code":503`)
				}
			}
			for range 5 {
				require.NotContains(t, root.Call(ask.cmd, ask.body), `"code":503`, "administrators pay nothing")
			}
			if ask.path == "" {
				return
			}
			var status int
			var text string
			for i := 0; i < 10 && status != 503; i++ {
				status, text = web.ask(t, "GET", ask.path, "")
			}
			require.Equal(t, 503, status)
			overQuota(t, text, 503, "requests")
		})
	}
	_, text := surfer(srv, admin).ask(t, "GET", "/v1/auth/quotas?name=flow:blue", "")
	require.Contains(t, text, `{"limit":"requests","used":0,"most":3,"quota":"quotas, quota 1"}`)
	require.NotContains(t, text, "keys")
	eventually(t, "the audit knows", func() bool {
		return slices.ContainsFunc(whatAudit(t, root), func(l audit.Line) bool {
			return l.Kind == "refused" && slices.Equal(l.What, []string{"storage:1/1"})
		})
	})
}
