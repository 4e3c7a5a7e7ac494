package http

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/authority"
)

func TestHTTPSIsServedBesideHTTP(t *testing.T) {
	from, err := authority.New()
	require.NoError(t, err)
	pair, err := from.Issue("server", time.Now().Add(time.Hour))
	require.NoError(t, err)
	cert, err := pair.Certificate()
	require.NoError(t, err)
	trouble := error(nil)
	k := start(t, func(cfg *Config, _ *Stores) {
		cfg.TLSListen, cfg.TLS = "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
		cfg.Certificates = func() error { return trouble }
	})
	require.Contains(t, k.get("/readyz?verbose").body, "[+]tls ok\n")
	trouble = errors.New("the pair does not match")
	k.client.Transport = &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: from.Pool()}}
	k.url = "https://" + k.TLSAddr().String()
	told := k.get("/readyz?verbose")
	require.Equal(t, http.StatusOK, told.status, "the old pair is in service")
	require.Contains(t, told.body, "[!]tls trouble: the pair does not match\n")

	value := strings.Repeat("x", 300<<10)
	require.Equal(t, http.StatusOK, k.do(http.MethodPut, "/v1/store/key?ns=n&key=k", `{"value":"`+value+`"}`).status)
	require.Contains(t, k.get("/v1/store/key?ns=n&key=k").body, value)
	reply, err := k.client.Get(k.url + storeURL("&state=1"))
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, "HTTP/1.1", reply.Proto)
	lines := bufio.NewReaderSize(reply.Body, 1<<20)
	until := func(text string) {
		for line := ""; !strings.Contains(line, text); {
			line, err = lines.ReadString('\n')
			require.NoError(t, err, "before %s", text)
		}
	}
	until(value)
	require.Equal(t, http.StatusOK, k.do(http.MethodPut, "/v1/store/key?ns=n&key=l", `{"value":"later"}`).status)
	until("later")
	require.Equal(t, http.StatusForbidden, k.do(http.MethodPut, "/v1/store/key?ns=n&key=k", `{"value":1}`, "Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site").status)

	plain, err := http.Get("http://" + k.TLSAddr().String())
	require.NoError(t, err)
	text, err := io.ReadAll(plain.Body)
	require.NoError(t, err)
	require.NoError(t, plain.Body.Close())
	require.Contains(t, string(text), "HTTP request to an HTTPS server")
}
