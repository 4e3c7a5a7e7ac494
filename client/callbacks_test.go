package client

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
)

// A callback that does not return holds up no other, whatever it belongs to.
func TestCallbackThatBlocksHoldsUpNoOther(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`, "b.json": `0`})
	state := stateful(t, s, memory.Config{})
	cfg := quick(s)
	proceed := make(chan struct{})
	var errs collector
	cfg.OnError = errs.add
	c := dialWith(t, cfg)
	entered := make(chan struct{}, 2)
	blocking := func(*Document) { entered <- struct{}{}; <-proceed }
	_, err := c.Watch(t.Context(), Query{Name: "a.json"}, blocking)
	require.NoError(t, err)
	<-entered

	same, _ := watch(t, c, Query{Name: "a.json"})
	same.want(`0`)
	h, err := Bind[int](t.Context(), c, Query{Name: "b.json"})
	require.NoError(t, err)
	values := make(chan int, 10)
	h.OnChange(func(v *int) { values <- *v })
	s.set("b.json", `1`)
	require.Equal(t, 1, <-values)
	cache := cacheOf(t, c.KV("n"))
	keys := make(chan string, 10)
	cache.OnChange(func(key string, _ *kv.Entry) { keys <- key })
	state.put(t, "k", 1)
	require.Equal(t, "k", <-keys)
	s.drop()
	eventually(t, func() bool { return errs.has(ErrUnreachable) }, "OnError is told")
	close(proceed)
}

// The functions of one watch run one at a time, and see states in order.
func TestCallbacksOfAWatchOneAtATime(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`})
	c := dial(t, s)
	var inside, last atomic.Int32
	done := make(chan struct{})
	_, err := c.Watch(t.Context(), Query{Name: "a.json"}, func(d *Document) {
		if inside.Add(1) != 1 {
			t.Error("two calls at once")
		}
		n := int32(d.Int("", -1))
		if n < last.Swap(n) {
			t.Error("back in time")
		}
		inside.Add(-1)
		if n == 200 {
			close(done)
		}
	})
	require.NoError(t, err)
	for i := 1; i <= 200; i++ {
		s.set("a.json", fmt.Sprint(i))
	}
	<-done
}

// A panic ends neither the program nor what the callback belongs to: OnError is told
// of it, with its stack, and the other functions are called.
func TestPanicInACallbackIsToldToOnError(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`})
	state := stateful(t, s, memory.Config{})
	var errs collector
	cfg := quick(s)
	cfg.OnError = errs.add
	c := dialWith(t, cfg)
	st := newStates(t)
	_, err := c.Watch(t.Context(), Query{Name: "a.json"}, func(d *Document) { st.add(d); panic("in Watch") })
	require.NoError(t, err)
	st.want(`0`)
	h, err := Bind[int](t.Context(), c, Query{Name: "a.json"})
	require.NoError(t, err)
	values := make(chan int, 10)
	h.OnChange(func(*int) { panic("in OnChange") })
	h.OnChange(func(v *int) { values <- *v })
	cache := cacheOf(t, c.KV("n"))
	keys := make(chan string, 10)
	cache.OnChange(func(key string, _ *kv.Entry) { keys <- key; panic("in the cache") })

	s.set("a.json", `1`)
	st.want(`1`)
	require.Equal(t, 1, <-values)
	state.commit(t, &kv.Txn{Then: []kv.Op{
		{Kind: kv.OpPut, NS: "n", Key: "x", Value: kv.IntValue(1)}, {Kind: kv.OpPut, NS: "n", Key: "y", Value: kv.IntValue(1)}}})
	require.Equal(t, "x", <-keys)
	require.Equal(t, "y", <-keys)
	for _, text := range []string{"Watch of a.json: panic: in Watch", "OnChange of a.json: panic: in OnChange", "cache of n: panic: in the cache", "callbacks_test.go:"} {
		eventually(t, func() bool { return strings.Contains(errs.text(), text) }, text)
	}
	require.True(t, errs.has(codes.Internal))
}

// logged is a place for a log.
type logged chan string

func (l logged) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A panic of OnError itself is survived and logged, and it is called with the next
// error.
func TestPanicInOnError(t *testing.T) {
	log, last := make(logged, 10), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	defer slog.SetDefault(last)
	s := newFakeServer(t, nil)
	cfg := quick(s)
	told := make(chan error, 10)
	cfg.OnError = func(err error) { told <- err; panic("in OnError") }
	c := dialWith(t, cfg)
	for _, text := range []string{"one", "two"} {
		c.report(fmt.Errorf("%s", text))
		require.EqualError(t, <-told, text)
		require.Contains(t, <-log, "in OnError")
	}
}

type explosive struct{}

func (*explosive) UnmarshalJSON([]byte) error { panic("in UnmarshalJSON") }

func TestPanicWhileDecoding(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"x":1}`})
	_, err := Bind[struct{ X explosive }](t.Context(), dial(t, s), Query{Name: "a.json"})
	require.ErrorIs(t, err, codes.BadRequest)
	require.ErrorContains(t, err, "panic: in UnmarshalJSON")
}

