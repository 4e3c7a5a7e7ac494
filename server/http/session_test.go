package http

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/openid"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/internal/authority"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/op"
	"confcenter/server/edge"
)

// ours are the headers of a request that the console's page makes.
const ours = "Sec-Fetch-Site: same-origin"

// external is where browsers find the server of a test with a provider.
const external = "localhost:1"

// peopleKit is a gateway that people sign in at by tokens. It knows of a provider that is not there:
// what needs one is tested in integration/openid.
type peopleKit struct {
	*kit
	tokens *token.Tokens
	admin  string // a token of an administrator
	id     string // of it

	mu    sync.Mutex
	noted []access.Event // guarded by mu
}

func people(t *testing.T, change ...func(*Config)) *peopleKit {
	return peopleWith(t, control.Config{}, change...)
}

// peopleWith is people with settings of who gets in.
func peopleWith(t *testing.T, rules control.Config, change ...func(*Config)) *peopleKit {
	p := &peopleKit{}
	sign, err := openid.Open(openid.Config{Issuer: "http://127.0.0.1:1", ClientID: "confcenter", External: "http://" + external})
	require.NoError(t, err)
	p.kit = start(t, func(cfg *Config, stores *Stores) {
		p.tokens = stores.Models[slices.IndexFunc(stores.Models, func(m op.Model) bool { return m.Name == "auth" })].Asked.(*token.Tokens)
		made, err := p.tokens.Make(t.Context(), nil, &token.MakeAsk{Name: "root", Groups: []string{policy.Administrators}})
		require.NoError(t, err)
		p.admin, p.id = made.Text, made.ID
		near := embedded.New(stores.State.(kv.Archive), nil)
		rules.Roles, rules.Tokens, rules.Store, rules.Leases = stores.Config, p.tokens, near, stores.State.(control.Leases)
		rules.Administrators = []string{"person:ann@example.org"}
		c := control.Open(rules)
		t.Cleanup(func() {
			c.Close()
			near.Close()
			sign.Close()
		})
		cfg.OpenID, cfg.CORSOrigins = sign, []string{"https://ops.example.com"}
		cfg.Edge = edge.New(c, func(e access.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.noted = append(p.noted, e)
		}, nil, cfg.Log)
		for _, c := range change {
			c(cfg)
		}
	})
	t.Cleanup(p.stop) // before what it is made of
	return p
}

// cookies are what an answer has the browser keep.
func (a answer) cookies(t testing.TB) (all []*http.Cookie) {
	for _, line := range a.header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		require.NoError(t, err)
		all = append(all, c)
	}
	return all
}

// signedIn is the header with the cookie of a person who has signed in with a token.
func (p *peopleKit) signedIn(token string, header ...string) (cookie string, c *http.Cookie) {
	p.t.Helper()
	a := p.do("POST", "/v1/session", `{"token":"`+token+`"}`, append([]string{ours}, header...)...)
	require.Equal(p.t, 200, a.status, a.body)
	all := a.cookies(p.t)
	require.Len(p.t, all, 1)
	return "Cookie: " + all[0].Name + "=" + all[0].Value, all[0]
}

func who(t testing.TB, a answer) (s sessionBody) {
	require.Equal(t, 200, a.status, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &s))
	return s
}

func TestABrokenRoleIsToldOfWithTheHealth(t *testing.T) {
	p := people(t)
	bearer := "Authorization: Bearer " + p.admin
	require.Contains(t, p.get("/readyz?verbose", bearer).body, "[+]access ok\n")
	require.NoError(t, os.MkdirAll(filepath.Join(p.conf, "_access"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(p.conf, "_access", "hand.json"), []byte(`{`), 0o644))
	p.config.Reload()
	got := p.get("/readyz?verbose", bearer)
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, "[!]access trouble: broken roles, which were never in force: _access/hand.json")
}

