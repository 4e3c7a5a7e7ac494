package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

// watchKV is Watch that must succeed.
func watchKV(t testing.TB, n *KV, o WatchOptions) *KVWatch {
	t.Helper()
	w, err := n.Watch(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// line is a notice for comparing.
func line(n kv.Notice) string {
	parts := []string{n.Kind.String()}
	for _, e := range n.Events {
		part := text(e.Entry)
		if n.Kind == kv.Changed {
			part = e.Kind.String() + " " + part
		}
		if e.Prev != nil {
			part += " was " + text(e.Prev)
		}
		parts = append(parts, part)
	}
	if n.More {
		parts = append(parts, "more")
	}
	return strings.Join(parts, ", ")
}

// told waits for notices. Those that a watch reads back because its goroutine was late may
// come joined; none may come in parts.
func told(t testing.TB, w *KVWatch, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(want) > 0 {
		n, err := w.Next(ctx)
		require.NoError(t, err, "instead of %s", want[0])
		got, expected := line(n), want[0]
		want = want[1:]
		for len(want) > 0 && len(got) > len(expected) && strings.HasPrefix(want[0], "changed, ") {
			expected += strings.TrimPrefix(want[0], "changed")
			want = want[1:]
		}
		require.Equal(t, expected, got)
	}
}

// quiet says that nothing waits. Callers first make sure that all that could come
// has come.
func quiet(t testing.TB, w *KVWatch) {
	t.Helper()
	n, found, err := w.pop()
	require.NoError(t, err)
	require.False(t, found, line(n))
}

func TestKVWatch(t *testing.T) {
	_, state, n := space(t)
	ctx := t.Context()
	state.put(t, "a", 1)
	all := watchKV(t, n, WatchOptions{Prev: true})
	one := watchKV(t, n, WatchOptions{Key: "b"})
	prefix := watchKV(t, n, WatchOptions{Prefix: "b"})
	full := watchKV(t, n, WatchOptions{State: true})
	old := watchKV(t, n, WatchOptions{From: 1})
	every := watchKV(t, n.c.KV(""), WatchOptions{})
	told(t, full, "state, a=1@1", "synced")
	state.put(t, "b", 2)
	state.put(t, "bb", 3)
	_, err := n.Batch(ctx, kv.Op{Kind: kv.OpDelete, Key: "b"}, kv.Op{Kind: kv.OpPut, Key: "a", Value: kv.BytesValue([]byte("\x00}"))})
	require.NoError(t, err)
	_, err = n.c.KV("other").PutInt(ctx, "b", 5)
	require.NoError(t, err)
	told(t, all, "changed, put b=2@2", "changed, put bb=3@3", "changed, put a=\x00}@4 was a=1@1, delete b@4 was b=2@2")
	told(t, one, "changed, put b=2@2", "changed, delete b@4")
	told(t, prefix, "changed, put b=2@2", "changed, put bb=3@3", "changed, delete b@4")
	told(t, full, "changed, put b=2@2")
	told(t, old, "changed, put b=2@2")
	told(t, every, "changed, put b=2@2", "changed, put bb=3@3", "changed, put a=\x00}@4, delete b@4", "changed, put b=5@5")
	quiet(t, all)
	quiet(t, one)
}

// What player storage keeps is watched like any other key; that it counts as removed is its type.
func TestKVWatchOfRemovedValues(t *testing.T) {
	_, state, n := space(t)
	w := watchKV(t, n.c.KV("@storage/1_1"), WatchOptions{})
	removed := kv.Value{Type: kv.Removed, Data: []byte("\x00\xff")}
	txn := kv.PutTxn("@storage/1_1", "k", removed)
	txn.System = true
	state.commit(t, txn)
	got, err := w.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, removed, got.Events[0].Entry.Value)
	read, err := n.c.KV("@storage/1_1").Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, removed, read.Value)
	_, err = n.c.KV("@storage/1_1").Put(t.Context(), "k", removed)
	require.ErrorIs(t, err, codes.Reserved)
	_, err = n.Put(t.Context(), "k", removed)
	require.ErrorIs(t, err, codes.BadType)
}

