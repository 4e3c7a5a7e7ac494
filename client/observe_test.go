package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/protocol"
)

// spans is an Observer that remembers.
type spans struct {
	clock clock.Clock

	mu   sync.Mutex
	done []span // guarded by mu
}

type span struct {
	op     string
	parent any
	err    error
}

type spanKey struct{}

func (s *spans) Begin(ctx context.Context, op string) (context.Context, func(error)) {
	parent := ctx.Value(spanKey{})
	return context.WithValue(ctx, spanKey{}, op), func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done = append(s.done, span{op, parent, err})
	}
}

func (s *spans) take() []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := slices.DeleteFunc(s.done, func(s span) bool { return s.parent == nil }) // what a lost Lock gives up later
	s.done = nil
	return done
}

func TestObserverIsToldOfRequests(t *testing.T) {
	s, state, n := space(t)
	seen := &spans{}
	cfg := quick(s)
	cfg.Observer = seen
	c := dialWith(t, cfg)
	n = c.KV(n.Namespace())
	ctx := context.WithValue(t.Context(), spanKey{}, "caller")

	_, err := n.PutInt(ctx, "k", 1)
	require.NoError(t, err)
	_, err = n.PutInt(ctx, "k", 1, IfAbsent())
	require.ErrorIs(t, err, codes.Conflict)
	_, err = n.Incr(ctx, "k", 5, WithMax(2))
	require.ErrorIs(t, err, codes.OutOfBounds)
	require.Equal(t, []span{{"KVPUT", "caller", nil}, {"KVPUT", "caller", codes.Conflict}, {"KVINCR", "caller", codes.OutOfBounds}}, seen.take())

	l, err := n.Lock(ctx, "lock", lockTime)
	require.NoError(t, err)
	require.Equal(t, []span{{"KVLEASE", "KVLOCK", nil}, {"KVLOCK", "caller", nil}}, seen.take())
	_, err = n.TryLock(ctx, "lock", lockTime)
	require.ErrorIs(t, err, codes.Locked)
	require.True(t, slices.ContainsFunc(seen.take(), func(s span) bool { return s.op == "KVLOCK" && errors.Is(s.err, codes.Locked) }))
	require.NoError(t, l.Unlock(ctx))
	state.put(t, "k", 2)
	seen.take()

	_, err = c.Get(ctx, "a.json")
	require.ErrorIs(t, err, codes.NotFound)
	_, err = c.Set(ctx, SetRequest{Name: "a.json", Contents: []byte(`{}`)})
	require.NoError(t, err)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.List(gone)
	require.ErrorIs(t, err, context.Canceled)
	done := seen.take()
	require.Len(t, done, 3)
	require.Equal(t, span{"SETCONFIG", "caller", nil}, done[1])
	require.Equal(t, "GETCFGNAME", done[2].op)
	require.ErrorIs(t, done[2].err, context.Canceled)
}

// A log may be read by many: nothing of what is kept is in it.
func TestLoggerNamesNeitherKeysNorValues(t *testing.T) {
	s, _, n := space(t)
	var out bytes.Buffer
	cfg := quick(s)
	cfg.Logger = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := dialWith(t, cfg)
	n = c.KV("space-secret")
	_, err := n.PutString(t.Context(), "key-secret", "value-secret")
	require.NoError(t, err)
	_, err = n.GetInt(t.Context(), "key-secret", 0)
	require.ErrorIs(t, err, codes.WrongType)
	_, err = n.Incr(t.Context(), "key-secret", 1)
	require.ErrorIs(t, err, codes.WrongType)
	_, err = n.PutString(t.Context(), "key-secret", "value-secret", WithPrev())
	require.NoError(t, err)
	require.NoError(t, c.Close())

	text := out.String()
	require.NotContains(t, text, "secret")
	for _, part := range []string{`"connecting"`, `"connected"`, `"op":"KVPUT"`, `"op":"KVINCR"`, `"failed":"` + codes.WrongType.Name() + `"`, s.addr} {
		require.Contains(t, text, part)
	}
}

// transitions collects what OnState is told.
type transitions chan StateChange

func (tr transitions) want(t *testing.T, state State, addr string) StateChange {
	t.Helper()
	select {
	case got := <-tr:
		require.Equal(t, state.String(), got.State.String())
		require.Equal(t, addr, got.Addr)
		require.Equal(t, state == StateDisconnected, got.Err != nil)
		return got
	case <-time.After(patience):
		require.FailNow(t, "no change came", "want %v", state)
		return StateChange{}
	}
}

func TestOnStateFollowsTheConnection(t *testing.T) {
	s := newFakeServer(t, nil)
	told := make(transitions, 1000)
	cfg := quick(s)
	cfg.OnState = func(change StateChange) { told <- change }
	cfg.MinBackoff, cfg.MaxBackoff = time.Millisecond, time.Millisecond
	c := dialWith(t, cfg)
	told.want(t, StateConnecting, s.addr)
	told.want(t, StateConnected, s.addr)
	s.drop()
	require.ErrorIs(t, told.want(t, StateDisconnected, s.addr).Err, ErrUnreachable)
	told.want(t, StateConnecting, s.addr)
	told.want(t, StateConnected, s.addr)
	s.stop()
	told.want(t, StateDisconnected, s.addr)
	told.want(t, StateConnecting, s.addr)
	told.want(t, StateDisconnected, s.addr)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	for change := range told {
		if change.State == StateClosed {
			break
		}
	}
	require.Empty(t, told, "the end is told once and last")
}

func TestStateNames(t *testing.T) {
	require.Equal(t, "State(9)", State(9).String())
	require.Equal(t, []string{"connecting", "connected", "disconnected", "closed"},
		[]string{StateConnecting.String(), StateConnected.String(), StateDisconnected.String(), StateClosed.String()})
}

func TestWaitConnected(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{}`})
	cfg := quick(s)
	cfg.CacheDir = t.TempDir()
	c := dialWith(t, cfg)
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.NoError(t, c.WaitConnected(t.Context()))
	require.NoError(t, c.Close())
	s.stop()

	c = dialWith(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.WaitConnected(ctx), context.DeadlineExceeded)
	waits := make(chan error, 1)
	go func() { waits <- c.WaitConnected(t.Context()) }()
	s.restart()
	require.NoError(t, <-waits)
	require.True(t, c.Connected())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.WaitConnected(t.Context()), ErrClosed)
}

// outcome looks at replies from anywhere.
func TestOutcome(t *testing.T) {
	for body, want := range map[string]error{
		``: nil, `2`: nil, `{}`: nil, `{"code":`: nil, `{"code":0,"desc":"x"}`: nil, `{"code":0.5}`: nil, `{"code":"x"}`: nil,
		`{"code":409,"desc":"older"}`: codes.Older, string(protocol.UpToDate): nil,
	} {
		require.Equal(t, want, outcome([]byte(body), nil), body)
	}
	require.Equal(t, ErrClosed, outcome([]byte(`{"code":409}`), ErrClosed))
}