func TestSigningInByTokenMakesASession(t *testing.T) {
	p := people(t)
	anybody := who(t, p.get("/v1/session"))
	require.Equal(t, sessionBody{AccessControl: true, SignIn: []string{"token", "openid"}}, anybody)
	cookie, c := p.signedIn(p.admin)
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.Equal(t, "/", c.Path)
	require.Empty(t, c.Domain)
	require.False(t, c.Secure, "without TLS the browser would not keep it")
	require.Zero(t, c.MaxAge, "it ends with the browser")
	require.NotContains(t, c.Value, p.admin[21:])
	_, port, _ := strings.Cut(p.Addr().String(), ":")
	require.Equal(t, "confcenter-"+port, c.Name)

	me := who(t, p.get("/v1/session", cookie, ours))
	require.Equal(t, "token:root", me.Name)
	require.NotEmpty(t, me.ID)
	require.Equal(t, 200, p.get("/v1/kv", cookie, ours).status)
	require.Equal(t, 200, p.do("PUT", "/v1/store/key?ns=n&key=k", `{"value":1}`, cookie, ours).status)
	require.Equal(t, 401, p.get("/v1/kv", ours).status)
	require.Equal(t, 401, p.get("/v1/kv", cookie+"x", ours).status)
	require.Equal(t, "token:root", who(t, p.get("/v1/session", "Authorization: Bearer "+p.admin)).Name)

	for _, body := range []string{`{"token":"` + p.admin + `x"}`, `{"token":""}`, `{}`} {
		a := p.do("POST", "/v1/session", body, ours)
		require.Equal(t, 401, a.status, body)
		require.Empty(t, a.cookies(t))
		require.NotContains(t, a.body, p.admin[21:])
	}
	for _, body := range []string{``, `[]`, `{"token":1}`, `{"token":"x","more":1}`} {
		require.Equal(t, 400, p.do("POST", "/v1/session", body, ours).status, body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, access.EventLogin, p.noted[0].Kind)
	require.Equal(t, "token:root", p.noted[0].By.Identity.Name)
	require.Equal(t, []string{"session:" + me.ID}, p.noted[0].What)
	require.True(t, slices.ContainsFunc(p.noted, func(e access.Event) bool {
		return e.Kind == access.EventLogin && e.Outcome == 401 && e.Do == "session.token"
	}))
}

// The console shows pages of what there may be something to see of.
func TestSessionSaysWhatOneMay(t *testing.T) {
	p := people(t)
	few, err := p.tokens.Make(t.Context(), nil, &token.MakeAsk{Name: "few"})
	require.NoError(t, err)
	may := func(token string) []string { return who(t, p.get("/v1/session", "Authorization: Bearer "+token)).May }
	all := may(p.admin)
	for _, right := range []access.Right{access.ConfigRead, access.KVRead, access.StorageRead, access.FlowRead, access.BenchRead, access.ClientsRead, access.StatusRead, access.ReviewRead, access.AuditRead, access.RolesRead} {
		require.Contains(t, all, right.String())
	}
	require.NotContains(t, all, access.Nobody.String())
	require.Equal(t, []string{"review:read", "review:write"}, may(few.Text), "reviews that one has asked for oneself")
	require.NoError(t, os.MkdirAll(filepath.Join(p.conf, "_access"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(p.conf, "_access", "few.json"), []byte(`{"rules":[{"who":["token:few"],"allow":["read"],"what":["config:game/*","status"]}]}`), 0o600))
	p.config.Reload()
	require.Eventually(t, func() bool {
		return slices.Equal([]string{"config:read", "review:read", "review:write", "status:read"}, slices.Sorted(slices.Values(may(few.Text))))
	}, patience, time.Millisecond)
	require.Empty(t, who(t, p.get("/v1/session")).May)
}

// A program proves who it is with each request. The audit is told once for a connection, and adds up.
func TestWhoGivesATokenWithEachRequestLogsInOnce(t *testing.T) {
	p := people(t)
	logins := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.noted {
			if e.Kind == access.EventLogin && e.Do == "request" {
				require.True(t, e.Often)
				require.Equal(t, "token:root", e.By.Identity.Name)
				require.Equal(t, access.OverHTTP, e.By.Origin)
				require.NotEmpty(t, e.By.Address)
				n++
			}
		}
		return n
	}
	for range 3 {
		require.Equal(t, 200, p.get("/v1/store/namespaces", "Authorization: Bearer "+p.admin).status)
	}
	require.Equal(t, 1, logins())
	p.client.CloseIdleConnections()
	require.Equal(t, 200, p.get("/v1/store/namespaces", "Authorization: Bearer "+p.admin).status)
	require.Equal(t, 2, logins())
	cookie, _ := p.signedIn(p.admin)
	require.Equal(t, 200, p.get("/v1/kv", cookie, ours).status)
	require.Equal(t, 401, p.get("/v1/kv").status)
	require.Equal(t, 2, logins(), "who has signed in has another line, and nobody has none")
}

// The cookie that someone has put into a browser before is not the one it has afterwards.
func TestSigningInAlwaysMakesANewSession(t *testing.T) {
	p := people(t)
	before, _ := p.signedIn(p.admin)
	after, _ := p.signedIn(p.admin, before)
	require.NotEqual(t, before, after)
	require.Equal(t, 401, p.get("/v1/kv", before, ours).status, "it was this browser's")
	require.Equal(t, 200, p.get("/v1/kv", after, ours).status)
	name, _, _ := strings.Cut(after, "=")
	planted := name + "=ccs_0123456789abcdef_" + strings.Repeat("A", 43)
	third, _ := p.signedIn(p.admin, planted)
	require.NotEqual(t, planted, third)
	require.Equal(t, 401, p.get("/v1/kv", planted, ours).status)
}

// foreign are the headers by which browsers tell of other pages.
var foreign = map[string][]string{
	"another site":                                    {"Sec-Fetch-Site: cross-site"},
	"a neighbour, or another port":                    {"Sec-Fetch-Site: same-site"},
	"an origin that CORS lets in":                     {"Sec-Fetch-Site: cross-site", "Origin: https://ops.example.com"},
	"such a one that is a neighbour":                  {"Sec-Fetch-Site: same-site", "Origin: https://ops.example.com"},
	"such a one, of a browser without fetch metadata": {"Origin: https://ops.example.com"},
	"no origin": {"Origin: null"},
}

// A cookie is no proof of a request that another page has caused, whatever the path, also if it
// changes nothing, and also for pages that CORS lets in.
func TestNoRouteTakesTheCookieOfAnotherPage(t *testing.T) {
	p := people(t)
	cookie, _ := p.signedIn(p.admin)
	seen := 0
	for _, rt := range p.routes() {
		for _, method := range rt.allowed() {
			if rt.right == access.Anyone {
				continue
			}
			path := strings.TrimSuffix(rt.pattern, "{$}")
			for what, header := range foreign {
				a := p.do(method, path, "", append([]string{cookie}, header...)...)
				require.Contains(t, []int{401, 403}, a.status, "%s: %s %s: %s", what, method, path, a.body)
				if a.status == 403 {
					require.Contains(t, a.body, "a page of another site")
				}
				seen++
			}
			if method != http.MethodGet { // of a browser there would be an origin
				require.Equal(t, 401, p.do(method, path, "", cookie).status, "%s %s", method, path)
			}
		}
	}
	require.Greater(t, seen, 60*len(foreign))
	for what, header := range foreign {
		require.Empty(t, who2(p.do("GET", "/v1/session", "", append([]string{cookie}, header...)...)).Name, what)
		require.NotEqual(t, 200, p.do("DELETE", "/v1/session", "", append([]string{cookie}, header...)...).status, what)
	}
	require.Equal(t, 200, p.get("/v1/kv", cookie).status, "from an older browser, which changes nothing")
	require.Equal(t, 200, p.get("/v1/kv", cookie, "Sec-Fetch-Site: none").status, "typed by a person")
	require.Equal(t, 200, p.do("PUT", "/v1/store/key?ns=n&key=k", `{"value":1}`, cookie, "Origin: "+p.url).status)
}

func who2(a answer) (s sessionBody) {
	_ = json.Unmarshal([]byte(a.body), &s)
	return s
}

// A browser without fetch metadata says nothing of where a GET comes from. So none may change
// anything.
func TestNoGETChangesAnything(t *testing.T) {
	for _, rt := range people(t).routes() {
		if !slices.Contains(rt.allowed(), http.MethodGet) || rt.name == "session.callback" {
			continue
		}
		for _, end := range []string{":write", ":grant", ":delete", ":send", ":lock", ":lease", ":land"} {
			require.False(t, rt.method == http.MethodGet && strings.HasSuffix(rt.right.String(), end), "%s: %s", rt.name, rt.right)
		}
	}
}

// A person who is signed in unawares works in another's name.
func TestNoOtherPageSignsAnybodyInOrOut(t *testing.T) {
	p := people(t)
	for what, header := range foreign {
		for path, body := range map[string]string{"/v1/session": `{"token":"` + p.admin + `"}`, "/v1/session/openid": `{}`} {
			a := p.do("POST", path, body, append(header, "Host: "+external)...)
			require.Equal(t, 403, a.status, what)
			require.Empty(t, a.cookies(t), what)
		}
	}
	require.Equal(t, 403, p.do("POST", "/v1/session", `{"token":"`+p.admin+`"}`).status, "no browser")
}

func TestTwoCookiesOfOneNameAreNone(t *testing.T) {
	p := people(t)
	cookie, c := p.signedIn(p.admin)
	require.Equal(t, 401, p.get("/v1/kv", cookie+"; "+c.Name+"=other", ours).status)
	require.Equal(t, 401, p.get("/v1/kv", "Cookie: "+c.Name+"=other; "+strings.TrimPrefix(cookie, "Cookie: "), ours).status)
}

func TestOverTLSOnlyThisHostSetsTheCookie(t *testing.T) {
	from, err := authority.New()
	require.NoError(t, err)
	pair, err := from.Issue("server", time.Now().Add(time.Hour))
	require.NoError(t, err)
	cert, err := pair.Certificate()
	require.NoError(t, err)
	p := people(t, func(cfg *Config) {
		cfg.TLSListen, cfg.TLS = "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}}
	})
	p.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: from.Pool()}}
	p.url = "https://" + p.TLSAddr().String()
	cookie, c := p.signedIn(p.admin)
	require.True(t, strings.HasPrefix(c.Name, "__Host-confcenter-"), c.Name)
	require.True(t, c.Secure && c.HttpOnly && c.Path == "/" && c.Domain == "")
	require.Equal(t, 200, p.get("/v1/kv", cookie, ours).status)
	require.Equal(t, 401, p.get("/v1/kv", strings.Replace(cookie, "__Host-", "", 1), ours).status)
}