func TestKVWatchEnds(t *testing.T) {
	s, state, n := space(t)
	w := watchKV(t, n, WatchOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
	state.put(t, "a", 1)
	for n, err := range w.Events(t.Context()) { // Next goes on after an end of its ctx
		require.NoError(t, err)
		require.Equal(t, "changed, put a=1@1", line(n))
		break
	}
	waiting := make(chan error)
	go func() {
		for _, err := range w.Events(context.Background()) {
			waiting <- err
		}
		close(waiting)
	}()
	w.Stop()
	w.Stop()
	require.ErrorIs(t, <-waiting, ErrClosed)
	_, more := <-waiting
	require.False(t, more)
	eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) == 1 }, "the server is told")

	_, err = n.Watch(t.Context(), WatchOptions{From: 99})
	require.ErrorIs(t, err, codes.FutureRevision)
	s.stop()
	eventually(t, func() bool { _, err := n.c.state(); return err != nil }, "a round of attempts has failed")
	_, err = n.Watch(t.Context(), WatchOptions{})
	require.ErrorIs(t, err, ErrUnreachable)
	s.restart()
}

// Connections that break at any moment: all changes, in order, once each.
func TestKVWatchUnderLoss(t *testing.T) {
	s, state, n := space(t)
	watches := []*KVWatch{watchKV(t, n, WatchOptions{Prev: true}), watchKV(t, n, WatchOptions{Prefix: "k"}), watchKV(t, n, WatchOptions{State: true})}
	const last = 400
	go func() {
		for i := 1; i <= last; i++ {
			state.put(t, fmt.Sprint("k", i%7), i)
			if rand.IntN(10) == 0 {
				s.drop()
			}
		}
	}()
	for i, w := range watches {
		seen, synced := 0, i < 2
		for seen < last {
			notice, err := w.Next(t.Context())
			require.NoError(t, err)
			switch {
			case notice.Kind == kv.Synced:
				synced, seen = true, int(notice.Revision)
			case notice.Kind == kv.Resync: // before anything was known
				require.False(t, synced && seen > 0)
				synced, seen = false, 0
			case notice.Kind == kv.Changed:
				require.True(t, synced)
				for _, e := range notice.Events {
					require.EqualValues(t, seen+1, e.Entry.Mod)
					require.Equal(t, fmt.Sprint(seen+1), string(e.Entry.Value.Data))
					seen++
				}
			}
		}
	}
}

// scripted is a server whose watches a test answers: attach is given the number of
// the request, from 1, and sends what it likes; the reply it gives goes before that.
func scripted(s *fakeServer, attach func(c *fakeConn, try int, q protocol.KVWatchRequest) (reply []byte, events []protocol.KVEvents)) {
	var tries atomic.Int32
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
			switch h.Command {
			case protocol.KVUnwatch:
				c.reply(h, protocol.AppendResult(nil, 0, ""))
				return true
			case protocol.KVWatch:
			default:
				return false
			}
			var r protocol.Request
			if r.ParseTailed(body) != nil {
				return false
			}
			q, _ := r.KVWatch()
			reply, events := attach(c, int(tries.Add(1)), q)
			c.reply(h, reply)
			for _, ev := range events {
				c.tell(ev)
			}
			return true
		}
	})
}

func (c *fakeConn) tell(ev protocol.KVEvents) {
	if ev.Watch == 0 {
		ev.Watch = 1
	}
	c.Write(protocol.AppendFrame(nil, protocol.KVEvent, 79, protocol.AppendKVEvents(nil, ev, true, true)))
}

// puts are events of one revision, in the order of the keys.
func puts(rev kv.Revision, keys ...string) []kv.Event {
	var events []kv.Event
	for _, key := range keys {
		events = append(events, kv.Event{Kind: kv.Put, Entry: &kv.Entry{NS: "n", Key: key, Value: kv.StringValue("v"), Create: rev, Mod: rev, Version: 1, Updated: 1}})
	}
	return events
}

