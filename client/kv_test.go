package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client/internal/connection"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

func TestKVNamespaces(t *testing.T) {
	s, state, n := space(t)
	for i := range 5 { // the fake's pages have two
		state.commit(t, kv.PutTxn(fmt.Sprintf("n%d", i), "k", kv.StringValue("v")))
	}
	list, err := n.c.Namespaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, []kv.Namespace{{Name: "n0", Keys: 1, Bytes: 2}, {Name: "n1", Keys: 1, Bytes: 2}, {Name: "n2", Keys: 1, Bytes: 2},
		{Name: "n3", Keys: 1, Bytes: 2}, {Name: "n4", Keys: 1, Bytes: 2}}, list)
	require.Len(t, s.requests(protocol.KVNames), 3)
	require.Equal(t, "n", n.Namespace())
}

// A server without a state store says so, in whatever is asked.
func TestKVWithoutStore(t *testing.T) {
	n := dial(t, newFakeServer(t, nil)).KV("n")
	_, err := n.Get(t.Context(), "k")
	require.ErrorIs(t, err, codes.NotImplemented)
	_, err = n.PutInt(t.Context(), "k", 1)
	require.ErrorIs(t, err, codes.NotImplemented)
	_, err = n.Watch(t.Context(), WatchOptions{})
	require.ErrorIs(t, err, codes.NotImplemented)
	_, err = n.Lock(t.Context(), "k", time.Second)
	require.ErrorIs(t, err, codes.NotImplemented)
	_, err = n.Cache(t.Context())
	require.ErrorIs(t, err, codes.NotImplemented)
	_, err = n.c.Namespaces(t.Context())
	require.ErrorIs(t, err, codes.NotImplemented)
}

// The codes of what is wrong with a server's messages are not taken for codes that
// it has given.
func TestKVBadMessagesAreNoRefusals(t *testing.T) {
	s := newFakeServer(t, nil)
	n := dial(t, s).KV("n")
	parsers := []codes.Code{codes.BadRequest, codes.BadJSON, codes.BadType, codes.BadValue, codes.BadTTL}
	for _, reply := range []string{
		`{"code":0,"rev":"x"}`, `{"code":0,"rev":1}rubbish`, `{"code":0`, `[]`, `{"code":0,"rev":1,"type":"new","value":"1","mod":1,"version":1}`,
		`{"code":0,"rev":1,"type":"bytes","raw":9,"mod":1,"version":1}`,
	} {
		s.change(func(s *fakeServer) {
			s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
				c.Write(protocol.AppendFrame(nil, h.Command.Reply(), h.Seq, []byte(reply)))
				return true
			}
		})
		_, err := n.Get(t.Context(), "k")
		require.ErrorIs(t, err, codes.Internal, reply)
		for _, code := range parsers {
			require.NotErrorIs(t, err, code, reply)
		}
	}
}

func TestKVAfterClose(t *testing.T) {
	_, _, n := space(t)
	w, err := n.Watch(t.Context(), WatchOptions{})
	require.NoError(t, err)
	l, err := n.Lease(t.Context(), time.Minute)
	require.NoError(t, err)
	held, err := n.Lock(t.Context(), "lock", time.Minute)
	require.NoError(t, err)
	n.c.Close()
	_, err = n.Get(t.Context(), "k")
	require.ErrorIs(t, err, ErrClosed)
	_, err = n.PutInt(t.Context(), "k", 1)
	require.ErrorIs(t, err, ErrClosed)
	require.True(t, SafeToRetry(err))
	_, err = w.Next(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	_, err = n.Watch(t.Context(), WatchOptions{})
	require.ErrorIs(t, err, ErrClosed)
	_, err = n.Lease(t.Context(), time.Minute)
	require.ErrorIs(t, err, ErrClosed)
	<-l.Lost()
	require.ErrorIs(t, l.Err(), ErrClosed)
	<-held.Lost()
}

// losing makes s lose the connection on commands of the state store: before they
// are obeyed or before they are answered.
func losing(s *fakeServer, when func(h protocol.Header) (before, after bool)) {
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
			if h.Command < protocol.KVGet {
				return false
			}
			before, after := when(h)
			if before || after {
				c.Close()
			}
			if after {
				c.srv.mu.Lock()
				state := c.srv.state
				c.srv.mu.Unlock()
				var r protocol.Request
				if r.ParseTailed(body) == nil {
					_, _ = c.kvReply(state, h, &r)
				}
			}
			return before || after
		}
	})
}

