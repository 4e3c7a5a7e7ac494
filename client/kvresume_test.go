package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

// A slow reader costs a bounded amount of memory and misses nothing; other requests
// are not held up.
func TestKVWatchOverflow(t *testing.T) {
	s, state, n := space(t)
	const last, buffer = 500, 8 << 10
	w := watchKV(t, n, WatchOptions{Buffer: buffer})
	bounded := func() bool { // the last one may not fit
		w.mu.Lock()
		defer w.mu.Unlock()
		n := len(w.queue)
		return n == 0 || w.bytes-w.queue[n-1].cost < buffer
	}
	for i := 1; i <= last/2; i++ {
		state.put(t, "k", i)
	}
	eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) == 1 }, "the server is told to stop")
	for i := last/2 + 1; i <= last; i++ {
		state.put(t, "k", i)
	}
	got, err := n.GetInt(t.Context(), "k", 0)
	require.NoError(t, err)
	require.EqualValues(t, last, got)
	seen := 0
	for seen < last {
		require.True(t, bounded())
		notice, err := w.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, kv.Changed, notice.Kind)
		for _, e := range notice.Events {
			require.EqualValues(t, seen+1, e.Entry.Mod)
			seen++
		}
	}
	require.GreaterOrEqual(t, len(s.requests(protocol.KVWatch)), 2, "it was asked to go on")
	state.put(t, "k", last+1)
	told(t, w, fmt.Sprintf("changed, put k=%d@%d", last+1, last+1))
	s.drop()
	state.put(t, "k", last+2)
	told(t, w, fmt.Sprintf("changed, put k=%d@%d", last+2, last+2))
}

// A watch that no one reads is asked for once, however its changes fill the buffer: this
// connection's other requests must not wait for changes that are sent in vain.
func TestKVWatchThatNobodyReadsHoldsUpNobody(t *testing.T) {
	for _, parts := range []int{40, 100, 160} { // of the buffer, in percent
		t.Run(fmt.Sprint(parts), func(t *testing.T) {
			s, _, n := space(t)
			const last, buffer = 40, 64 << 10
			w := watchKV(t, n, WatchOptions{Buffer: buffer, Prev: true}) // all but the first are twice as long
			value := strings.Repeat("v", buffer*parts/100)
			put := func(times int) {
				for range times {
					_, err := n.PutString(t.Context(), "k", value)
					require.NoError(t, err)
				}
			}
			put(last / 2)
			eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) > 0 }, "the server is told to stop")
			put(last / 2)
			require.Len(t, s.requests(protocol.KVWatch), 1)
			require.Len(t, s.requests(protocol.KVUnwatch), 1)
			for version := range last {
				notice, err := w.Next(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, version+1, notice.Events[0].Entry.Version)
			}
		})
	}
}

// What is still on its way to a watch that has ended is not even read: this would not be
// JSON.
func TestEventsOfAWatchThatHasEndedAreSkipped(t *testing.T) {
	s, state, n := space(t)
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			if h.Command == protocol.KVUnwatch {
				c.Write(protocol.AppendFrame(nil, protocol.KVEvent, 80, []byte(`{"watch":         1,"events":[`+strings.Repeat("x", 2*(64<<10)))))
			}
			return false
		}
	})
	w := watchKV(t, n, WatchOptions{})
	state.put(t, "k", 1)
	told(t, w, "changed, put k=1@1")
	w.Stop()
	eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) == 1 }, "the server is told")
	got, err := n.GetInt(t.Context(), "k", 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
	require.Equal(t, 1, s.greeted(), "on the same connection")
}

// An event that is longer than the client accepts would come again on every connection: it
// ends its watch, and nothing else.
func TestAnEventBeyondMaxBodyEndsItsWatchOnly(t *testing.T) {
	s := newFakeServer(t, nil)
	state := stateful(t, s, memory.Config{})
	cfg := quick(s)
	cfg.MaxBody = 10_000
	n := dialWith(t, cfg).KV("n")
	w, other := watchKV(t, n, WatchOptions{Prefix: "long"}), watchKV(t, n, WatchOptions{Key: "k"})
	state.commit(t, kv.PutTxn("n", "long", kv.StringValue(strings.Repeat("v", 10_000))))
	_, err := w.Next(t.Context())
	require.ErrorIs(t, err, codes.TooLarge)
	require.ErrorContains(t, err, "Config.MaxBody, 10000")
	eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) == 1 }, "the server is told")
	state.put(t, "k", 2)
	told(t, other, "changed, put k=2@2")
	require.Equal(t, 1, s.greeted(), "on the same connection")
}

// A connection that is lost while the buffer is full is not asked for more before
// there is room.
func TestKVWatchOverflowAcrossConnections(t *testing.T) {
	s, state, n := space(t)
	const last = 100
	w := watchKV(t, n, WatchOptions{Buffer: 4 << 10})
	for i := 1; i <= last; i++ {
		state.put(t, "k", i)
	}
	eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) == 1 }, "the server is told to stop")
	accepted := s.greeted()
	s.drop()
	eventually(t, func() bool { return n.c.Connected() && s.greeted() > accepted }, "it is connected again")
	require.Len(t, s.requests(protocol.KVWatch), 1)
	for seen := 0; seen < last; {
		notice, err := w.Next(t.Context())
		require.NoError(t, err)
		for _, e := range notice.Events {
			require.EqualValues(t, seen+1, e.Entry.Mod)
			seen++
		}
	}
}

func (s *fakeServer) greeted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}