// The connection breaks in the middle of a revision: what has come is not repeated.
func TestKVWatchResumesWithinARevision(t *testing.T) {
	s := newFakeServer(t, nil)
	scripted(s, func(c *fakeConn, try int, q protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		reply := protocol.AppendKVWatching(nil, 3, 1)
		if try == 1 {
			c.reply(protocol.Header{Command: protocol.KVWatch, Seq: 65535}, reply) // a stray reply means nothing
			return reply, []protocol.KVEvents{{Revision: 4, Events: puts(4, "z")}, {Revision: 5, Events: puts(5, "a", "b"), More: true}}
		}
		if q.From != 4 || q.State {
			return protocol.AppendResult(nil, int(codes.BadRequest), fmt.Sprint("from ", q.From)), nil
		}
		return reply, []protocol.KVEvents{
			{Revision: 5, Events: puts(5, "a", "b", "c"), More: true}, {Revision: 5, Events: puts(5, "d")}, {Revision: 6, Events: puts(6, "a")},
			{Watch: 7, Revision: 7, Events: puts(7, "x")}, // another watch's
		}
	})
	w := watchKV(t, dial(t, s).KV("n"), WatchOptions{From: 3})
	told(t, w, "changed, put z=v@4", "changed, put a=v@5, put b=v@5, more")
	s.drop()
	told(t, w, "changed, put c=v@5, more", "changed, put d=v@5", "changed, put a=v@6")
	quiet(t, w)
}

// The same when nothing of the revision was left: its end is still told.
func TestKVWatchResumesAtTheEndOfARevision(t *testing.T) {
	s := newFakeServer(t, nil)
	scripted(s, func(c *fakeConn, try int, q protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		reply := protocol.AppendKVWatching(nil, 3, 1)
		if try == 1 {
			return reply, []protocol.KVEvents{{Revision: 5, Events: puts(5, "a", "b"), More: true}}
		}
		return reply, []protocol.KVEvents{{Revision: 5, Events: puts(5, "a"), More: true}, {Revision: 5, Events: puts(5, "b")}}
	})
	w := watchKV(t, dial(t, s).KV("n"), WatchOptions{From: 3})
	told(t, w, "changed, put a=v@5, put b=v@5, more")
	s.drop()
	told(t, w, "changed")
	quiet(t, w)
}

// Where the changes in between cannot be had, the watch begins anew and says so.
func TestKVWatchResyncs(t *testing.T) {
	for name, gone := range map[string]func(s *fakeServer, state *fakeState){
		"the log is too short": func(s *fakeServer, state *fakeState) {
			for i := range 100 {
				state.put(t, "b", i)
			}
		},
		"the server has other data": func(s *fakeServer, _ *fakeState) { s.change(func(s *fakeServer) { s.epoch = "e2" }) },
		"the server refuses": func(s *fakeServer, _ *fakeState) {
			refuse := once(protocol.KVWatch, 1)
			s.change(func(s *fakeServer) {
				s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
					no := refuse(h)
					if no {
						c.reply(h, protocol.AppendResult(nil, int(codes.Compacted), "no longer kept"))
					}
					return no
				}
			})
		},
		"the server has lost some": func(s *fakeServer, _ *fakeState) {
			refuse := once(protocol.KVWatch, 1)
			s.change(func(s *fakeServer) {
				s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
					no := refuse(h)
					if no {
						c.reply(h, protocol.AppendResult(nil, int(codes.FutureRevision), "not reached"))
					}
					return no
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeServer(t, nil)
			state := stateful(t, s, memory.Config{LogBytes: 20})
			n := dial(t, s).KV("n")
			state.put(t, "a", 1)
			w := watchKV(t, n, WatchOptions{})
			state.put(t, "a", 2)
			told(t, w, "changed, put a=2@2")
			s.ln.Close()
			s.drop()
			gone(s, state)
			s.restart()
			told(t, w, "resync")
			for synced := false; !synced; {
				notice, err := w.Next(t.Context())
				require.NoError(t, err)
				require.NotEqual(t, kv.Changed, notice.Kind)
				require.Contains(t, line(notice)+"synced", map[kv.NoticeKind]string{kv.State: "a=2@2"}[notice.Kind])
				synced = notice.Kind == kv.Synced
			}
			rev := state.put(t, "a", 3)
			told(t, w, "changed, put a=3@"+fmt.Sprint(rev))
		})
	}
}

