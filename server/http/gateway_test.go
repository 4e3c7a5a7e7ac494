package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/admission"
	"confcenter/internal/memory"
)

// serveRows is a gateway of the test's own rows instead of the real ones.
func serveRows(t *testing.T, cfg Config, rows ...route) http.Handler {
	t.Helper()
	g, err := New(cfg, Stores{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Shutdown(context.Background())) })
	return g.middleware(newMux(g, rows))
}

func ask(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func echo(w *reply, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return bodyError(err)
	}
	_, err = w.Write(body)
	return err
}

func failing(err error) func(*reply, *http.Request) error {
	return func(*reply, *http.Request) error { return err }
}

func TestErrorsHaveOneShape(t *testing.T) {
	text, log := logged()
	h := serveRows(t, Config{Log: log},
		route{method: "GET", pattern: "/v1/a", name: "a", handle: failing(codes.Errorf(codes.Conflict, "it is \"new\" already"))},
		route{method: "PUT", pattern: "/v1/a", name: "a.put", body: 10, handle: echo},
		route{method: "GET", pattern: "/v1/lost", name: "lost", handle: failing(errors.New("/secret/path"))},
		route{method: "GET", pattern: "/plain", name: "plain", plain: true, handle: failing(codes.Errorf(codes.BadKey, "bad key"))},
		route{method: "GET", pattern: "/full", name: "full", plain: true, handle: failing(codes.Storage)},
		route{method: "GET", pattern: "/panics", name: "panics", plain: true, handle: func(*reply, *http.Request) error { panic("oh") }},
	)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/v1/a", 412, `{"code":412,"error":"conflict","detail":"it is \"new\" already"}` + "\n"},
		{"GET", "/v1/none", 404, `{"code":404,"error":"not_found","detail":"there is nothing at this path"}` + "\n"},
		{"DELETE", "/v1/a", 405, `{"code":1024,"error":"bad_method","detail":"the path does not take \"DELETE\"; see the header Allow"}` + "\n"},
		{"GET", "/v1/lost", 500, `{"code":500,"error":"internal","detail":"the server failed; its log says why"}` + "\n"},
		{"GET", "/none", 404, "404 page not found\n"},
		{"PUT", "/plain", 405, "method not allowed\n"},
		{"GET", "/plain", 400, "bad key\n"},
		{"GET", "/full", 500, "db error: " + codes.Storage.Error() + "\n"},
		{"GET", "/panics", 500, "db error: the server failed; its log says why\n"},
		{"HEAD", "/plain", 405, "method not allowed\n"},
		{"OPTIONS", "/v1/a", 204, ""},
	} {
		w := ask(h, c.method, c.path, "")
		require.Equal(t, c.status, w.Code, "%s %s", c.method, c.path)
		require.Equal(t, c.body, w.Body.String(), "%s %s", c.method, c.path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		if strings.HasPrefix(c.body, "{") {
			require.True(t, json.Valid(w.Body.Bytes()))
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		}
	}
	require.Equal(t, "GET, HEAD, OPTIONS, PUT", ask(h, "DELETE", "/v1/a", "").Header().Get("Allow"))
	require.Contains(t, text.String(), "/secret/path", "the log has what peers are not told")
	require.Contains(t, text.String(), `"panic":"oh"`)
	require.Contains(t, text.String(), "gateway_test.go", "the stack")
}

// A bug in one handler must cost the request that found it, and be seen.
func TestAPanicEndsItsRequestOnly(t *testing.T) {
	g, err := New(Config{}, Stores{}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Shutdown(context.Background())) }()
	plant := func(*reply, *http.Request) error { panic("planted") }
	h := g.middleware(newMux(g, []route{
		{method: "GET", pattern: "/v1/early", name: "early", handle: plant},
		{method: "GET", pattern: "/v1/late", name: "late", handle: func(w *reply, r *http.Request) error {
			w.WriteHeader(http.StatusOK)
			return plant(w, r)
		}},
		{method: "GET", pattern: "/v1/echo", name: "echo", handle: echo},
	}))
	require.Equal(t, http.StatusInternalServerError, ask(h, "GET", "/v1/early", "").Code)
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { ask(h, "GET", "/v1/late", "") }, "what has begun is not taken for whole")
	require.Equal(t, http.StatusOK, ask(h, "GET", "/v1/echo", "").Code)
	require.EqualValues(t, 2, g.status.Readings().Get("http_panics_total"))
}

func TestBodiesAreLimited(t *testing.T) {
	h := serveRows(t, Config{}, route{method: "PUT", pattern: "/v1/a", name: "a", body: 10, handle: echo})
	require.Equal(t, "0123456789", ask(h, "PUT", "/v1/a", "0123456789").Body.String())
	require.Equal(t, http.StatusRequestEntityTooLarge, ask(h, "PUT", "/v1/a", "01234567890").Code)

	r := httptest.NewRequest("PUT", "/v1/a", strings.NewReader("01234567890"))
	r.Host, r.ContentLength = "localhost", -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, "also if its length is not said")
	require.NotContains(t, w.Body.String(), "apply")

	h = serveRows(t, Config{}, route{method: "PUT", pattern: "/v1/a", name: "config.put", body: 10, handle: echo})
	r = httptest.NewRequest("PUT", "/v1/a", strings.NewReader("01234567890"))
	r.Host, r.ContentLength = "localhost", -1
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, text := range []string{w.Body.String(), ask(h, "PUT", "/v1/a", "01234567890").Body.String()} {
		require.Contains(t, text, "longer than the limit of 10 bytes; `confcenter apply` takes larger files, up to 16777216 bytes")
	}
	r = httptest.NewRequest("PUT", "/v1/a", strings.NewReader("01234567890"))
	r.Host, r.ContentLength = "localhost", 16<<20+1
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Contains(t, w.Body.String(), "longer than the limit of 10 bytes; a file may have at most 16777216 bytes", "nothing takes it")

	small := memory.Divide(400 << 20)
	h = serveRows(t, Config{Memory: small}, route{method: "PUT", pattern: "/v1/a", name: "config.put", body: 10, handle: echo})
	require.Contains(t, ask(h, "PUT", "/v1/a", "01234567890").Body.String(), fmt.Sprintf("takes larger files, up to %d bytes", small.Staged.Limit()-staging), "a small --memory")
	h = serveRows(t, Config{}, route{method: "POST", pattern: "/v1/a", name: "history.preview", right: access.ConfigHistory, body: 10, handle: echo})
	w = ask(h, "POST", "/v1/a", "01234567890")
	require.Contains(t, w.Body.String(), "longer than the limit of 10 bytes")
	require.NotContains(t, w.Body.String(), "apply", "it writes nothing")
}

func TestHostsThatAreNotOurs(t *testing.T) {
	h := serveRows(t, Config{Hosts: []string{"plum-controller"}}, route{method: "GET", pattern: "/v1/a", name: "a", handle: echo})
	for host, status := range map[string]int{
		"127.0.0.1:8080": 200, "localhost:1": 200, "LOCALHOST": 200, "[::1]:8080": 200, "[::1]": 200, "127.0.0.9": 200, "localhost.": 200,
		"plum-controller:8080": 200, "Plum-Controller": 200, "": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "10.1.2.3:8080": 403, "localhost.evil.example:8080": 403,
	} {
		require.Equal(t, status, ask(h, "GET", "/v1/a", "", "Host: "+host).Code, host)
	}
}

// An address that others reach takes no request by a name that it was not told: a
// page could have made its own name point there, and read and write everything.
func TestOpenAddressKnowsOnlyNamesItWasTold(t *testing.T) {
	rows := []route{
		{method: "GET", pattern: "/v1/a", name: "a", handle: echo},
		{method: "POST", pattern: "/v1/a", name: "a.post", body: 10, handle: echo},
	}
	local := func(r *http.Request) *http.Request {
		addr := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8080}
		return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
	}
	status := func(h http.Handler, method, host, origin string) int {
		return ask(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, local(r)) }),
			method, "/v1/a", "", "Host: "+host, "Origin: "+origin).Code
	}
	bare := serveRows(t, Config{Listen: "0.0.0.0:8080"}, rows...)
	named := serveRows(t, Config{Listen: "db.internal:8080", Hosts: []string{"plum-controller"}}, rows...)
	for _, c := range []struct {
		host        string
		bare, named int
	}{
		{"10.1.2.3:8080", 200, 200}, {"[fd00::1]:8080", 200, 200}, {"localhost:8080", 200, 200}, {"127.0.0.1", 200, 200},
		{"192.0.2.1:80", 200, 200}, // as it is behind a translation of addresses
		{"evil.example", 403, 403}, {"10.1.2.3.evil.example:8080", 403, 403},
		{"plum-controller:8080", 403, 200}, {"db.internal:8080", 403, 200},
	} {
		for _, method := range []string{"GET", "POST"} {
			require.Equal(t, c.bare, status(bare, method, c.host, "http://"+c.host), "%s %s", method, c.host)
			require.Equal(t, c.named, status(named, method, c.host, "http://"+c.host), "%s %s", method, c.host)
			if method == "POST" {
				require.Equal(t, 403, status(bare, method, c.host, "http://other.example"), c.host)
			}
		}
	}
	require.Contains(t, ask(bare, "GET", "/v1/a", "", "Host: evil.example").Body.String(), "--http-host NAME")
}

// What a browser sends through a proxy that rewrites Host looks like another site's
// page. The answer says what to do, and that is enough.
func TestRefusalBehindAProxyThatRewritesHostNamesTheRemedy(t *testing.T) {
	row := route{method: "PUT", pattern: "/v1/kv/", name: "a", plain: true, body: 10, handle: echo}
	put := func(cfg Config, host string) *httptest.ResponseRecorder {
		return ask(serveRows(t, cfg, row), "PUT", "/v1/kv/ns/k", "", "Host: "+host, "Origin: http://ops.example.com:9000")
	}
	refused := put(Config{}, "127.0.0.1:8080")
	require.Equal(t, 403, refused.Code)
	require.Contains(t, refused.Body.String(), "--http-host")
	require.Contains(t, refused.Body.String(), "ops.example.com:9000")
	require.Equal(t, 200, put(Config{Hosts: []string{"ops.example.com"}}, "ops.example.com:9000").Code, "Host passed on")
	require.Equal(t, 200, put(Config{CORSOrigins: []string{"http://ops.example.com:9000"}}, "127.0.0.1:8080").Code)
}

func TestOtherSitesCannotWrite(t *testing.T) {
	h := serveRows(t, Config{CORSOrigins: []string{"https://ops.example.com"}},
		route{method: "POST", pattern: "/v1/a", name: "a", body: 10, handle: echo},
		route{method: "GET", pattern: "/v1/a", name: "a.get", handle: echo})
	for _, c := range []struct {
		method, header string
		status         int
	}{
		{"POST", "User-Agent: curl", 200}, // no browser
		{"POST", "Sec-Fetch-Site: same-origin", 200},
		{"POST", "Sec-Fetch-Site: cross-site", 403},
		{"POST", "Sec-Fetch-Site: same-site", 403},
		{"POST", "Origin: http://evil.example", 403},
		{"POST", "Origin: null", 403},
		{"POST", "Origin: https://ops.example.com", 200},
		{"GET", "Origin: http://evil.example", 200}, // it cannot read the reply
	} {
		require.Equal(t, c.status, ask(h, c.method, "/v1/a", "", c.header).Code, "%s %s", c.method, c.header)
	}
	require.Empty(t, ask(h, "GET", "/v1/a", "", "Origin: http://evil.example").Header().Get("Access-Control-Allow-Origin"))
}

func TestOriginsAreChecked(t *testing.T) {
	for _, origin := range []string{"*", "", "null", "ops.example.com", "https://ops.example.com/", "https://a/b", "ftp://a"} {
		_, err := New(Config{CORSOrigins: []string{origin}}, Stores{}, nil)
		require.ErrorIs(t, err, codes.BadRequest, origin)
	}
}

func TestAccessLogTellsRoutesNotValues(t *testing.T) {
	text, log := logged()
	h := serveRows(t, Config{Log: log, AccessLog: true},
		route{method: "PUT", pattern: "/v1/kv/", name: "kv.put", body: 100, handle: echo},
		route{method: "GET", pattern: "/livez", name: "livez", quiet: true, handle: echo})
	ask(h, "PUT", "/v1/kv/ns/secretkey?token=secret", `{"value":"secret"}`)
	ask(h, "GET", "/livez", "")
	require.Contains(t, text.String(), `"method":"PUT","route":"kv.put","status":200,"duration":`)
	require.NotContains(t, text.String(), "secret")
	require.NotContains(t, text.String(), "livez")
}

// A connection that was opened in advance, as browsers do, does not hold up the end.
func TestShutdownDoesNotWaitForUnusedConnections(t *testing.T) {
	k := start(t, nil)
	c, err := net.Dial("tcp", k.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.Equal(t, 404, k.get("/v1/none").status)
	k.stop()
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestConnectionsAreLimited(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) { cfg.MaxConnections = 1 })
	require.Equal(t, 200, k.get("/v1/kv").status)
	ask := func(path string) *http.Response {
		c := http.Client{Transport: &http.Transport{}}
		defer c.CloseIdleConnections()
		r, err := c.Get("http://" + k.Addr().String() + path)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		return r
	}
	refused := ask("/v1/kv")
	require.Equal(t, 503, refused.StatusCode)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.True(t, refused.Close)
	require.Equal(t, 200, ask("/readyz").StatusCode, "a probe needs no place")
	require.Equal(t, 200, k.get("/v1/kv").status, "those who are connected notice nothing")
}

// A probe or an operator must be answered however many connections sit there in silence.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	const room = 4
	limiter := admission.New(admission.Limits{Unidentified: room})
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Connections = limiter })
	require.Equal(t, 200, k.get("/v1/kv").status)
	for range room + 1 {
		c, err := net.Dial("tcp", k.Addr().String())
		require.NoError(t, err)
		defer c.Close()
	}
	require.Eventually(t, func() bool { return limiter.Count.Evicted.Load() == 1 }, patience, time.Millisecond)
	require.Equal(t, 200, k.get("/v1/kv").status)
}

func TestAddressInUse(t *testing.T) {
	k := start(t, nil)
	g, err := New(Config{Listen: k.Addr().String()}, Stores{}, nil)
	require.NoError(t, err)
	require.ErrorContains(t, g.Start(), "address already in use")
	require.NoError(t, g.Shutdown(context.Background()))
}

// Who does not send its request to the end, or nothing more, is not waited for.
func TestSlowPeersAreNotWaitedFor(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) {
		cfg.HeaderTimeout, cfg.BodyTimeout, cfg.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
		cfg.Heartbeat = 30 * time.Millisecond
	})
	for _, text := range []string{"", "GET /v1/kv HT", "PUT /v1/kv/ns/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", "GET /v1/kv HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		c, err := net.Dial("tcp", k.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(c, text)
		require.NoError(t, err)
		_, err = io.ReadAll(c) // until the server closes it
		require.NoError(t, err, "%q", text)
		require.NoError(t, c.Close())
	}
	require.Empty(t, k.plumList("ns"))

	o := newSDK(t, k, "ns").observe() // these times do not end a stream
	for o.beats < 8 {
		require.True(t, o.chunk())
	}
	k.plumPut("ns/a", "1", "int")
	o.until("a", "1")
}