// Close waits for a callback that runs, for a while, and says if that was in vain.
func TestCloseWaitsForACallbackForAWhile(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`})
	for _, blocked := range []bool{false, true} {
		cfg := quick(s)
		if blocked {
			cfg.CloseTimeout = 20 * time.Millisecond
		}
		c := dialWith(t, cfg)
		entered, proceed := make(chan struct{}), make(chan struct{})
		var returned atomic.Bool
		_, err := c.Watch(t.Context(), Query{Name: "a.json"}, func(*Document) {
			close(entered)
			<-proceed
			returned.Store(true)
		})
		require.NoError(t, err)
		<-entered
		if !blocked {
			context.AfterFunc(c.ctx, func() { close(proceed) })
			require.NoError(t, c.Close())
			require.True(t, returned.Load())
			continue
		}
		err = c.Close()
		require.ErrorIs(t, err, codes.Timeout)
		require.ErrorContains(t, err, "callback")
		close(proceed)
		eventually(t, func() bool { return c.Close() == nil }, "it returns")
	}
}

// From a callback, also of another client and however deep, Close waits for no
// callback: it would wait for itself.
func TestCloseFromACallbackDoesNotWaitForIt(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`})
	cfg := quick(s)
	cfg.CloseTimeout = time.Hour
	one, two := dialWith(t, cfg), dialWith(t, cfg)
	var both sync.WaitGroup
	both.Add(2)
	var deep func(c *Client, n int) error
	deep = func(c *Client, n int) error {
		if n == 0 {
			return c.Close()
		}
		return deep(c, n-1)
	}
	done := make(chan error, 2)
	for from, to := range map[*Client]*Client{one: two, two: one} {
		_, err := from.Watch(t.Context(), Query{Name: "a.json"}, func(*Document) {
			both.Done()
			both.Wait()
			done <- deep(to, 500)
		})
		require.NoError(t, err)
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// What a program gives to Bind runs outside the callbacks; it does not hold Close up
// either, and its panics are errors.
func TestCloseWaitsForACheckForAWhile(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`})
	cfg := quick(s)
	cfg.CloseTimeout = 20 * time.Millisecond
	c := dialWith(t, cfg)
	entered, proceed := make(chan struct{}), make(chan struct{})
	_, err := BindWith(t.Context(), c, Query{Name: "a.json"}, BindOptions[int]{Validate: func(v *int) error {
		if *v == 1 {
			close(entered)
			<-proceed
		}
		return nil
	}})
	require.NoError(t, err)
	s.set("a.json", `1`)
	<-entered
	require.ErrorIs(t, c.Close(), codes.Timeout)
	close(proceed)
	eventually(t, func() bool { return c.Close() == nil }, "it returns")

	_, err = BindWith(t.Context(), dial(t, s), Query{Name: "a.json"}, BindOptions[int]{Defaults: func() int { panic("in Defaults") }})
	require.ErrorContains(t, err, "panic: in Defaults")
}
