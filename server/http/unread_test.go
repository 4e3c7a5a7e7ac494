package http

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/server/http/sse"
)

// unread opens n streams whose peers read nothing, and returns when all of them wait
// for that.
func (k *kit) unread(n int, path string) []net.Conn {
	k.t.Helper()
	peers := make([]net.Conn, n)
	for i := range peers {
		peers[i] = k.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	k.waiting(n)
	return peers
}

// waiting waits until so many streams wait for their peers.
func (k *kit) waiting(n int) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		waiting, _ := k.sse.Counts()
		return waiting == n
	}, patience, time.Millisecond, "%d streams wait for their peers", n)
}

// resume reads what a peer has not read yet, as a browser would.
func (k *kit) resume(c net.Conn) *eventSource {
	k.t.Helper()
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(k.t, err)
	require.Equal(k.t, http.StatusOK, reply.StatusCode)
	k.t.Cleanup(func() { _ = reply.Body.Close() })
	return &eventSource{t: k.t, reply: reply, lines: bufio.NewReader(reply.Body), epoch: k.stores.Config.Epoch() + "-"}
}

// long is a value of 200 KB.
func long(i int) string { return fmt.Sprintf("%06d", i) + strings.Repeat("v", 200<<10) }

func (k *kit) putLong(ns string, i, keys int) {
	k.t.Helper()
	_, err := k.commit(kv.PutTxn(ns, "k"+strconv.Itoa(i%keys), kv.StringValue(long(i))))
	require.NoError(k.t, err)
}

// Writers do not wait for streams: here no stream gets to do anything at all.
func TestWritersDoNotWaitForStreams(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Heartbeat = time.Hour })
	store, plum, config := k.listen("/v1/store/stream?ns=n&state=1", ""), k.listen("/v1/stream?namespace=n", ""), k.listen("/v1/config/stream", "")
	store.until("synced")
	config.until("synced")
	turns := make([]*sse.Stream, max(1, runtime.GOMAXPROCS(0)/2)) // all that there are
	for i := range turns {
		turns[i] = k.sse.Begin(httptest.NewRecorder(), nil, func() {}, nil)
	}
	for i := range 50 {
		k.putLong("n", i, 1)
		require.Equal(t, 200, k.do("PUT", fileQuery("a.json"), strconv.Itoa(i)).status)
	}
	require.Zero(t, k.hub.frames.Encoded.Load(), "nothing is encoded for those who cannot send it")
	for _, s := range turns {
		s.Close()
	}
	for _, s := range []*eventSource{store, plum} {
		for {
			m, ok := s.next()
			require.True(t, ok)
			if strings.Contains(m.data[:min(len(m.data), 200)], `"000049vv`) {
				break
			}
		}
	}
	m, _ := config.next()
	require.Contains(t, m.data, `"name":"a.json"`)
}

// Peers that do not read cost next to nothing, whatever is written: neither processor
// time nor memory of their own.
func TestStreamsThatAreNotReadHoldLittle(t *testing.T) {
	const streams, keys = 200, 5
	for _, path := range []string{"/v1/store/stream?ns=n&state=1", "/v1/stream?namespace=n", "/v1/store/stream?ns=n&state=1&prev=1"} {
		t.Run(path, func(t *testing.T) {
			k := start(t, nil)
			for i := range keys {
				k.putLong("n", i, keys)
			}
			k.unread(streams, path)
			pool := k.cfg.Memory.Streams
			require.LessOrEqual(t, k.hub.frames.Encoded.Load(), uint64(keys), "each event is encoded once, for all of them")
			encoded := k.hub.frames.Encoded.Load()
			for i := range 60 {
				k.putLong("n", i, keys)
			}
			require.Equal(t, encoded, k.hub.frames.Encoded.Load(), "nothing is done for who waits")
			const each = 4 * sse.Chunk
			require.Less(t, pool.Held(), int64(recentBytes+keys*450<<10+streams*each))
			_, cut := k.sse.Counts()
			require.Zero(t, cut, "there is room for all of them")
		})
	}
}

// The state is read from the store as the peer reads, not for it.
func TestTheStateIsNotBuiltForWhoDoesNotRead(t *testing.T) {
	pages := new(atomic.Int64)
	k := start(t, func(_ *Config, stores *Stores) { stores.State = countedStore{stores.State, pages} })
	k.fill("ns")
	k.unread(20, "/v1/store/stream?ns=ns&state=1")
	require.LessOrEqual(t, pages.Load(), int64(20*3), "of 32 pages each")
}

