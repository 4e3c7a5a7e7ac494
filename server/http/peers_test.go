package http

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
)

// send opens a connection with small buffers and asks something on it. The answer is not read.
func (k *kit) send(text string) net.Conn {
	k.t.Helper()
	c := k.ask(text)
	require.NoError(k.t, c.(*net.TCPConn).SetReadBuffer(4<<10))
	return c
}

// ask is send for who reads later. Buffers that become small only when something is in
// them make the kernels wait for each other.
func (k *kit) ask(text string) net.Conn {
	k.t.Helper()
	c, err := net.Dial("tcp", k.Addr().String())
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = c.Close() })
	require.NoError(k.t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, text)
	require.NoError(k.t, err)
	return c
}

// fill puts more into a namespace than the buffers of a connection take.
func (k *kit) fill(ns string) {
	k.t.Helper()
	value := kv.StringValue(strings.Repeat("v", 512<<10))
	for i := range 32 {
		_, err := k.commit(kv.PutTxn(ns, "k"+strconv.Itoa(i), value))
		require.NoError(k.t, err)
	}
}

// A stream whose peer takes nothing ends soon when the server does, although it would
// otherwise be given time.
func TestDeadReadersOfStreamsDoNotHoldTheEnd(t *testing.T) {
	pages := new(atomic.Int64)
	k := start(t, func(_ *Config, stores *Stores) { stores.State = countedStore{stores.State, pages} })
	k.fill("ns")
	for _, path := range []string{"/v1/stream?namespace=ns", "/v1/store/stream?ns=ns&state=1"} {
		c := bufio.NewReader(k.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		line, err := c.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200 OK\r\n", line)
	}
	last := int64(0) // neither goes on, long before the end of what there is
	require.Eventually(t, func() bool {
		before := last
		last = pages.Load()
		return last > 0 && last == before
	}, patience, 200*time.Millisecond)
	began := time.Now()
	k.stop() // demands that there is no error
	require.Less(t, time.Since(began), patience/2)
}

// countedStore counts the pages that are read of it.
type countedStore struct {
	kv.Store
	pages *atomic.Int64
}

func (s countedStore) View() kv.View { return countedView{s.Store.View(), s.pages} }

type countedView struct {
	kv.View
	pages *atomic.Int64
}

func (v countedView) List(list kv.List) (kv.Page, error) {
	v.pages.Add(1)
	return v.View.List(list)
}

// Shutdown has waited for the handlers also when it had to cut them off: the stores
// are closed next.
func TestShutdownLeavesNoHandlerBehind(t *testing.T) {
	held := &heldStore{began: make(chan struct{}), release: make(chan struct{})}
	k := start(t, func(_ *Config, stores *Stores) {
		held.Store = stores.State
		stores.State = held
	})
	go func() { // ended by the reply or its absence
		r, err := k.client.Post(k.url+"/v1/kv/ns/batch", "", strings.NewReader(`{"items":[{"key":"a","value":"1"}]}`))
		if err == nil {
			_ = r.Body.Close()
		}
	}()
	<-held.began
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ended := make(chan error, 1)
	g := k.Gateway
	go func() { ended <- g.Shutdown(ctx) }()
	<-g.Done() // it no longer serves
	select {
	case <-ended:
		t.Error("Shutdown returned while a handler waits for the store")
		close(held.release)
	case <-time.After(100 * time.Millisecond):
		close(held.release)
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// heldStore does not say that a transaction is done until it is released.
type heldStore struct {
	kv.Store
	began, release chan struct{}
}

func (s *heldStore) CommitEach(caller kv.Caller, writes []*kv.Write) (int, error) {
	close(s.began)
	return s.Store.CommitEach(holding{caller, s.release}, writes)
}

// holding does not tell caller until release is closed.
type holding struct {
	caller  kv.Caller
	release chan struct{}
}

func (h holding) Committed(writes []*kv.Write) {
	go func() { // the store itself must go on
		<-h.release
		h.caller.Committed(writes)
	}()
}

// A stream is begun when its request is there as a whole: who announces a body and
// sends none is not waited for.
func TestStreamsWaitForNoBody(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) {
		cfg.HeaderTimeout, cfg.BodyTimeout = 50*time.Millisecond, 50*time.Millisecond
	})
	for _, path := range []string{"/v1/stream", "/v1/store/stream", "/v1/config/stream", "/v1/config/revisions"} {
		c := k.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err, path)
		require.Equal(t, http.StatusBadRequest, r.StatusCode, path)
		_, err = io.ReadAll(r.Body) // until the server closes it
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.NoError(t, c.Close())
	}
}

// Who sends more than is taken finds the reply also if it looks for it only when
// everything is sent.
func TestTooLargeBodiesAreAnsweredCleanly(t *testing.T) {
	k := start(t, nil)
	for _, head := range []string{
		"PUT /v1/kv/ns/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33554432\r\n\r\n",
		"PUT /v1/config/file?name=a.json HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2000000\r\n",
	} {
		c := k.send(head)
		_, err := io.WriteString(c, strings.Repeat("x", 32<<20))
		require.NoError(t, err)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, r.StatusCode)
		require.NoError(t, r.Body.Close())
		require.NoError(t, c.Close())
	}
}