// losingReplies makes s obey the next n requests of a command and lose the connection
// instead of answering.
func losingReplies(s *fakeServer, cmd protocol.Command, n int32) {
	lose := once(cmd, n)
	losing(s, func(h protocol.Header) (before, after bool) { return false, lose(h) })
}

// once is true for the first n requests of a command.
func once(cmd protocol.Command, n int32) func(protocol.Header) bool {
	var seen atomic.Int32
	return func(h protocol.Header) bool { return h.Command == cmd && seen.Add(1) <= n }
}

// A write whose answer is lost was applied; sent again, it is not applied again.
func TestKVWriteIsAppliedOnceAcrossConnections(t *testing.T) {
	const losses = 5 // more than other requests are tried
	s, _, n := space(t)
	losingReplies(s, protocol.KVIncr, losses)
	got, err := n.Incr(t.Context(), "n", 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
	sent := s.requests(protocol.KVIncr)
	require.Len(t, sent, losses+1)
	for _, body := range sent {
		require.Equal(t, sent[0], body, "token and all")
	}

	losingReplies(s, protocol.KVPut, 1)
	w, err := n.PutBytes(t.Context(), "b", []byte("\x00{"), WithPrev())
	require.NoError(t, err)
	require.Equal(t, kv.BytesValue([]byte("\x00{")), w.Entry.Value)
	require.Equal(t, w.Revision, w.Entry.Mod)
	losingReplies(s, protocol.KVTxn, 1)
	res, err := n.Batch(t.Context(), kv.Op{Kind: kv.OpIncr, Key: "n", Delta: 1}, kv.Op{Kind: kv.OpIncr, Key: "m", Delta: 1})
	require.NoError(t, err)
	require.True(t, res.Replayed)
	got, err = n.GetInt(t.Context(), "n", 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, got)
}

func TestKVWriteWithoutTokenIsSentOnce(t *testing.T) {
	s, state, n := space(t)
	losingReplies(s, protocol.KVIncr, 1)
	_, err := n.Incr(t.Context(), "n", 1, WithToken(""))
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, SafeToRetry(err))
	require.Len(t, s.requests(protocol.KVIncr), 1)
	require.NotContains(t, s.requests(protocol.KVIncr)[0], "token")
	eventually(t, func() bool { e, _ := state.Get([]byte("n"), []byte("n")); return text(e) == "n=1@1" }, "it was applied")
}