// Who reads again after any time gets what happened: in order, nothing twice, and the
// newest value of each key.
func TestStreamsGoOnAfterTheirPeerHasRested(t *testing.T) {
	const keys, writes = 7, 45
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Heartbeat, cfg.WriteTimeout = time.Hour, time.Hour })
	for i := range keys {
		k.putLong("n", i, keys)
	}
	var peers []net.Conn
	for _, path := range []string{"/v1/store/stream?ns=n&state=1", "/v1/store/stream?ns=n&state=1&prev=1", "/v1/store/stream?ns=n"} {
		peers = append(peers, k.ask("GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	require.Eventually(t, func() bool { return k.hub.Open() == 3 }, patience, time.Millisecond)
	for i := range writes { // more than the hub keeps
		k.putLong("n", i, keys)
		if i == 2*keys {
			k.waiting(3)
		}
	}
	last := uint64(k.state.Revision())
	for _, c := range peers {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		s := k.resume(c)
		values := map[string]string{}
		before := int64(0)
		for s.last != k.id(last) {
			m, ok := s.next()
			require.True(t, ok)
			if m.event == "synced" {
				continue
			}
			require.Equal(t, "put", m.event)
			var e struct {
				Key, Value string
				Mod        int64
			}
			require.NoError(t, json.Unmarshal([]byte(m.data), &e))
			if m.last != "" {
				require.Greater(t, e.Mod, before)
				before = e.Mod
			}
			values[e.Key] = e.Value[:6]
		}
		want := map[string]string{}
		for i := range writes {
			want["k"+strconv.Itoa(i%keys)] = fmt.Sprintf("%06d", i)
		}
		require.Equal(t, want, values)
		require.NoError(t, c.Close())
	}
}

// Peers that do not read for as long as a write may take are closed, and counted.
func TestPeersThatDoNotReadAreClosed(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) { cfg.WriteTimeout = 50 * time.Millisecond })
	for i := range 20 {
		k.putLong("n", i, 20)
	}
	var peers []net.Conn
	for range 3 {
		peers = append(peers, k.send("GET /v1/store/stream?ns=n&state=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	require.Eventually(t, func() bool { return k.sse.Unread.Load() == 3 }, patience, time.Millisecond)
	k.waiting(0)
	require.Eventually(t, func() bool { return k.connections.n.Load() == 0 }, patience, time.Millisecond)
	for _, c := range peers {
		n, _ := io.Copy(io.Discard, c)
		require.Less(t, n, int64(4*64<<10), "the kernel does not keep what is unread")
	}
	require.Contains(t, k.get("/metrics").body, "confcenter_http_streams_unread_total 3\n")
}

// What streams hold that are not read is bounded: the one that has waited longest makes
// room.
func TestStreamsThatAreNotReadMakeRoomForOthers(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Memory = memory.Divide(512 << 20) }) // 5 MB for streams
	const keys = 30
	for i := range keys {
		k.putLong("n", i, keys)
	}
	var waiting int
	var cut uint64
	for i := range keys { // each waits in the middle of another key
		k.send(fmt.Sprintf("GET /v1/store/stream?ns=n&key=k%d&state=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", i))
		require.Eventually(t, func() bool {
			waiting, cut = k.sse.Counts()
			return waiting+int(cut) == i+1
		}, patience, time.Millisecond)
	}
	require.Positive(t, cut)
	require.Positive(t, waiting)
	pool := k.cfg.Memory.Streams
	require.Eventually(t, func() bool { return k.streams.count() == waiting }, patience, time.Millisecond)
	require.Less(t, pool.Held(), pool.Limit()+500<<10, "what is being written may come on top")
	require.Equal(t, cut, pool.Refused())
	require.Equal(t, "synced", k.listen("/v1/store/stream?ns=other&state=1", "").until("synced")[0].event, "others are served")
}

// The end of a long event is sent with the rest of it, not with what comes next.
func TestLongEventsAreSentWhole(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Heartbeat = time.Hour })
	s := k.listen("/v1/store/stream?ns=n", "")
	s.until("synced")
	for i := range 5 {
		k.putLong("n", i, 1)
		s.until("put")
	}
}

// A stream that waits for the disk has no turn, so it holds up no other.
func TestStreamsThatReadBackHoldUpNoOther(t *testing.T) {
	held := &heldLog{began: make(chan struct{}, 1), release: make(chan struct{})}
	k := start(t, func(cfg *Config, stores *Stores) {
		held.Store = stores.State
		stores.State = held
		cfg.Heartbeat = time.Hour
	})
	defer held.once()
	k.putLong("n", 0, 1)
	k.putLong("n", 1, 1)
	k.listen("/v1/store/stream?ns=n", k.id(1))
	<-held.began
	s := k.listen("/v1/store/stream?ns=n&state=1", "")
	s.until("synced")
	k.putLong("n", 2, 1)
	s.until("put")
}

// heldLog is a store whose disk does not answer.
type heldLog struct {
	kv.Store
	began, release chan struct{}
	ended          atomic.Bool
}

func (s *heldLog) once() {
	if !s.ended.Swap(true) {
		close(s.release)
	}
}

func (s *heldLog) Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	select {
	case s.began <- struct{}{}:
	default:
	}
	<-s.release
	return s.Store.Changes(ctx, after, maxBytes)
}

// An event may be longer than what all streams may hold. Then it is told all the same, on one
// connection: a client that is told to come back for it would be told so again.
func TestAnEventBeyondTheMemoryForStreamsIsTold(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Memory = memory.Divide(memory.Least) })
	s := k.listen(storeURL("&state=1&prev=1"), "")
	s.until("synced")
	before := ""
	for _, first := range []string{"a", "b"} {
		value := first + strings.Repeat("\x01", kv.MaxValue-1)
		_, err := k.commit(kv.PutTxn("n", "k", kv.StringValue(value)))
		require.NoError(t, err)
		m, ok := s.next()
		require.True(t, ok)
		require.Greater(t, int64(len(m.data)), 4*k.cfg.Memory.Streams.Limit())
		var e struct {
			Value string
			Prev  struct{ Value string }
		}
		require.NoError(t, json.Unmarshal([]byte(m.data), &e))
		require.True(t, e.Value == value && e.Prev.Value == before, "both are whole")
		before = value
	}
	_, cut := k.sse.Counts()
	require.Zero(t, cut)
}
