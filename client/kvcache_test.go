package client

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// cacheOf is Cache that must succeed.
func cacheOf(t testing.TB, n *KV) *KVCache {
	t.Helper()
	c, err := n.Cache(t.Context())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// news collects what OnChange is told.
type news struct {
	mu   sync.Mutex
	last map[string]string // guarded by mu: key to value, "-" for gone
}

func (n *news) add(key string, e *kv.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil {
		n.last = map[string]string{}
	}
	n.last[key] = "-"
	if e != nil {
		n.last[key] = string(e.Value.Data)
	}
}

// want waits until it was told exactly this since the last time.
func (n *news) want(t *testing.T, want map[string]string) {
	t.Helper()
	eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return maps.Equal(want, n.last)
	}, fmt.Sprint(want))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = nil
}

func TestCache(t *testing.T) {
	_, state, n := space(t)
	ctx := t.Context()
	state.put(t, "a", 1)
	rev := state.commit(t, kv.PutTxn("other", "x", kv.IntValue(1)))
	c := cacheOf(t, n)
	require.True(t, c.Current())
	require.Equal(t, rev, c.Revision())
	require.Equal(t, "a=1@1", text(c.Get("a")))
	require.Nil(t, c.Get("x"))
	var told news
	c.OnChange(told.add)

	_, err := n.Batch(ctx, kv.Op{Kind: kv.OpPut, Key: "b/1", Value: kv.StringValue("x")}, kv.Op{Kind: kv.OpPut, Key: "b/2", Value: kv.JSONValue([]byte(`{"A":1}`))},
		kv.Op{Kind: kv.OpDelete, Key: "a"})
	require.NoError(t, err)
	told.want(t, map[string]string{"a": "-", "b/1": "x", "b/2": `{"A":1}`})
	require.True(t, c.Current())
	require.Equal(t, 2, c.Len())
	require.Equal(t, state.Revision(), c.Revision())
	var keys []string
	for _, e := range c.List("b") {
		keys = append(keys, e.Key)
	}
	require.Equal(t, []string{"b/1", "b/2"}, keys)
	require.Empty(t, c.List("c"))

	require.Equal(t, "x", c.GetString("b/1", "def"))
	require.Equal(t, "def", c.GetString("b/2", "def"))
	require.EqualValues(t, 7, c.GetInt("b/1", 7))
	require.Equal(t, 1.5, c.GetDouble("none", 1.5))
	require.True(t, c.GetBool("none", true))
	require.Equal(t, []byte("def"), c.GetBytes("b/1", []byte("def")))
	var j struct{ A int }
	require.NoError(t, c.GetJSON("b/2", &j))
	require.Equal(t, 1, j.A)
	require.ErrorIs(t, c.GetJSON("b/1", &j), codes.WrongType)
	require.ErrorIs(t, c.GetJSON("none", &j), codes.NotFound)

	c.Close()
	require.False(t, c.Current())
	require.Equal(t, 2, c.Len(), "it keeps what it has")
}

// Without a connection the cache answers, and says that it is not current; then it
// catches up.
func TestCacheAcrossConnections(t *testing.T) {
	s, state, n := space(t)
	state.put(t, "a", 1)
	c := cacheOf(t, n)
	var told news
	c.OnChange(told.add)
	s.ln.Close()
	s.drop()
	eventually(t, func() bool { return !c.Current() }, "it knows")
	require.EqualValues(t, 1, c.GetInt("a", 0))
	state.put(t, "a", 2)
	s.restart()
	told.want(t, map[string]string{"a": "2"})
	eventually(t, c.Current, "it is current again")

	// What the resync finds different is told, and nothing else.
	state.put(t, "same", 1)
	told.want(t, map[string]string{"same": "1"})
	s.ln.Close()
	s.drop()
	state.commit(t, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "n", Key: "a"}}})
	state.put(t, "new", 3)
	s.change(func(s *fakeServer) { s.epoch = "e2" })
	s.restart()
	told.want(t, map[string]string{"a": "-", "new": "3"})
	require.Nil(t, c.Get("a"))
	require.Equal(t, 2, c.Len())
	require.Equal(t, state.Revision(), c.Revision())
}

// Readers see whole revisions only, however they come.
func TestCacheIsNeverTorn(t *testing.T) {
	s := newFakeServer(t, nil)
	conns := make(chan *fakeConn, 1)
	scripted(s, func(c *fakeConn, try int, q protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		conns <- c
		return protocol.AppendKVWatching(nil, 3, 1), []protocol.KVEvents{
			{Revision: 3, Events: puts(1, "a"), State: true}, {Revision: 3, Events: puts(2, "b"), State: true}, {Revision: 3, Synced: true}}
	})
	c := cacheOf(t, dial(t, s).KV("n"))
	conn := <-conns
	state := func() string { return text(c.Get("a")) + " " + text(c.Get("b")) }
	took := func(n uint64) {
		eventually(t, func() bool { c.mu.RLock(); defer c.mu.RUnlock(); return c.applied == n }, "it is taken in")
	}
	require.Equal(t, "a=v@1 b=v@2", state())
	conn.tell(protocol.KVEvents{Revision: 4, Events: puts(4, "a"), More: true})
	took(4)
	require.Equal(t, "a=v@1 b=v@2", state())
	require.EqualValues(t, 3, c.Revision())
	conn.tell(protocol.KVEvents{Revision: 4, Events: puts(4, "b")})
	took(5)
	require.Equal(t, "a=v@4 b=v@4", state())
	require.EqualValues(t, 4, c.Revision())

	conn.tell(protocol.KVEvents{Revision: 5, Events: puts(5, "a"), More: true})
	conn.tell(protocol.KVEvents{Resync: true})
	conn.tell(protocol.KVEvents{Revision: 6, Events: puts(6, "a"), State: true})
	eventually(t, func() bool { c.mu.RLock(); defer c.mu.RUnlock(); return len(c.next) == 1 }, "the state has begun")
	require.Equal(t, "a=v@4 b=v@4", state())
	require.False(t, c.Current())
	conn.tell(protocol.KVEvents{Revision: 6, Synced: true})
	eventually(t, c.Current, "the state is complete")
	require.Equal(t, "a=v@6 -", state())
}

// A callback that is slow gets the newest entry only, and does not keep the cache
// from following; it may use the cache and write to the store.
func TestCacheWithSlowCallback(t *testing.T) {
	_, state, n := space(t)
	c := cacheOf(t, n)
	entered, proceed := make(chan struct{}), make(chan struct{})
	var got []string
	done := make(chan struct{})
	c.OnChange(func(key string, e *kv.Entry) {
		if got = append(got, text(e)); len(got) == 1 {
			close(entered)
			<-proceed
			_, err := n.PutInt(t.Context(), "mine", int64(c.Len()))
			if err != nil {
				t.Error(err)
			}
		}
		if key == "mine" {
			close(done)
		}
	})
	state.put(t, "k", 1)
	<-entered
	for i := 2; i <= 100; i++ {
		state.put(t, "k", i)
	}
	eventually(t, func() bool { return c.GetInt("k", 0) == 100 }, "the cache follows")
	close(proceed)
	<-done
	require.Equal(t, []string{"k=1@1", "k=100@100", "mine=1@101"}, got)
}

// A server that is lost while the cache begins: it waits for the next one.
func TestCacheBeginsUnderLoss(t *testing.T) {
	s, state, n := space(t)
	state.put(t, "a", 1)
	lose := once(protocol.KVWatch, 3)
	losing(s, func(h protocol.Header) (before, after bool) { return lose(h), false })
	c := cacheOf(t, n)
	require.Equal(t, 1, c.Len())
}