// A write that may have been applied outlasts a time without a server; one that
// cannot have been fails at once.
func TestKVWriteWaitsForTheServer(t *testing.T) {
	s, _, n := space(t)
	var down atomic.Bool
	losing(s, func(h protocol.Header) (before, after bool) {
		if h.Command == protocol.KVIncr && down.CompareAndSwap(false, true) {
			s.ln.Close()
			return false, true
		}
		return false, false
	})
	result := make(chan error, 1)
	go func() {
		_, err := n.Incr(t.Context(), "n", 1)
		result <- err
	}()
	eventually(t, func() bool { _, err := n.c.state(); return err != nil }, "a round of attempts has failed")
	_, err := n.Incr(t.Context(), "n", 10)
	require.ErrorIs(t, err, ErrUnreachable)
	require.True(t, SafeToRetry(err))
	select {
	case err := <-result:
		require.FailNow(t, "it has not waited", "%v", err)
	default:
	}
	s.restart()
	require.NoError(t, <-result)
	got, err := n.GetInt(t.Context(), "n", 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
}

// When the time is up, whether the write happened is not known, on whatever
// connection it was sent last.
func TestKVWriteOfUnknownOutcome(t *testing.T) {
	s := newFakeServer(t, nil)
	fake := clocktest.NewFake(time.Unix(1000, 0))
	stateful(t, s, memory.Config{})
	cfg := quick(s)
	cfg.Clock = fake
	n := dialWith(t, cfg).KV("n")
	losing(s, func(h protocol.Header) (before, after bool) {
		s.ln.Close()
		return true, false
	})
	result := make(chan error, 1)
	go func() {
		_, err := n.PutInt(t.Context(), "k", 1)
		result <- err
	}()
	eventually(t, func() bool { return len(s.requests(protocol.KVPut)) == 1 }, "it is sent")
	eventually(t, func() bool { fake.Advance(time.Second); return len(result) == 1 }, "it ends")
	err := <-result
	require.ErrorIs(t, err, codes.Timeout)
	require.False(t, SafeToRetry(err))
}

// Eight writers, connections that break at random before or after a request is
// obeyed: every increment counts once.
func TestKVIncrementsUnderLoss(t *testing.T) {
	const writers, each = 8, 50
	s, state, n := space(t)
	var lost atomic.Int32
	losing(s, func(h protocol.Header) (before, after bool) {
		if h.Command != protocol.KVIncr {
			return false, false
		}
		before, after = rand.IntN(20) == 0, rand.IntN(20) == 0
		if before || after {
			lost.Add(1)
		}
		return before && !after, after
	})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if _, err := n.Incr(t.Context(), "sum", 1); err != nil && !SafeToRetry(err) {
					t.Error(err)
				} else if err != nil {
					t.Error("not sent", err)
				}
			}
		})
	}
	wg.Wait()
	require.NotZero(t, lost.Load(), "connections were lost")
	e, _ := state.Get([]byte("n"), []byte("sum"))
	require.Equal(t, fmt.Sprint(writers*each), string(e.Value.Data))
	require.EqualValues(t, writers*each, e.Version)
}

func TestTokensDiffer(t *testing.T) {
	a, b := newTokenSource(), newTokenSource()
	seen := map[string]bool{}
	for range 100 {
		for _, source := range []*tokenSource{a, b} {
			token := source.next()
			require.NoError(t, kv.CheckToken(token))
			require.False(t, seen[token])
			seen[token] = true
		}
	}
}