func TestABearerTokenWinsOverTheCookie(t *testing.T) {
	p := people(t)
	cookie, _ := p.signedIn(p.admin)
	other, err := p.tokens.Make(t.Context(), nil, &token.MakeAsk{Name: "other"})
	require.NoError(t, err)
	require.Equal(t, "token:other", who(t, p.get("/v1/session", cookie, ours, "Authorization: Bearer "+other.Text)).Name)
	require.Equal(t, 401, p.get("/v1/kv", cookie, ours, "Authorization: Bearer "+other.Text+"x").status)
	require.Equal(t, 401, p.get("/v1/kv", cookie, ours, "Authorization: Basic x").status)
}

// follow opens a stream and returns how to wait for its end.
func (p *peopleKit) follow(cookie string) (ended <-chan struct{}) {
	r, err := http.NewRequest("GET", p.url+"/v1/store/stream?ns=n", nil)
	require.NoError(p.t, err)
	r.Header.Set("Cookie", strings.TrimPrefix(cookie, "Cookie: "))
	got, err := p.client.Do(r)
	require.NoError(p.t, err)
	require.Equal(p.t, 200, got.StatusCode)
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer got.Body.Close()
		_, _ = io.Copy(io.Discard, bufio.NewReader(got.Body))
	}()
	return over
}

