package openid_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/openid"
	"confcenter/confstore"
	"confcenter/integration/openidtest"
	"confcenter/kvstore/disk"
	"confcenter/server"
	gateway "confcenter/server/http"
	"confcenter/server/tcp"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

const (
	// ours is the header of a request that the console's page makes.
	ours = "Sec-Fetch-Site: same-origin"
	// site is where browsers find the gateway.
	site = "localhost:1"
)

// front is a gateway that people sign in at, on empty stores.
type front struct {
	t        testing.TB
	provider *openidtest.Provider
	url      string // http://127.0.0.1:port
	client   *http.Client

	mu    sync.Mutex
	noted []access.Event // guarded by mu
}

// people starts a gateway with a provider of its own.
func people(t testing.TB) *front {
	t.Helper()
	return peopleOf(t, openidtest.Start(t, "http://"+site+openid.CallbackPath, nil))
}

// peopleOf starts a gateway with a provider that others may have, too.
func peopleOf(t testing.TB, provider *openidtest.Provider) *front {
	t.Helper()
	f := &front{t: t, provider: provider}
	sign, err := openid.Open(openid.Config{Issuer: provider.URL, ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret, External: "http://" + site, Domains: []string{"example.org"}})
	require.NoError(t, err)
	t.Cleanup(sign.Close)

	dir := t.TempDir()
	keys, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: filepath.Join(dir, "state"), ReserveBytes: 1}})
	require.NoError(t, err)
	srv, err := server.Open(server.Config{State: keys, Documents: confstore.Config{Dir: t.TempDir(), DataDir: filepath.Join(dir, "data"), SetTimeout: time.Minute}, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	require.NoError(t, srv.Start(t.Context(), server.Fronts{
		Control: &control.Config{Administrators: []string{"person:ann@example.org"}},
		TCP:     tcp.Config{Listen: "127.0.0.1:0"},
		Audit:   f.note,
		HTTP:    &gateway.Config{Listen: "127.0.0.1:0", Version: "test", OpenID: sign},
	}))
	f.url = "http://" + srv.HTTP.Addr().String()
	f.client = &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		f.client.CloseIdleConnections()
		require.NoError(t, srv.Shutdown(ctx))
		require.NoError(t, srv.Err(), "it did not end by itself")
	})
	return f
}

func (f *front) note(e access.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noted = append(f.noted, e)
}

// last is what was noted last.
func (f *front) last() access.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NotEmpty(f.t, f.noted)
	return f.noted[len(f.noted)-1]
}

// answer is a reply that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request to the site; header are lines such as "Origin: http://x".
func (f *front) do(method, path, body string, header ...string) answer {
	f.t.Helper()
	r, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	require.NoError(f.t, err)
	r.Host = site
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	reply, err := f.client.Do(r)
	require.NoError(f.t, err)
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	require.NoError(f.t, err)
	return answer{reply.StatusCode, reply.Header, string(text)}
}

func (f *front) get(path string, header ...string) answer {
	f.t.Helper()
	return f.do(http.MethodGet, path, "", header...)
}

// cookies are what an answer has the browser keep.
func (a answer) cookies(t testing.TB) (all []*http.Cookie) {
	t.Helper()
	for _, line := range a.header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		require.NoError(t, err)
		all = append(all, c)
	}
	return all
}

// begin goes to the provider, and returns where that is and the cookie of the way there.
func (f *front) begin(place string) (at, cookie string, c *http.Cookie) {
	f.t.Helper()
	a := f.do("POST", "/v1/session/openid", `{"return":`+place+`}`, ours)
	require.Equal(f.t, 200, a.status, a.body)
	var body struct{ Location string }
	require.NoError(f.t, json.Unmarshal([]byte(a.body), &body))
	all := a.cookies(f.t)
	require.Len(f.t, all, 1)
	return body.Location, "Cookie: " + all[0].Name + "=" + all[0].Value, all[0]
}

// back comes back from the provider, as a browser does: from a page of another site.
func (f *front) back(at, who string, header ...string) answer {
	f.t.Helper()
	to := f.provider.Visit(f.t, at, who)
	return f.get(to.RequestURI(), append(header, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")...)
}

// session is the header with the session's cookie that an answer sets; empty: none.
func session(t testing.TB, a answer) string {
	t.Helper()
	for _, c := range a.cookies(t) {
		if c.Name == "confcenter-1" && c.Value != "" {
			require.True(t, c.HttpOnly)
			require.Equal(t, http.SameSiteStrictMode, c.SameSite)
			return "Cookie: " + c.Name + "=" + c.Value
		}
	}
	return ""
}
