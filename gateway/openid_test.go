package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
)

// begin goes to the provider, and returns where that is and the cookie of the way there.
func (p *peopleKit) begin(place string) (at, cookie string, c *http.Cookie) {
	p.t.Helper()
	a := p.do("POST", "/v1/session/openid", `{"return":`+place+`}`, ours, "Host: "+external)
	require.Equal(p.t, 200, a.status, a.body)
	var body struct{ Location string }
	require.NoError(p.t, json.Unmarshal([]byte(a.body), &body))
	all := a.cookies(p.t)
	require.Len(p.t, all, 1)
	return body.Location, "Cookie: " + all[0].Name + "=" + all[0].Value, all[0]
}

// back comes back from the provider, as a browser does: from a page of another site.
func (p *peopleKit) back(at, who string, header ...string) answer {
	to := p.provider.Visit(p.t, at, who)
	return p.get(to.RequestURI(), append(header, "Host: "+external, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")...)
}

// session is the header with the session's cookie that an answer sets; empty: none.
func session(t *testing.T, a answer) string {
	for _, c := range a.cookies(t) {
		if c.Name == "confcenter-1" && c.Value != "" {
			require.True(t, c.HttpOnly)
			require.Equal(t, http.SameSiteStrictMode, c.SameSite)
			return "Cookie: " + c.Name + "=" + c.Value
		}
	}
	return ""
}

func TestAPersonSignsInAtTheProvider(t *testing.T) {
	p := people(t)
	at, cookie, c := p.begin(`"#/store/n"`)
	require.True(t, strings.HasPrefix(at, p.provider.URL))
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, c.SameSite, "it comes back from another site")
	require.Equal(t, "/v1/session/callback", c.Path)
	require.Equal(t, 600, c.MaxAge)
	a := p.back(at, "ann", cookie)
	require.Equal(t, 303, a.status, a.body)
	require.Equal(t, "../../console/#/store/n", a.header.Get("Location"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"))
	me := who(t, p.get("/v1/session", session(t, a), ours, "Host: "+external))
	require.Equal(t, "person:ann@example.org", me.Name)
	require.Equal(t, []string{"games", "ops"}, me.Groups)
	require.Equal(t, 200, p.get("/v1/kv", session(t, a), ours, "Host: "+external).status, "whom the settings make an administrator")
	require.True(t, slices.ContainsFunc(a.cookies(t), func(c *http.Cookie) bool { return c.Name == "confcenter-signin-1" && c.MaxAge < 0 }), "it is good for once")

	at, cookie, _ = p.begin(`""`)
	ben := session(t, p.back(at, "ben", cookie))
	require.Equal(t, 403, p.get("/v1/kv", ben, ours, "Host: "+external).status, "no role allows it")
}

func TestWhoIsNotVouchedForLearnsWhy(t *testing.T) {
	p := people(t)
	for _, c := range []struct {
		who, why string
		noted    access.EventKind
	}{{"eve", "forbidden", access.EventDenied}, {"no", "not_identified", access.EventLogin}} {
		at, cookie, _ := p.begin(`"#/store"`)
		a := p.back(at, c.who, cookie)
		require.Equal(t, "../../console/#/signin/"+c.why, a.header.Get("Location"))
		require.Empty(t, session(t, a))
		p.mu.Lock()
		require.Equal(t, c.noted, p.noted[len(p.noted)-1].Kind, c.who)
		p.mu.Unlock()
	}
}

// The attacker's own answer of the provider, brought to somebody else's browser, signs nobody in:
// not without the cookie of the way there, not with another one, not with one made up.
func TestOnlyTheBrowserThatBeganComesBack(t *testing.T) {
	p := people(t)
	at, cookie, c := p.begin(`""`)
	_, other, _ := p.begin(`""`)
	for what, header := range map[string]string{
		"no cookie":                "Accept: */*",
		"another attempt":          other,
		"a cookie that is made":    "Cookie: " + c.Name + "=eyJzdGF0ZSI6IiJ9",
		"a cookie that is changed": cookie[:len(cookie)-2] + "AA",
		"two cookies":              cookie + "; " + c.Name + "=x",
		"that of another server":   "Cookie: " + c.Name + "=" + sealedElsewhere(t),
	} {
		a := p.back(at, "ann", header)
		require.Equal(t, 303, a.status, what)
		require.Equal(t, "../../console/#/signin/not_identified", a.header.Get("Location"), what)
		require.Empty(t, session(t, a), what)
		at, cookie, c = p.begin(`""`) // the provider has answered once
	}
	require.NotEmpty(t, session(t, p.back(at, "ann", cookie)))
}

func sealedElsewhere(t *testing.T) string {
	text, err := newAttempts().seal(&attempt{Until: time.Now().Add(time.Hour).UnixMilli()})
	require.NoError(t, err)
	return text
}

func TestTheWayToTheProviderTakesNotForever(t *testing.T) {
	a, now := newAttempts(), time.Now()
	text, err := a.seal(&attempt{Return: "#/x", Until: now.UnixMilli()})
	require.NoError(t, err)
	require.Equal(t, "#/x", a.open(text, now.Add(-time.Millisecond)).Return)
	require.Equal(t, attempt{}, a.open(text, now))
}

// After signing in one is in the console, whatever the request to begin has asked for.
func TestSigningInLeadsNowhereElse(t *testing.T) {
	p := people(t)
	for _, place := range []string{`"https://evil.example/"`, `"//evil.example"`, `"/\\evil.example"`, `"#//evil.example\nSet-Cookie: a=b"`, `"javascript:alert(1)"`, `"../x"`, `"#"`, `"#/ä"`, `"#/` + strings.Repeat("x", 1100) + `"`} {
		at, cookie, _ := p.begin(place)
		a := p.back(at, "ann", cookie)
		require.Equal(t, "../../console/", a.header.Get("Location"), place)
		require.NotEmpty(t, session(t, a))
	}
	at, cookie, _ := p.begin(`"#//evil.example"`)
	require.Equal(t, "../../console/#//evil.example", p.back(at, "ann", cookie).header.Get("Location"), "a place in the console")
}

// Where the provider does not send people back to, the cookie of the way there would not be.
func TestWhoComesByAnotherNameIsSentToTheExternalOne(t *testing.T) {
	p := people(t)
	a := p.do("POST", "/v1/session/openid", `{}`, ours)
	require.JSONEq(t, `{"location":"http://`+external+`/console/"}`, a.body)
	require.Empty(t, a.cookies(t))
}

func FuzzAttempt(f *testing.F) {
	a := newAttempts()
	text, err := a.seal(&attempt{Return: "#/x", Until: 1 << 60})
	require.NoError(f, err)
	f.Add(text)
	f.Add("")
	f.Fuzz(func(t *testing.T, other string) {
		if one := a.open(other, time.Now()); one != (attempt{}) {
			require.Equal(t, "#/x", one.Return, "nobody makes one up")
		}
	})
}
