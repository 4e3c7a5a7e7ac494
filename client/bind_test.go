package client

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// settings is what a program would bind.
type settings struct {
	Host  string   `json:"host"`
	Port  int      `json:"port"`
	Peers []string `json:"peers"`
}

func TestBindFollows(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"host":"h1","port":1,"more":true}`})
	c := dial(t, s)
	h, err := Bind[settings](t.Context(), c, Query{Name: "a.json"})
	require.NoError(t, err)
	first := h.Load()
	require.Equal(t, settings{Host: "h1", Port: 1}, *first)
	require.NoError(t, h.Err())
	require.Equal(t, "a.json", h.Document().Name)

	changes := make(chan *settings, 10)
	h.OnChange(func(v *settings) { changes <- v })
	s.set("a.json", `{"host":"h2","port":2,"peers":["x"]}`)
	v := <-changes
	require.Equal(t, settings{Host: "h2", Port: 2, Peers: []string{"x"}}, *v)
	require.Same(t, v, h.Load())
	require.Equal(t, settings{Host: "h1", Port: 1}, *first, "a value never changes")

	h.Stop()
	s.set("a.json", `{"host":"h3"}`)
	_, err = c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Equal(t, "h2", h.Load().Host)
	require.Empty(t, changes)
}

// A change that does not decode leaves the last good value, and says so until it
// heals.
func TestBindKeepsTheLastGoodValue(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"port":1}`})
	var errs collector
	cfg := quick(s)
	cfg.OnError = errs.add
	c := dialWith(t, cfg)
	h, err := Bind[settings](t.Context(), c, Query{Name: "a.json"})
	require.NoError(t, err)
	changes := make(chan *settings, 10)
	h.OnChange(func(v *settings) { changes <- v })
	good := h.Load()

	s.set("a.json", `{"port":"one"}`)
	eventually(t, func() bool { return h.Err() != nil }, "the handle knows")
	require.ErrorIs(t, h.Err(), codes.BadRequest)
	require.Same(t, good, h.Load())
	require.Equal(t, `{"port":1}`, string(h.Document().Raw()))
	eventually(t, func() bool { return errs.has(codes.BadRequest) }, "OnError is told")

	s.set("a.json", ``)
	eventually(t, func() bool { return codes.Of(h.Err()) == codes.NotFound }, "deleted")
	require.Same(t, good, h.Load())

	s.set("a.json", `{"port":1}`)
	eventually(t, func() bool { return h.Err() == nil }, "back again")
	require.Same(t, good, h.Load())
	s.set("a.json", `{"port":2}`)
	require.Equal(t, 2, (<-changes).Port)
	require.Empty(t, changes, "only new values are reported")
}

func TestBindFailsWithoutAFirstValue(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"port":"one"}`})
	c := dial(t, s)
	_, err := Bind[settings](t.Context(), c, Query{Name: "a.json"})
	require.ErrorIs(t, err, codes.BadRequest)
	_, err = Bind[settings](t.Context(), c, Query{Name: "x.json"})
	require.ErrorIs(t, err, codes.NotFound)
	_, err = Bind[settings](t.Context(), c, Query{})
	require.ErrorIs(t, err, codes.NotFound)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NotContains(t, c.feeds, feedKey{name: "a.json"})
	require.NotContains(t, c.feeds, feedKey{name: "x.json"})
}

// Load follows while a callback hangs, and a part of a document can be bound.
func TestBindDoesNotWaitForCallbacks(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"n":1}`, "b.json": `0`})
	c := dial(t, s)
	hang := make(chan struct{})
	entered := make(chan struct{})
	_, err := c.Watch(t.Context(), Query{Name: "b.json"}, func(*Document) { close(entered); <-hang })
	require.NoError(t, err)
	<-entered
	h, err := Bind[int](t.Context(), c, Query{Name: "a.json", Path: "/n"})
	require.NoError(t, err)
	for i := 2; i < 10; i++ {
		s.set("a.json", `{"n":`+string(rune('0'+i))+`}`)
		eventually(t, func() bool { return *h.Load() == i }, "Load follows")
	}
	close(hang)
}

// Who has configured nothing learns from the log that a change did not arrive.
func TestAChangeThatDoesNotDecodeIsLoggedByDefault(t *testing.T) {
	log, last := make(logged, 10), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	defer slog.SetDefault(last)
	s := newFakeServer(t, map[string]string{"a.json": `{"port":1}`})
	h, err := Bind[settings](t.Context(), dial(t, s), Query{Name: "a.json"})
	require.NoError(t, err)
	s.set("a.json", `{"port":"one"}`)
	require.Regexp(t, `level=WARN msg="confcenter: a change cannot be used" .*last good version.*a\.json`, <-log)
	valid, err := BindWith(t.Context(), dial(t, s), Query{Name: "b.json"}, BindOptions[settings]{Optional: true, Validate: func(v *settings) error {
		if v.Port < 0 {
			return errors.New("negative")
		}
		return nil
	}})
	require.NoError(t, err)
	s.set("b.json", `{"port":-1}`)
	require.Regexp(t, `level=WARN .*negative`, <-log)
	h.Stop()
	valid.Stop()
}