// A revision that a program has kept is one of the data that it was told of.
func TestKVWatchGoesOnInTheSameDataOnly(t *testing.T) {
	_, state, n := space(t)
	w := watchKV(t, n, WatchOptions{})
	require.Empty(t, w.Epoch())
	from := state.put(t, "a", 1)
	told(t, w, "changed, put a=1@1")
	require.Equal(t, "e1", w.Epoch())
	state.put(t, "a", 2)
	told(t, watchKV(t, n, WatchOptions{From: from, Epoch: "e1"}), "changed, put a=2@2")
	w = watchKV(t, n, WatchOptions{From: from, Epoch: "e0"})
	told(t, w, "resync", "state, a=2@2", "synced")
	require.Equal(t, "e1", w.Epoch())
	told(t, watchKV(t, n, WatchOptions{From: 99, Epoch: "e0"}), "resync", "state, a=2@2", "synced")
}

// Revision 0 of an empty store is a place to go on from: also what is gone again was
// there.
func TestKVWatchOfAnEmptyStoreGoesOn(t *testing.T) {
	for name, o := range map[string]WatchOptions{"changes": {}, "state": {State: true}} {
		t.Run(name, func(t *testing.T) {
			s, state, n := space(t)
			w := watchKV(t, n, o)
			if o.State {
				told(t, w, "synced")
			}
			s.ln.Close()
			s.drop()
			s.change(func(s *fakeServer) { s.epoch = "e2" }) // it kept nothing, since there was nothing
			state.put(t, "a", 1)
			state.commit(t, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "n", Key: "a"}}})
			s.restart()
			told(t, w, "changed, put a=1@1", "changed, delete a@2")
			again := watchKV(t, n, WatchOptions{Past: true})
			told(t, again, "changed, put a=1@1", "changed, delete a@2")
		})
	}
}

// Nothing of the first transaction is missing when the buffer is full in its middle,
// or when the answer is all that came before the connection broke.
func TestKVWatchOfAnEmptyStoreGoesOnWithinItsFirstRevision(t *testing.T) {
	s := newFakeServer(t, nil)
	var from atomic.Value
	from.Store("")
	scripted(s, func(c *fakeConn, try int, q protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		from.Store(fmt.Sprint(from.Load(), " ", q.From, q.Past, q.State))
		switch try {
		case 1:
			return protocol.AppendKVWatching(nil, 0, 1), []protocol.KVEvents{{Revision: 1, Events: puts(1, "a", "b"), More: true}, {Revision: 1, Events: puts(1, "c"), More: true}}
		case 2:
			c.Close()
			return protocol.AppendKVWatching(nil, 1, 1), nil
		}
		return protocol.AppendKVWatching(nil, 1, 1), []protocol.KVEvents{{Revision: 1, Events: puts(1, "a", "b", "c"), More: true}, {Revision: 1, Events: puts(1, "d")}}
	})
	w := watchKV(t, dial(t, s).KV("n"), WatchOptions{Buffer: 1})
	told(t, w, "changed, put a=v@1, put b=v@1, more", "changed, put c=v@1, more")
	s.drop() // if both were read in time, the buffer was never full
	told(t, w, "changed, put d=v@1")
	require.Regexp(t, "^ 0 false false( 0 true false)+$", from.Load())
}

// What came before a resync is told before it: only pieces of a state that will not
// be complete are not.
func TestKVWatchResyncLosesNothing(t *testing.T) {
	s := newFakeServer(t, nil)
	conns := make(chan *fakeConn, 2)
	scripted(s, func(c *fakeConn, try int, q protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		conns <- c
		reply := protocol.AppendKVWatching(nil, 1, 1)
		if try == 1 {
			return reply, []protocol.KVEvents{
				{Revision: 2, Events: puts(2, "a")}, {Revision: 3, Events: puts(3, "b")},
				{Resync: true}, {Revision: 9, Events: puts(9, "x"), State: true}}
		}
		return reply, []protocol.KVEvents{{Revision: 9, Events: puts(9, "z"), State: true}, {Revision: 9, Synced: true}}
	})
	w := watchKV(t, dial(t, s).KV("n"), WatchOptions{From: 1})
	waits := func(n int) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.queue) == n
		}
	}
	eventually(t, waits(4), "all has come")
	(<-conns).Close()
	eventually(t, waits(5), "all of the next state has come")
	told(t, w, "changed, put a=v@2", "changed, put b=v@3", "resync", "state, z=v@9", "synced")
}

