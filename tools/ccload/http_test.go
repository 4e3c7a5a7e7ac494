package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/gateway"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
)

// realHTTP is the address of the real HTTP side on an empty store.
func realHTTP(t *testing.T) string {
	t.Helper()
	state, err := pebblekv.Open(pebblekv.Config{Disk: disk.Config{Dir: t.TempDir()}})
	require.NoError(t, err)
	store, err := confstore.Open(confstore.Config{Dir: t.TempDir(), DataDir: t.TempDir(), State: state, SetTimeout: time.Minute})
	require.NoError(t, err)
	g, err := gateway.New(gateway.Config{Listen: "127.0.0.1:0"}, gateway.Stores{Config: store, State: state}, nil)
	require.NoError(t, err)
	require.NoError(t, g.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
		require.NoError(t, state.Close())
		require.NoError(t, store.Close())
	})
	return g.Addr().String()
}

func TestHTTPLoadOfTheRealServer(t *testing.T) {
	addr := realHTTP(t)
	l := testLoop(t)
	_, body, err := fetch(addr, httpPutTape(addr).next(nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"key":"key","namespace":"bench","type":"string","value":"`+string(httpValue(0))+`"}`, string(body))
	puts, err := l.dialHTTP(addr, 4, len(body), false)
	require.NoError(t, err)
	got, err := newLoad(l, puts, httpPutTape(addr)).play(1, 100)
	require.NoError(t, err)
	require.EqualValues(t, 100, got.done)
	require.EqualValues(t, 100, got.latency.TotalCount())

	_, body, err = fetch(addr, httpGet(addr, httpPath))
	require.NoError(t, err)
	require.Contains(t, string(body), `"key":"key"`)
	gets, err := l.dialHTTP(addr, 4, len(body), false)
	require.NoError(t, err)
	got, err = newLoad(l, gets, httpGetTape(addr)).play(1, 100)
	require.NoError(t, err)
	require.EqualValues(t, 100, got.done)
}

func TestHTTPFanoutTellsEachStreamOfTheRealServerOnce(t *testing.T) {
	addr := realHTTP(t)
	l := testLoop(t)
	script(t, func() {
		f := newHTTPFanout(l, addr, 40)
		require.Zero(t, f.delay.TotalCount(), "what is there at the begin is no change")
		for range 5 {
			r := must(f.change())
			require.Positive(t, r.first)
			require.LessOrEqual(t, r.first, r.all)
			require.Positive(t, r.reply)
		}
		require.EqualValues(t, 5*40, f.delay.TotalCount())
	})
}

func TestHTTPLoadFailsOnWhatIsNotTheReply(t *testing.T) {
	for name, answer := range map[string]string{
		"status":  "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}",
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{ }",
		"number":  "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"twice":   strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 2),
		"nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			l := testLoop(t)
			conns, err := l.dialHTTP(answerRaw(t, answer), 1, 2, false)
			require.NoError(t, err)
			_, err = newLoad(l, conns, httpGetTape("x")).play(1, 1)
			require.ErrorContains(t, err, "connection lost")
		})
	}
}

// answerRaw reads some bytes from each connection, writes text and closes it.
func answerRaw(t *testing.T, text string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 1024))
		_, _ = io.WriteString(c, text)
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// pushed records what a stream tells.
type pushed struct {
	ignore
	events []string
}

func (p *pushed) reply(*conn, []byte)                 { panic("a reply") }
func (p *pushed) push(_ *conn, event []byte, _ int64) { p.events = append(p.events, string(event)) }

func TestStreamsAreReadInPieces(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"3\r\n:\n\n\r\n" + "F\r\nevent: kv\ndata:\r\n" + "5\r\n 1\n\n:\r\n" + "12\r\n\n\nevent: x\ndata: \n\r\n" + "14\r\n\nevent: kv\ndata: 2\n\n\r\n"
	for _, size := range []int{1, 7, len(text)} {
		p := &pushed{}
		c := &conn{to: p, framing: &sseStream{}}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			require.NoError(t, c.consume([]byte(rest[:min(size, len(rest))]), 0))
		}
		require.Equal(t, []string{"event: kv\ndata: 1", "event: kv\ndata: 2"}, p.events)
		require.Empty(t, c.carry)
		require.ErrorIs(t, c.consume([]byte("0\r\n\r\n"), 0), errStreamEnded)
	}
	for _, wrong := range []string{"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", text + "xyz\r\n"} {
		c := &conn{to: &pushed{}, framing: &sseStream{}}
		require.Error(t, c.consume([]byte(wrong), 0), wrong)
	}
}

func TestTheBareHandlerAnswersAsTheRealOne(t *testing.T) {
	real := realHTTP(t)
	for _, requests := range []func(addr string) *tape{httpPutTape, httpGetTape} {
		header, body, err := fetch(real, requests(real).next(nil))
		require.NoError(t, err)
		bare := httptest.NewServer(bareHandler(body))
		addr := bare.Listener.Addr().String()
		bareHeader, bareBody, err := fetch(addr, requests(addr).next(nil))
		require.NoError(t, err)
		require.Equal(t, header, bareHeader)
		require.Equal(t, string(body), string(bareBody))
		bare.Close()
	}
	_, _, err := fetch(real, httpGet(real, "/nowhere"))
	require.ErrorContains(t, err, "404")
}

func TestTheBareServerEndsWithItsContext(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	booted, ended := make(chan struct{}), make(chan error)
	go func() { ended <- serveBare(ctx, addr, []byte("{}\n"), func() { close(booted) }) }()
	<-booted
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post("http://"+addr+"/any", "text/plain", strings.NewReader("body"))
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "{}\n", string(body))
	require.ErrorContains(t, serveBare(t.Context(), addr, nil, func() {}), "address already in use")
	cancel()
	require.NoError(t, <-ended)
}