func TestTheEndOfASessionEndsItsStreams(t *testing.T) {
	p := people(t)
	for what, end := range map[string]func(cookie, id string){
		"signing out": func(cookie, _ string) {
			a := p.do("DELETE", "/v1/session", "", cookie, ours)
			require.Equal(t, 200, a.status, a.body)
			require.Equal(t, -1, a.cookies(t)[0].MaxAge)
		},
		"signing out in another browser": func(string, string) {
			other, _ := p.signedIn(p.admin)
			require.Contains(t, p.do("DELETE", "/v1/session?all=1", "", other, ours).body, `"count":2`)
		},
		"an administrator": func(_, id string) {
			require.Equal(t, 200, p.do("POST", "/v1/auth/end", `{"id":"`+id+`"}`, "Authorization: Bearer "+p.admin).status)
		},
		"the token's end": func(string, string) { // last
			_, err := p.tokens.Revoke(context.Background(), nil, &token.RevokeAsk{ID: p.id})
			require.NoError(t, err)
			made, err := p.tokens.Make(t.Context(), nil, &token.MakeAsk{Name: "root", Groups: []string{policy.Administrators}})
			require.NoError(t, err)
			p.admin, p.id = made.Text, made.ID
		},
	} {
		cookie, _ := p.signedIn(p.admin)
		ended := p.follow(cookie)
		end(cookie, who(t, p.get("/v1/session", cookie, ours)).ID)
		began := time.Now()
		select {
		case <-ended:
		case <-time.After(patience):
			require.FailNow(t, "the stream goes on", what)
		}
		t.Logf("%s: %s", what, time.Since(began))
		require.Equal(t, 401, p.get("/v1/kv", cookie, ours).status, what)
		gone := p.get("/v1/session", cookie, ours)
		require.Empty(t, who(t, gone).Name, what)
		require.Equal(t, -1, gone.cookies(t)[0].MaxAge, "the browser forgets it")
		require.Equal(t, 401, p.do("DELETE", "/v1/session", "", cookie, ours).status, what)
	}
}

