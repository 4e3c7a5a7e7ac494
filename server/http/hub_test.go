package http

import (
	"testing"

	"github.com/stretchr/testify/require"

	pool "confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kvstore/memory"
	"confcenter/server/http/sse"
)

// An event is encoded once, however many streams send it.
func TestEventsAreEncodedOnce(t *testing.T) {
	store := memory.ForTest(t)
	h := newHub(store, sse.New(sse.Config{Pool: pool.NewPool(512 << 10)}), ofKeys)
	defer h.Close()
	follower := func(filter kv.Filter) *subscription {
		s, err := h.subscribe(follow.Request{Filter: filter})
		require.NoError(t, err)
		t.Cleanup(s.close)
		return s
	}
	a, b := follower(kv.Filter{NS: "a"}), follower(kv.Filter{})
	_, err := kv.Commit(t.Context(), store, kv.PutTxn("a", "k", kv.StringValue("1")))
	require.NoError(t, err)
	frame := func(m *subscription) *sse.Frame {
		for {
			n, ok, err := m.poll(t.Context())
			require.NoError(t, err)
			if ok {
				f := m.frameOf(&n.Events[0], false, plumForm)
				var text sse.Stream
				text.Put(f, false)
				require.Equal(t, "event: kv\ndata: {\"namespace\":\"a\",\"key\":\"k\",\"value\":\"1\",\"type\":\"string\"}\n", string(text.Buf))
				return f
			}
			<-m.Wake()
		}
	}
	require.Same(t, frame(a), frame(b))
	require.EqualValues(t, 1, h.frames.Encoded.Load())
}
