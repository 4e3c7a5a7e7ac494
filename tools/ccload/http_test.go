package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/kvstore/disk"
	"confcenter/server/http"
)

// realHTTP is the address of the real HTTP side on an empty store.
func realHTTP(t *testing.T) string {
	t.Helper()
	state, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: t.TempDir()}})
	require.NoError(t, err)
	store, err := confstore.Open(confstore.Config{Dir: t.TempDir(), DataDir: t.TempDir(), State: state, SetTimeout: time.Minute})
	require.NoError(t, err)
	g, err := http.New(http.Config{Listen: "127.0.0.1:0"}, http.Stores{Config: store, State: state}, nil)
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
	script(t, func() {
		l := testLoop(t)
		for _, requests := range []*tape{httpPutTape(addr), httpGetTape(addr)} {
			reply := fetch(addr, requests.next())
			require.Contains(t, string(reply), `"key":"key"`)
			got := newLoad(l.openHTTP(addr, 4, len(reply)), requests).play(1, 100)
			require.EqualValues(t, 100, got.done)
			require.EqualValues(t, 100, got.latency.TotalCount())
		}
	})
}

func TestHTTPFanoutTellsEachStreamOfTheRealServerOnce(t *testing.T) {
	addr := realHTTP(t)
	script(t, func() {
		f := newHTTPFanout(testLoop(t), addr, 40)
		for range 5 {
			r := f.change()
			require.Positive(t, r.first)
			require.LessOrEqual(t, r.first, r.all)
			require.Positive(t, r.reply)
			require.Equal(t, 40, f.told)
		}
	})
}

func TestHTTPLoadFailsOnWhatIsNotTheReply(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	for name, answer := range map[string]string{
		"status":  "HTTP/1.1 400 OK\r\nContent-Length: 2\r\n\r\n{}",
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{ }" + ok,
		"twice":   ok + ok,
		"nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			l := testLoop(t)
			var conns []*conn
			script(t, func() { conns = l.openHTTP(answerRaw(t, answer), 1, len(ok)) })
			require.ErrorContains(t, attempt(func() { newLoad(conns, httpGetTape("x")).play(1, 2) }), "connection lost")
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

func TestStreamsAreReadInPieces(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n16\r\nevent: kv\ndata: 1\n\n\r\n12\r\nevent: x\ndata: \n\n\r\n16\r\nevent: kv\ndata: 2\n\n\r\n"
	for _, size := range []int{1, 7, len(text)} {
		events := 0
		c := &conn{framing: streamFraming, onPush: func([]byte, int64) { events++ }}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			replies, err := c.consume([]byte(rest[:min(size, len(rest))]), 0)
			require.NoError(t, err)
			require.Zero(t, replies)
		}
		require.Equal(t, 2, events)
		require.Less(t, len(c.carry), len(kvEvent))
	}
}

func TestTheBareHandlerAnswersAsTheRealOne(t *testing.T) {
	real := realHTTP(t)
	date := regexp.MustCompile(`\r\nDate: [^\r]*`)
	for _, requests := range []func(addr string) *tape{httpPutTape, httpGetTape} {
		script(t, func() {
			reply := fetch(real, requests(real).next())
			_, body, _ := bytes.Cut(reply, []byte("\r\n\r\n"))
			bare := httptest.NewServer(bareHandler(body))
			defer bare.Close()
			addr := bare.Listener.Addr().String()
			require.Equal(t, string(date.ReplaceAll(reply, nil)), string(date.ReplaceAll(fetch(addr, requests(addr).next()), nil)))
		})
	}
	require.ErrorContains(t, attempt(func() { fetch(real, httpGet(real, "/nowhere")) }), "404")
}
