package integration

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"confcenter/access/openid"
	"confcenter/integration/openidtest"
)

// freePort is a port for a server whose address has to be known before it starts.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// withPeople is a server that people sign in at, by a provider and by tokens.
func withPeople(t *testing.T) (srv *Process, admin string, provider *openidtest.Provider) {
	at := freePort(t)
	provider = openidtest.Start(t, "http://"+at+openid.CallbackPath, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(openidtest.ClientSecret+"\n"), 0o600))
	srv, admin = guarded(t, "--http", at, "--external-url", "http://"+at, "--oidc-issuer", provider.URL, "--oidc-client-id", openidtest.ClientID,
		"--oidc-client-secret-file", secret, "--oidc-domains", "example.org")
	return srv, admin, provider
}

// guest opens the console as a person who is not known yet. That requests are refused is what the
// test is about, and no fault of the page.
func (b *browser) guest(p *Process, path string) *tab {
	b.refused.Store(true)
	return b.open(p, path, view{})
}

// another opens a second page of the same browser, with the same cookies.
func (tb *tab) another(path string) *tab {
	ctx, closeTab := chromedp.NewContext(tb.ctx)
	tb.browser.t.Cleanup(closeTab)
	other := &tab{browser: tb.browser, t: tb.t, ctx: ctx, base: tb.base, size: tb.size}
	require.NoError(tb.t, chromedp.Do(ctx, chromedp.EmulateViewport(tb.size[0], tb.size[1])))
	other.load(path)
	return other
}

// arrives waits for an expression to be true while the tab goes from page to page.
func (tb *tab) arrives(expression string) {
	tb.t.Helper()
	eventually(tb.t, expression, func() bool {
		there, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return err == nil && there
	})
}

// leaves clicks on what leads to another page.
func (tb *tab) leaves(css string) {
	tb.t.Helper()
	tb.do(chromedp.Click(chromedp.CSS(css)))
}

// asks waits for the page to sign in on.
func (tb *tab) asks(title string) {
	tb.t.Helper()
	tb.arrives(fmt.Sprintf(`document.querySelector("#signin h1")?.textContent === %s`, quote(title)))
}

func (tb *tab) signInByToken(token string) {
	tb.t.Helper()
	tb.write("#sign-in-token", token)
	tb.leaves("#sign-in")
	tb.arrives(`document.querySelector("#who") && document.documentElement.dataset.ready`)
}

func TestConsoleAsksWhoOneIs(t *testing.T) {
	srv, admin, _ := withPeople(t)
	tb := startBrowser(t).guest(srv, "store")
	tb.run("nothing_is_shown_to_nobody", func(t *testing.T) {
		tb.sees("#signin h1", "Sign in")
		tb.misses("nav a")
		tb.until(`document.querySelector("#main").hidden`)
	})
	tb.run("a_wrong_token", func(t *testing.T) {
		tb.write("#sign-in-token", "cct_0123456789abcdef_x")
		tb.click("#sign-in")
		tb.sees("#sign-in-fault", "The token is unknown, revoked or expired.")
	})
	tb.run("in_chinese", func(t *testing.T) {
		tb.click("#language")
		tb.sees("#signin h1", "登录")
		tb.click("#language")
		tb.sees("#signin h1", "Sign in")
	})
	tb.run("by_a_token_one_is_where_one_was", func(t *testing.T) {
		tb.signInByToken(admin)
		tb.sees("#who", "token:administrator")
		require.Equal(t, "#/store", eval[string](tb, "location.hash"))
		require.Empty(t, eval[string](tb, "document.cookie"), "no script reads the cookie")
		require.NotContains(t, eval[string](tb, "JSON.stringify({...localStorage, ...sessionStorage})"), "cct_")
	})
	var token string
	tb.run("makes_a_token_which_is_shown_once", func(t *testing.T) {
		tb.load("access")
		tb.sees("#tokens", "administrator")
		tb.sees("#sessions .badge", "this one")
		tb.click("#make-token")
		tb.write("#token-name", "game-1")
		tb.write("#token-groups", "games, x/y")
		tb.click("#token-make")
		tb.sees("#token-shown", "only this once")
		token = awaited[string](tb, `document.querySelector("#token-text").value`)
		require.True(t, strings.HasPrefix(token, "cct_"), token)
		tb.click("#token-close")
		tb.sees("#tokens", "x/y")
		status, _ := bearer(t, srv, token, "GET", "/v1/config/file?name=game/a.json", "")
		require.Equal(t, 200, status)
	})
	tb.run("revokes_it", func(t *testing.T) {
		tb.click("#revoke-" + token[4:20])
		tb.click("#confirm-yes")
		tb.told("Revoked the token of game-1.")
		status, _ := bearer(t, srv, token, "GET", "/v1/config/file?name=game/a.json", "")
		require.Equal(t, 401, status)
	})
	tb.run("on_a_phone", func(t *testing.T) {
		wide := tb.size
		tb.size = [2]int64{400, 800}
		tb.do(chromedp.EmulateViewport(400, 800))
		tb.load("access")
		tb.sees("#sessions .badge", "this one")
		tb.fits()
		tb.sound("access")
		tb.size = wide
		tb.do(chromedp.EmulateViewport(wide[0], wide[1]))
	})
	tb.run("signs_out_here_and_the_other_page_ends", func(t *testing.T) {
		other := tb.another("store/match")
		eventually(t, "a stream", func() bool { return viewers(t, srv, admin) > 0 })
		before := viewers(t, srv, admin)
		began := time.Now()
		tb.leaves("#sign-out")
		eventually(t, "the streams to end", func() bool { return viewers(t, srv, admin) == 0 })
		t.Logf("%d streams ended within %s", before, time.Since(began))
		other.sees("#signin h1", "Sign in")
		other.until(`document.querySelector("#main").hidden`)
		tb.asks("Sign in")
	})
}