// Nothing is sent that the store would refuse, and the text says what is wrong.
func TestKVBadRequestsAreNotSent(t *testing.T) {
	s, _, n := space(t)
	ctx := t.Context()
	lease, err := n.Lease(ctx, time.Minute)
	require.NoError(t, err)
	before := len(s.requests(protocol.KVPut))
	for name, c := range map[string]struct {
		call func() error
		code codes.Code
		says string
	}{
		"empty key":       {func() error { _, err := n.PutInt(ctx, "", 1); return err }, codes.BadKey, "key is empty"},
		"long key":        {func() error { _, err := n.Delete(ctx, strings.Repeat("k", 1025)); return err }, codes.NameTooLong, "1024"},
		"empty namespace": {func() error { _, err := n.c.KV("").PutInt(ctx, "k", 1); return err }, codes.BadKey, "namespace"},
		"long value":      {func() error { _, err := n.PutBytes(ctx, "k", make([]byte, kv.MaxValue+1)); return err }, codes.TooLarge, "1048576"},
		"negative ttl":    {func() error { _, err := n.PutInt(ctx, "k", 1, WithTTL(-1)); return err }, codes.BadTTL, "is not a time to live"},
		"two times": {func() error {
			_, err := n.PutInt(ctx, "k", 1, WithTTL(time.Second), WithExpires(time.Now()))
			return err
		}, codes.BadTTL, "exclude"},
		"not an int":       {func() error { _, err := n.Put(ctx, "k", kv.Value{Type: kv.Int, Data: []byte("x")}); return err }, codes.BadValue, "int"},
		"not JSON":         {func() error { _, err := n.PutJSON(ctx, "k", func() {}); return err }, codes.BadRequest, "func()"},
		"ttl of a delete":  {func() error { _, err := n.Delete(ctx, "k", WithTTL(time.Second)); return err }, codes.BadRequest, "time to live"},
		"lease of a drop":  {func() error { _, err := n.Drop(ctx, WithLease(lease)); return err }, codes.BadRequest, "lease"},
		"bounds of a put":  {func() error { _, err := n.PutInt(ctx, "k", 1, WithMax(3)); return err }, codes.BadRequest, "bounds"},
		"no prefix":        {func() error { _, err := n.DeletePrefix(ctx, ""); return err }, codes.Unconfirmed, "call Drop"},
		"no prefix in txn": {func() error { _, err := n.Txn().PutInt("k", 1).DeletePrefix("").Commit(ctx); return err }, codes.Unconfirmed, "call Drop"},
		"no confirmation":  {func() error { _, err := n.Batch(ctx, kv.Op{Kind: kv.OpDeletePrefix}); return err }, codes.Unconfirmed, "as confirm"},
		"prev of a drop":   {func() error { _, err := n.DeletePrefix(ctx, "k", WithPrev()); return err }, codes.BadRequest, "what was there"},
		"if of a drop":     {func() error { _, err := n.DeletePrefix(ctx, "k", IfAbsent()); return err }, codes.BadRequest, "condition"},
		"min above max":    {func() error { _, err := n.Incr(ctx, "k", 1, WithMin(3), WithMax(2)); return err }, codes.BadRequest, "min"},
		"two ifs":          {func() error { _, err := n.Restore(ctx, "k", 1, IfMod(1), IfMod(2)); return err }, codes.BadRequest, "one condition"},
		"long token":       {func() error { _, err := n.PutInt(ctx, "k", 1, WithToken(strings.Repeat("t", 129))); return err }, codes.NameTooLong, "token"},
		"short lease":      {func() error { _, err := n.Lease(ctx, time.Millisecond); return err }, codes.BadTTL, "100ms"},
		"lock without key": {func() error { _, err := n.Lock(ctx, "", time.Second); return err }, codes.BadKey, "key"},
		"key and prefix":   {func() error { _, err := n.Watch(ctx, WatchOptions{Key: "a", Prefix: "b"}); return err }, codes.BadRequest, "prefix"},
		"from and state":   {func() error { _, err := n.Watch(ctx, WatchOptions{From: 1, State: true}); return err }, codes.BadRequest, "state"},
		"token in a txn":   {func() error { _, err := n.Txn().Put("k", kv.IntValue(1), WithToken("t")).Commit(ctx); return err }, codes.BadRequest, "Commit"},
		"ttl at commit":    {func() error { _, err := n.Txn().PutInt("k", 1).Commit(ctx, WithTTL(time.Second)); return err }, codes.BadRequest, "Commit"},
		"ttl of a get":     {func() error { _, err := n.Txn().Delete("k", WithTTL(time.Second)).Commit(ctx); return err }, codes.BadRequest, "time to live"},
		"cache of nothing": {func() error { _, err := n.c.KV("").Cache(ctx); return err }, codes.BadKey, "namespace"},
	} {
		err := c.call()
		require.Equal(t, c.code, codes.Of(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
	}
	require.Len(t, s.requests(protocol.KVPut), before)
	for _, cmd := range []protocol.Command{protocol.KVDel, protocol.KVDelPrefix, protocol.KVIncr, protocol.KVRestore, protocol.KVTxn, protocol.KVWatch, protocol.KVLock} {
		require.Empty(t, s.requests(cmd), cmd)
	}
}

// What is not an answer of the protocol is told as such, and not taken for success.
func TestKVAnswersThatMakeNoSense(t *testing.T) {
	s, _, n := space(t)
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
			if h.Command >= protocol.KVGet {
				c.reply(h, []byte(`{"code":0}`))
			}
			return h.Command >= protocol.KVGet
		}
	})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"get":   func() error { _, err := n.Get(ctx, "k"); return err },
		"mget":  func() error { _, err := n.GetMany(ctx, "k"); return err },
		"put":   func() error { _, err := n.PutInt(ctx, "k", 1); return err },
		"incr":  func() error { _, err := n.Incr(ctx, "k", 1); return err },
		"txn":   func() error { _, err := n.Txn().PutInt("k", 1).Commit(ctx); return err },
		"list":  func() error { _, err := n.List(ctx, kv.List{}); return err },
		"lease": func() error { _, err := n.Lease(ctx, time.Minute); return err },
		"watch": func() error { _, err := n.Watch(ctx, WatchOptions{}); return err },
	} {
		err := call()
		require.Error(t, err, name)
		require.Equal(t, codes.Internal, codes.Of(err), "%s: %v", name, err)
		var r *connection.Error
		require.True(t, errors.As(err, &r), name)
	}
}

