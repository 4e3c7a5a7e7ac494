package openid_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
)

func TestAPersonSignsInAtTheProvider(t *testing.T) {
	f := people(t)
	at, cookie, c := f.begin(`"#/store/n"`)
	require.True(t, strings.HasPrefix(at, f.provider.URL))
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, c.SameSite, "it comes back from another site")
	require.Equal(t, "/v1/session/callback", c.Path)
	require.Equal(t, 600, c.MaxAge)
	a := f.back(at, "ann", cookie)
	require.Equal(t, 303, a.status, a.body)
	require.Equal(t, "../../console/#/store/n", a.header.Get("Location"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"))
	got := f.get("/v1/session", session(t, a), ours)
	require.Equal(t, 200, got.status, got.body)
	var me struct {
		Name   string
		Groups []string
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &me))
	require.Equal(t, "person:ann@example.org", me.Name)
	require.Equal(t, []string{"games", "ops"}, me.Groups)
	require.Equal(t, 200, f.get("/v1/kv", session(t, a), ours).status, "whom the settings make an administrator")
	require.True(t, slices.ContainsFunc(a.cookies(t), func(c *http.Cookie) bool { return c.Name == "confcenter-signin-1" && c.MaxAge < 0 }), "it is good for once")

	at, cookie, _ = f.begin(`""`)
	ben := session(t, f.back(at, "ben", cookie))
	require.Equal(t, 403, f.get("/v1/kv", ben, ours).status, "no role allows it")
}

func TestWhoIsNotVouchedForLearnsWhy(t *testing.T) {
	f := people(t)
	for _, c := range []struct {
		who, why string
		noted    access.EventKind
	}{{"eve", "forbidden", access.EventDenied}, {"no", "not_identified", access.EventLogin}} {
		at, cookie, _ := f.begin(`"#/store"`)
		a := f.back(at, c.who, cookie)
		require.Equal(t, "../../console/#/signin/"+c.why, a.header.Get("Location"))
		require.Empty(t, session(t, a))
		require.Equal(t, c.noted, f.last().Kind, c.who)
	}
}

// The attacker's own answer of the provider, brought to another person's browser, signs no one in:
// not without the cookie of the way there, not with another one, not with one made up.
func TestOnlyTheBrowserThatBeganComesBack(t *testing.T) {
	f := people(t)
	elsewhere := peopleOf(t, f.provider) // by the same name
	at, cookie, c := f.begin(`""`)
	_, other, _ := f.begin(`""`)
	_, foreign, _ := elsewhere.begin(`""`)
	for what, header := range map[string]string{
		"no cookie":                "Accept: */*",
		"another attempt":          other,
		"a cookie that is made":    "Cookie: " + c.Name + "=eyJzdGF0ZSI6IiJ9",
		"a cookie that is changed": cookie[:len(cookie)-2] + "AA",
		"two cookies":              cookie + "; " + c.Name + "=x",
		"that of another server":   foreign,
	} {
		a := f.back(at, "ann", header)
		require.Equal(t, 303, a.status, what)
		require.Equal(t, "../../console/#/signin/not_identified", a.header.Get("Location"), what)
		require.Empty(t, session(t, a), what)
		at, cookie, c = f.begin(`""`) // the provider has answered once
	}
	require.NotEmpty(t, session(t, f.back(at, "ann", cookie)))

	at, cookie, _ = elsewhere.begin(`""`)
	a := f.back(at, "ann", cookie)
	require.Equal(t, "../../console/#/signin/not_identified", a.header.Get("Location"), "the answer to what another server has sealed")
	require.Empty(t, session(t, a))
}

// After signing in one is in the console, whatever the request to begin has asked for.
func TestSigningInLeadsNowhereElse(t *testing.T) {
	f := people(t)
	for _, place := range []string{`"https://evil.example/"`, `"//evil.example"`, `"/\\evil.example"`, `"#//evil.example\nSet-Cookie: a=b"`, `"javascript:alert(1)"`, `"../x"`, `"#"`, `"#/ä"`, `"#/` + strings.Repeat("x", 1100) + `"`} {
		at, cookie, _ := f.begin(place)
		a := f.back(at, "ann", cookie)
		require.Equal(t, "../../console/", a.header.Get("Location"), place)
		require.NotEmpty(t, session(t, a))
	}
	at, cookie, _ := f.begin(`"#//evil.example"`)
	require.Equal(t, "../../console/#//evil.example", f.back(at, "ann", cookie).header.Get("Location"), "a place in the console")
}