// The connection breaks in the middle of a state: the next one brings all of it.
func TestKVWatchStateBeginsAnew(t *testing.T) {
	s := newFakeServer(t, nil)
	begun := make(chan *fakeConn, 1)
	scripted(s, func(c *fakeConn, try int, q protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		if !q.State || q.From != 0 {
			return protocol.AppendResult(nil, int(codes.BadRequest), "not the state"), nil
		}
		if try == 1 {
			begun <- c
			return protocol.AppendKVWatching(nil, 3, 1), []protocol.KVEvents{{Revision: 3, Events: puts(2, "a"), State: true}, {Revision: 3, Events: puts(3, "b"), State: true}}
		}
		return protocol.AppendKVWatching(nil, 4, 1), []protocol.KVEvents{
			{Revision: 4, Events: puts(9, "early")}, // cannot be: a change within a state
			{Revision: 4, Events: puts(4, "b"), State: true}, {Revision: 4, Synced: true}, {Revision: 5, Events: puts(5, "c")}}
	})
	w := watchKV(t, dial(t, s).KV("n"), WatchOptions{State: true})
	told(t, w, "state, a=v@2")
	(<-begun).Close()
	for first := true; ; first = false { // the second piece may have been read in time
		notice, err := w.Next(t.Context())
		require.NoError(t, err)
		if line(notice) == "resync" {
			break
		}
		require.True(t, first, line(notice))
	}
	told(t, w, "state, b=v@4", "synced", "changed, put c=v@5")
}

// A state cannot be had in parts, so a reader that does not read ends its watch.
func TestKVWatchStateTooLarge(t *testing.T) {
	s := newFakeServer(t, nil)
	proceed := make(chan struct{})
	scripted(s, func(c *fakeConn, try int, q protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		c.srv.wg.Go(func() {
			<-proceed
			for i := range 10 {
				c.tell(protocol.KVEvents{Revision: 3, Events: puts(1, fmt.Sprint("k", i)), State: true})
			}
		})
		return protocol.AppendKVWatching(nil, 3, 1), nil
	})
	w := watchKV(t, dial(t, s).KV("n"), WatchOptions{State: true})
	w.mu.Lock()
	w.state = 1 << 10
	w.mu.Unlock()
	close(proceed)
	eventually(t, func() bool { return w.failure() != nil }, "it ends")
	_, err := w.Next(t.Context())
	require.ErrorIs(t, err, codes.TooLarge)
	eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) == 1 }, "the server is told")
}

// A refusal after a reconnect is reported, and tried again until it is not refused.
func TestKVWatchRefusedForAWhile(t *testing.T) {
	s, state, _ := space(t)
	var errs collector
	cfg := quick(s)
	cfg.OnError = errs.add
	n := dialWith(t, cfg).KV("n")
	state.put(t, "a", 1)
	w := watchKV(t, n, WatchOptions{})
	var refuse atomic.Bool
	refuse.Store(true)
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			no := h.Command == protocol.KVWatch && refuse.Load()
			if no {
				c.reply(h, protocol.AppendResult(nil, int(codes.Limit), "too many watches"))
			}
			return no
		}
	})
	s.drop()
	state.put(t, "a", 2)
	eventually(t, func() bool { return errs.has(codes.Limit) }, "it is reported")
	refuse.Store(false)
	told(t, w, "changed, put a=2@2")
}

// Stop while the server has not answered yet: the watch it then makes is ended.
func TestKVWatchStoppedBeforeTheAnswer(t *testing.T) {
	s := newFakeServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	proceed := make(chan struct{})
	scripted(s, func(*fakeConn, int, protocol.KVWatchRequest) ([]byte, []protocol.KVEvents) {
		cancel() // the request is there: on a busy machine a time could be over before
		<-proceed
		return protocol.AppendKVWatching(nil, 3, 5), nil
	})
	_, err := dial(t, s).KV("n").Watch(ctx, WatchOptions{})
	require.ErrorIs(t, err, context.Canceled)
	close(proceed)
	eventually(t, func() bool { return len(s.requests(protocol.KVUnwatch)) == 1 }, "the server is told")
	require.JSONEq(t, `{"watch":5}`, s.requests(protocol.KVUnwatch)[0])
}
