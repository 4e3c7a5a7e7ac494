package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/datadir"
)

// ask sends one request and returns the status and the body.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(r)
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	return reply.StatusCode, string(text)
}

// TCP and HTTP are two doors to the same store.
func TestHTTPAndTCPShareTheStore(t *testing.T) {
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
	ready := p.log.await(t, "ready")
	status, body := ask(t, "PUT", "http://"+ready.HTTP+"/v1/kv/ns/k", `{"value":"5","type":"int"}`)
	require.Equal(t, http.StatusOK, status, body)
	p.log.await(t, "http") // the access log
	require.Equal(t, "5\n", call(t, "", at(ready.Address, "kv", "get", "ns", "k")...).stdout)

	stream, err := http.Get("http://" + ready.HTTP + "/v1/stream?namespace=ns")
	require.NoError(t, err)
	defer func() { _ = stream.Body.Close() }()
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"value":"5"`) {
	}
	require.Contains(t, lines.Text(), `"value":"5"`)
	p.signal(t, syscall.SIGTERM)
	_, _ = io.ReadAll(stream.Body)
	require.Equal(t, exitOK, p.end(), "a stream holds up nothing")
}

func TestHTTPOff(t *testing.T) {
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0", "--http=")...)
	require.Empty(t, p.log.await(t, "ready").HTTP)
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}

func TestHTTPPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0", "--http", l.Addr().String())...)
	require.Contains(t, p.log.await(t, "address already in use").Message, "HTTP")
	require.Equal(t, exitFailed, p.end())
}

// An address that others reach and that was given no name is not reached by one.
func TestOpenHTTPWithoutNamesTakesIPAddressesOnly(t *testing.T) {
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", "--allow-open")...)
	require.Contains(t, p.log.await(t, "by IP address only").Message, "--http-host")
	_, port, err := net.SplitHostPort(p.log.await(t, "ready").HTTP)
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		status, body := ask(t, "GET", "http://"+net.JoinHostPort(host, port)+"/livez", "")
		require.Equal(t, http.StatusOK, status, body)
	}
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}

// The state store alone may be lost, and the loss accepted. A stream that goes on from before has to hear of it.
func TestLostStateStoreIsAnotherEpoch(t *testing.T) {
	_, flags := home(t)
	data := flags[len(flags)-1]
	lastID := func(web string) string { // of the synced event, which is the first of an empty store
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+web+"/v1/store/stream?ns=n&state=1", nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			if id, found := strings.CutPrefix(lines.Text(), "id: "); found {
				return id
			}
		}
		require.FailNow(t, "no id came")
		return ""
	}
	var ids []string
	for range 3 {
		p := startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
		ids = append(ids, lastID(p.log.await(t, "ready").HTTP))
		p.signal(t, syscall.SIGTERM)
		require.Equal(t, exitOK, p.end())
		if len(ids) == 2 {
			require.NoError(t, os.RemoveAll(datadir.State(data)))
			flags = append(flags, "--kv-accept-loss")
		}
	}
	require.Equal(t, ids[0], ids[1], "a restart changes nothing")
	require.NotEqual(t, ids[0], ids[2])
}