// With Config.StateWaits what is asked while no server answers waits for one, as long
// as its context lasts and longer than a request may take.
func TestStateCallsWaitUntilConnected(t *testing.T) {
	s := newFakeServer(t, nil)
	stateful(t, s, memory.Config{})
	cfg := quick(s)
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg.StateWaits, cfg.Clock = true, fake
	n := dialWith(t, cfg).KV("n")
	calls := map[string]func(ctx context.Context) error{
		"get":        func(ctx context.Context) error { _, err := n.GetInt(ctx, "k", 0); return err },
		"namespaces": func(ctx context.Context) error { _, err := n.c.Namespaces(ctx); return err },
		"put":        func(ctx context.Context) error { _, err := n.PutInt(ctx, "k", 1); return err },
		"put once":   func(ctx context.Context) error { _, err := n.PutInt(ctx, "k", 1, WithToken("")); return err },
		"watch":      func(ctx context.Context) error { _, err := n.Watch(ctx, WatchOptions{}); return err },
		"cache":      func(ctx context.Context) error { _, err := n.Cache(ctx); return err },
		"lease":      func(ctx context.Context) error { _, err := n.Lease(ctx, time.Minute); return err },
		"lock":       func(ctx context.Context) error { _, err := n.Lock(ctx, "lock", time.Minute); return err },
		"try":        func(ctx context.Context) error { _, err := n.TryLock(ctx, "other", time.Minute); return err },
	}
	s.stop()
	eventually(t, func() bool {
		fake.Advance(cfg.MaxBackoff)
		_, err := n.c.state()
		return err != nil
	}, "a round of attempts has failed")
	type result struct {
		name string
		err  error
	}
	short, results := make(chan result), make(chan result, len(calls))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for name, call := range calls {
		go func() { short <- result{name, call(ctx)} }()
		go func() { results <- result{name, call(t.Context())} }()
	}
	for range calls {
		r := <-short
		require.ErrorIs(t, r.err, context.DeadlineExceeded, r.name)
		require.ErrorIs(t, r.err, codes.Timeout, r.name)
		require.True(t, SafeToRetry(r.err), r.name)
	}
	fake.Advance(time.Hour)
	_, err := n.c.Get(t.Context(), "a.json")
	require.ErrorIs(t, err, ErrUnreachable, "configs do not wait")
	require.Empty(t, results, "they wait")
	s.restart()
	eventually(t, func() bool {
		fake.Advance(cfg.MaxBackoff)
		return len(results) == len(calls)
	}, "all are answered")
	for range calls {
		r := <-results
		require.NoError(t, r.err, r.name)
	}
}