// viewers are how many streams are open.
func viewers(t *testing.T, srv *Process, admin string) int {
	_, text := bearer(t, srv, admin, "GET", "/v1/clients", "")
	_, streams, ok := strings.Cut(text, `"streams":[`)
	require.True(t, ok, text)
	return strings.Count(streams, `"kind"`)
}

func TestConsoleSignsInAtTheProvider(t *testing.T) {
	srv, admin, provider := withPeople(t)
	status, text := bearer(t, srv, admin, "PUT", "/v1/config/file?name=_access/people.json", `{"rules":[{"who":["group:ops"],"allow":["*"],"what":["*"]},{"who":["person:ben@example.org"],"allow":["read"],"what":["config:game/*"]}]}`)
	require.Equal(t, 200, status, text)
	tb := startBrowser(t).guest(srv, "store/match")
	as := func(who string) {
		tb.leaves("#sign-in-openid")
		tb.arrives(fmt.Sprintf(`location.origin === %s && document.querySelector("#no")`, quote(provider.URL)))
		tb.leaves("#" + who)
		tb.arrives(fmt.Sprintf(`location.origin === %s && document.documentElement.dataset.ready`, quote("http://"+srv.HTTP)))
	}
	tb.run("who_is_not_vouched_for", func(t *testing.T) {
		as("as-eve")
		tb.sees("#sign-in-fault", "has not verified your e-mail address")
		as("no")
		tb.sees("#sign-in-fault", "did not confirm who you are")
		tb.click("#language")
		tb.sees("#sign-in-fault", "提供方没有确认你的身份")
		tb.click("#language")
	})
	tb.run("whom_a_role_lets", func(t *testing.T) {
		tb.load("store/match")
		as("as-ann")
		tb.sees("#who", "person:ann@example.org")
		require.Equal(t, "#/store/match", eval[string](tb, "location.hash"))
		tb.load("access")
		tb.sees("#sessions", "person:ann@example.org")
		tb.sees("#own", "games, ops")
		require.Equal(t, "person:ann@example.org", authorOf(t, tb))
		tb.leaves("#sign-out-all")
		tb.asks("Sign in")
	})
	tb.run("is_refused_what_no_role_allows", func(t *testing.T) {
		as("as-ben")
		tb.sees("#who", "person:ben@example.org")
		tb.load("access")
		tb.sees("#tokens .note", `you may not read "roles"`)
		tb.sees("#sessions .note", "ask an administrator for a role that allows it")
		refused := eval[[]float64](tb, `Promise.all([["GET", "kv"], ["PUT", "config/file?name=other.json"], ["POST", "auth/token"], ["GET", "backup"]].map(
			([method, path]) => fetch("../v1/" + path, {method, body: method === "GET" ? undefined : "{}"}).then(r => r.status)))`)
		require.Equal(t, []float64{403, 403, 403, 403}, refused)
		require.Equal(t, 200.0, eval[float64](tb, `fetch("../v1/config/file?name=game/a.json").then(r => r.status)`), "what a role allows")
		tb.click("#language")
		tb.sees("#tokens .note", "你没有权限对“roles”执行 read")
		tb.load("configs")
		tb.sees("#refused", "你没有权限对“config”执行")
		tb.load("store")
		tb.sees("#main", "你没有权限")
		tb.load("clients")
		tb.sees("#main", "你没有权限")
		tb.load("status")
		tb.sees("#main", "你没有权限")
	})
	tb.run("a_page_of_another_origin_has_nothing_of_it", func(t *testing.T) {
		other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!doctype html><p>other") })}
		l, err := net.Listen("tcp", "127.0.0.1:0") // the same site for a cookie
		require.NoError(t, err)
		go func() { _ = other.Serve(l) }()
		t.Cleanup(func() { _ = other.Close() })
		tb.do(chromedp.Navigate("http://" + l.Addr().String()))
		path := "http://" + srv.HTTP + "/v1/config/file?" + url.Values{"name": {"game/a.json"}}.Encode()
		require.Equal(t, "refused", eval[string](tb, fmt.Sprintf(`fetch(%s, {credentials: "include"}).then(r => "answered " + r.status, () => "refused")`, quote(path))))
		status, _ := bearer(t, srv, admin, "POST", "/v1/auth/end", `{"who":"person:ben@example.org"}`)
		require.Equal(t, 200, status)
		tb.load("configs")
		tb.sees("#signin h1", "登录")
	})
}

// authorOf writes a key in the console's name and returns whose the history says it is.
func authorOf(t *testing.T, tb *tab) string {
	return eval[string](tb, `fetch("../v1/config/file?name=people.json", {method: "PUT", body: "{}", headers: {"X-Confcenter-Origin": "console"}})
		.then(() => fetch("../v1/history/log?name=people.json")).then(r => r.json()).then(a => JSON.stringify(a).match(/"author":"([^"]*)"/)[1])`)
}