// A page that is left open polls, which is no use by a person.
func TestPollsDoNotPutOffTheEndOfASession(t *testing.T) {
	p := people(t)
	cookie, _ := p.signedIn(p.admin)
	until := func() int64 { return who(t, p.get("/v1/session", cookie, ours)).Until }
	first := until()
	for _, path := range []string{"/v1/status", "/v1/status/samples", "/v1/clients"} {
		require.Equal(t, 200, p.get(path, cookie, ours).status)
		require.Equal(t, first, until(), path)
	}
	require.Equal(t, 200, p.get("/v1/kv", cookie, ours, "X-Confcenter-Idle: 1").status, "what a page shows is not quiet")
	require.Equal(t, first, until())
	require.Eventually(t, func() bool {
		require.Equal(t, 200, p.get("/v1/kv", cookie, ours).status)
		return until() > first
	}, patience, time.Millisecond)
}

func TestWithoutAccessControlNobodySignsIn(t *testing.T) {
	k := start(t, nil)
	require.Equal(t, sessionBody{}, who(t, k.get("/v1/session")))
	require.Equal(t, 501, k.do("POST", "/v1/session", `{"token":"x"}`, ours).status)
	require.Equal(t, 501, k.do("POST", "/v1/session/openid", `{}`, ours).status)
	require.Equal(t, 501, k.do("DELETE", "/v1/session", "", ours).status)
	require.Equal(t, "../../console/#/signin/not_implemented", k.get("/v1/session/callback").header.Get("Location"))
	require.Equal(t, 200, k.get("/v1/kv", "Cookie: confcenter=x").status)
}
