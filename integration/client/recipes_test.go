package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/kv"
)

// The code of docs/go.md comes first, word for word; below is what tests it.

type Settings struct {
	Listen  string   `json:"listen"`
	Workers int      `json:"workers"`
	Peers   []string `json:"peers"`
}

func defaultSettings() Settings { return Settings{Listen: ":8080", Workers: 4} }

func (s *Settings) Validate() error {
	if s.Workers < 1 {
		return errors.New("workers must be at least 1")
	}
	return nil
}

func bindSettings(ctx context.Context, c *client.Client) (*client.Handle[Settings], error) {
	return client.BindWith(ctx, c, client.Query{Merged: true}, client.BindOptions[Settings]{
		Defaults: defaultSettings,
		Strict:   true,
		Validate: (*Settings).Validate,
	})
}

func startWorkers(settings *client.Handle[Settings], resize func(from, to int)) {
	settings.OnUpdate(func(old, now *Settings) {
		if old.Workers != now.Workers {
			resize(old.Workers, now.Workers)
		}
	})
	resize(0, settings.Load().Workers)
}

type Plan struct {
	Steps []string `json:"steps"`
}

func savePlan(ctx context.Context, s *client.KV, plan Plan) error {
	_, err := client.Put(ctx, s, "plan", plan)
	return err
}

func limit(ctx context.Context, s *client.KV) (int, error) {
	n, _, err := client.Get[int](ctx, s, "limit")
	if errors.Is(err, codes.NotFound) {
		return 10, nil
	}
	return n, err
}

func addStep(ctx context.Context, s *client.KV, step string) error {
	for {
		plan, rev, err := client.Get[Plan](ctx, s, "plan")
		if err != nil && !errors.Is(err, codes.NotFound) {
			return err
		}
		plan.Steps = append(plan.Steps, step)
		_, err = client.Put(ctx, s, "plan", plan, client.IfMod(rev))
		if !errors.Is(err, codes.Conflict) {
			return err
		}
	}
}

func lead(ctx context.Context, c *client.Client, work func(ctx context.Context, l *client.Lock) error) error {
	for {
		if err := c.WaitConnected(ctx); err != nil {
			return err
		}
		err := c.KV("jobs").WithLock(ctx, "leader", 10*time.Second, work)
		if !errors.Is(err, codes.FenceLost) && !errors.Is(err, client.ErrUnreachable) {
			return err
		}
	}
}

func publish(ctx context.Context, s *client.KV, l *client.Lock, report string) error {
	_, err := client.Put(ctx, s, "report", report, client.WithFence(l))
	return err
}

// Tasks is a copy of the keys under task/ at a revision.
type Tasks struct {
	At    kv.Revision
	Epoch string
	Text  map[string]string
}

func (t *Tasks) Follow(ctx context.Context, s *client.KV, save func(*Tasks) error) error {
	w, err := s.Watch(ctx, client.WatchOptions{Prefix: "task/", From: t.At, Epoch: t.Epoch, State: t.At == 0})
	if err != nil {
		return err
	}
	defer w.Stop()
	for n, err := range w.Events(ctx) {
		if err != nil {
			return err
		}
		if n.Kind == kv.Resync { // no longer kept, or other data: the state follows
			clear(t.Text)
		}
		for _, e := range n.Events {
			if e.Kind == kv.Put {
				t.Text[e.Entry.Key] = string(e.Entry.Value.Data)
			} else { // deleted, or its time has come
				delete(t.Text, e.Entry.Key)
			}
		}
		complete := n.Kind == kv.Synced || (n.Kind == kv.Changed && !n.More)
		if !complete {
			continue
		}
		t.At, t.Epoch = n.Revision, w.Epoch()
		if err := save(t); err != nil {
			return err
		}
	}
	return nil
}

// Rules is what the files below rules/ have, merged over what they inherit, at a revision.
type Rules struct {
	At    kv.Revision
	Epoch string
	Text  map[string]string
}

func (r *Rules) Follow(ctx context.Context, c *client.Client, tell func(name string, change client.PathChange), save func(*Rules) error) error {
	w, err := c.WatchDocuments(ctx, client.DocumentWatchOptions{
		Prefix: "rules/", Merged: true,
		From: r.At, Epoch: r.Epoch, State: r.At == 0,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for n, err := range w.Notices(ctx) {
		if err != nil {
			return err
		}
		if n.Kind == kv.Resync { // no longer kept, or other data: the contents follow
			clear(r.Text)
		}
		for _, d := range n.Changes {
			if d.Contents == nil {
				delete(r.Text, d.Name)
			} else {
				r.Text[d.Name] = string(d.Contents)
			}
			if n.Kind != kv.Changed {
				continue
			}
			paths, err := d.Paths()
			if err != nil {
				return err
			}
			for _, change := range paths {
				tell(d.Name, change)
			}
		}
		complete := n.Kind == kv.Synced || n.Kind == kv.Changed
		if !complete {
			continue
		}
		r.At, r.Epoch = n.Revision, n.Epoch
		if err := save(r); err != nil {
			return err
		}
	}
	return nil
}

type Limits struct{ cache *client.KVCache }

func openLimits(ctx context.Context, c *client.Client) (Limits, error) {
	cache, err := c.KV("limits").Cache(ctx)
	return Limits{cache}, err
}

func (l Limits) Allow(user string, used int64) bool {
	return used < l.cache.GetInt(user, 100)
}

func start(ctx context.Context, addrs []string, dir string) (*client.Client, *client.Handle[Settings], error) {
	c, err := client.Dial(ctx, client.Config{Addrs: addrs, Name: "app1", CacheDir: dir})
	if err != nil {
		return nil, nil, err
	}
	settings, err := bindSettings(ctx, c)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	if doc := settings.Document(); doc.Stale() {
		log.Printf("no server answers; the settings are %v old", doc.Age().Round(time.Second))
	}
	return c, settings, nil
}

func TestSettingsSurviveAnOutage(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{Files: map[string]string{
		"_meta.json": `{"app_profile": {"default": {"app1": "app1.json"}}}`,
		"app1.json":  `{"workers": 2}`,
	}})
	dir := t.TempDir()
	c, _, err := start(t.Context(), []string{srv.Address()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()

	srv.Stop()
	c, settings, err := start(t.Context(), []string{srv.Address()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := settings.Load().Workers; got != 2 {
		t.Errorf("%d workers while no server answers, want 2", got)
	}

	changed := make(chan int, 1)
	settings.OnChange(func(s *Settings) { changed <- s.Workers })
	srv.Write("app1.json", `{"workers": 3}`)
	srv.Restart()
	if got := <-changed; got != 3 {
		t.Errorf("%d workers afterwards, want 3", got)
	}
}

type metrics struct{ took *prometheus.HistogramVec }

func (m metrics) Begin(ctx context.Context, op string) (context.Context, func(error)) {
	began := time.Now()
	return ctx, func(err error) {
		outcome := "ok"
		if err != nil {
			outcome = codes.Of(err).Name()
		}
		m.took.WithLabelValues(op, outcome).Observe(time.Since(began).Seconds())
	}
}

type spans struct{}

func (spans) Begin(ctx context.Context, op string) (context.Context, func(error)) {
	ctx, span := otel.Tracer("confcenter").Start(ctx, op)
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
		}
		span.End()
	}
}

func dialObserved(ctx context.Context, addrs []string, registry *prometheus.Registry) (*client.Client, error) {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "confcenter_request_seconds"}, []string{"op", "outcome"})
	connected := prometheus.NewGauge(prometheus.GaugeOpts{Name: "confcenter_connected"})
	registry.MustRegister(took, connected)
	return client.Dial(ctx, client.Config{
		Addrs:    addrs,
		Name:     "app1",
		Observer: metrics{took},
		Logger:   slog.Default().With("component", "confcenter"),
		OnState: func(change client.StateChange) {
			connected.Set(0)
			if change.State == client.StateConnected {
				connected.Set(1)
			}
		},
	})
}

// otel stands in for the library of that name, which this module does not use.
var otel tracing

type tracing struct{}

func (tracing) Tracer(string) tracing { return tracing{} }

func (tracing) Start(ctx context.Context, _ string) (context.Context, *otelSpan) {
	return ctx, ctx.Value(otelKey{}).(*otelSpan)
}

type otelKey struct{}

type otelSpan struct {
	errs  []error
	ended bool
}

func (s *otelSpan) RecordError(err error) { s.errs = append(s.errs, err) }
func (s *otelSpan) End()                  { s.ended = true }

func TestCodeOfThePageIsWhatRunsHere(t *testing.T) {
	for page, from := range map[string]struct {
		file   string
		blocks int
	}{"go.md": {"recipes_test.go", 11}, "storage.md": {"storagewatch_test.go", 1}} {
		here, err := os.ReadFile(from.file)
		require.NoError(t, err)
		for _, file := range []string{"docs/" + page, "docs/zh/" + page} {
			text, err := os.ReadFile("../../" + file)
			require.NoError(t, err)
			if page == "go.md" {
				require.Equal(t, 11, strings.Count(string(text), "\n## "))
			}
			blocks := strings.Split(string(text), "```go\n")[1:]
			require.GreaterOrEqual(t, len(blocks), from.blocks)
			for _, block := range blocks {
				code, _, closed := strings.Cut(block, "```")
				require.True(t, closed)
				require.True(t, strings.Contains(string(here), "\n"+code), "in %s, and not here:\n%s", file, code)
			}
		}
	}
}

func TestRecipesOfSettings(t *testing.T) {
	srv, c := real(t, clienttest.Options{Files: map[string]string{
		"_meta.json": `{"app_profile": {"default": {"app1": "app1.json"}}}`,
		"app1.json":  `{"peers": ["a"]}`,
	}})
	settings, err := bindSettings(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, Settings{":8080", 4, []string{"a"}}, *settings.Load())
	sizes := make(chan [2]int, 10)
	startWorkers(settings, func(from, to int) { sizes <- [2]int{from, to} })
	require.Equal(t, [2]int{0, 4}, <-sizes)
	for _, bad := range []string{`{"workers": 0}`, `{"workres": 5}`, `{"workers": "5"}`} {
		srv.Write("app1.json", bad)
		eventually(t, func() bool { return settings.Err() != nil }, bad)
		require.ErrorIs(t, settings.Err(), codes.BadRequest)
		srv.Write("app1.json", `{"peers": ["a"]}`)
		eventually(t, func() bool { return settings.Err() == nil }, "healed")
	}
	srv.Write("app1.json", `{"workers": 6}`)
	require.Equal(t, [2]int{4, 6}, <-sizes)
	require.Empty(t, sizes)
}

func TestRecipesOfState(t *testing.T) {
	_, c := real(t, clienttest.Options{})
	s, ctx := c.KV("jobs"), t.Context()
	n, err := limit(ctx, s)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	_, err = client.Put(ctx, s, "limit", 5)
	require.NoError(t, err)
	n, err = limit(ctx, s)
	require.NoError(t, err)
	require.Equal(t, 5, n)

	const writers = 8
	done := make(chan error)
	for range writers {
		go func() { done <- addStep(ctx, s, "step") }()
	}
	for range writers {
		require.NoError(t, <-done)
	}
	plan, _, err := client.Get[Plan](ctx, s, "plan")
	require.NoError(t, err)
	require.Len(t, plan.Steps, writers)
	require.NoError(t, savePlan(ctx, s, Plan{}))
}

func TestRecipeOfALeader(t *testing.T) {
	srv, c := real(t, clienttest.Options{})
	s := c.KV("jobs")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	terms := 0
	var first *client.Lock
	err := lead(ctx, c, func(ctx context.Context, l *client.Lock) error {
		terms++
		if terms > 1 {
			require.ErrorIs(t, publish(ctx, s, first, "late"), codes.FenceLost)
			return publish(ctx, s, l, "second")
		}
		first = l
		require.NoError(t, publish(ctx, s, l, "first"))
		srv.Cut() // it leads on
		_, err := insisting(func() (client.Written, error) { return s.Delete(t.Context(), "leader") })
		require.NoError(t, err)
		<-ctx.Done()
		return ctx.Err()
	})
	require.NoError(t, err)
	report, err := s.GetString(t.Context(), "report", "")
	require.NoError(t, err)
	require.Equal(t, "second", report)
}

func TestRecipeOfAWatch(t *testing.T) {
	_, c := real(t, clienttest.Options{})
	s := c.KV("jobs")
	put := func(key, text string) {
		_, err := client.Put(t.Context(), s, key, text)
		require.NoError(t, err)
	}
	put("task/1", "build")
	put("other", "x")
	tasks := &Tasks{Text: map[string]string{}}
	enough := errors.New("enough")
	until := func(want map[string]string) {
		t.Helper()
		err := tasks.Follow(t.Context(), s, func(tasks *Tasks) error {
			require.NotZero(t, tasks.At)
			if maps.Equal(tasks.Text, want) {
				return enough
			}
			return nil
		})
		require.ErrorIs(t, err, enough)
	}
	until(map[string]string{"task/1": "build"})
	before := tasks.At
	put("task/2", "ship")
	_, err := s.Delete(t.Context(), "task/1")
	require.NoError(t, err)
	put("task/3", "rest")
	until(map[string]string{"task/2": "ship", "task/3": "rest"}) // from where it stood
	require.Greater(t, tasks.At, before)
	_, err = s.Delete(t.Context(), "task/2")
	require.NoError(t, err)
	until(map[string]string{"task/3": "rest"})
	tasks.At = 1 << 40
	require.ErrorIs(t, tasks.Follow(t.Context(), s, nil), codes.FutureRevision)
}

func TestRecipeOfDocuments(t *testing.T) {
	srv, c := real(t, clienttest.Options{Files: map[string]string{
		"_meta.json":   `{"conf_inherit": {"rules/a.json": "base.json", "rules/b.json": "base.json"}}`,
		"base.json":    `{"limit": 1}`,
		"rules/a.json": `{}`,
		"rules/b.json": `{"limit": 5}`,
	}})
	set := func(name, contents string) {
		t.Helper()
		_, err := insisting(func() (client.SetResult, error) {
			return c.Set(t.Context(), client.SetRequest{Name: name, Contents: []byte(contents)})
		})
		require.NoError(t, err)
	}
	rules := &Rules{Text: map[string]string{}}
	enough := errors.New("enough")
	until := func(want map[string]string, told ...string) {
		t.Helper()
		var changes []string
		err := rules.Follow(t.Context(), c, func(name string, c client.PathChange) {
			changes = append(changes, fmt.Sprintf("%s%s %s to %s", name, c.Path, c.Old, c.New))
		}, func(rules *Rules) error {
			require.NotZero(t, rules.At)
			if maps.Equal(rules.Text, want) {
				return enough
			}
			return nil
		})
		require.ErrorIs(t, err, enough)
		require.Equal(t, told, changes)
	}
	until(map[string]string{"rules/a.json": `{"limit":1}`, "rules/b.json": `{"limit":5}`})
	set("base.json", `{"limit": 2}`)
	set("other.json", `1`)
	set("rules/b.json", `{"limit": 6, "x": [1]}`)
	srv.Restart()
	require.NoError(t, c.WaitConnected(t.Context()))
	until(map[string]string{"rules/a.json": `{"limit":2}`, "rules/b.json": `{"limit":6,"x":[1]}`},
		"rules/a.json/limit 1 to 2", "rules/b.json/limit 5 to 6", "rules/b.json/x  to [1]")

	epoch := rules.Epoch
	srv.Stop()
	require.NoError(t, os.RemoveAll(srv.DataDir))
	srv.Write("rules/c.json", `{}`)
	srv.Remove("rules/b.json")
	srv.Restart()
	eventually(t, func() bool { return c.Connected() && c.Epoch() != epoch }, "the server has other data")
	until(map[string]string{"rules/a.json": `{"limit":2}`, "rules/b.json": `{"limit":2}`, "rules/c.json": `{}`})
	rules.At = 1 << 40
	require.ErrorIs(t, rules.Follow(t.Context(), c, nil, nil), codes.FutureRevision)
}

func TestRecipeOfANearCache(t *testing.T) {
	_, c := real(t, clienttest.Options{})
	limits, err := openLimits(t.Context(), c)
	require.NoError(t, err)
	require.True(t, limits.Allow("ann", 99))
	require.False(t, limits.Allow("ann", 100))
	_, err = client.Put(t.Context(), c.KV("limits"), "ann", 1000)
	require.NoError(t, err)
	eventually(t, func() bool { return limits.Allow("ann", 100) }, "it follows")
}

func TestRecipeOfMetricsAndTraces(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{})
	registry := prometheus.NewPedanticRegistry()
	c, err := dialObserved(t.Context(), []string{srv.Address()}, registry)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.KV("n").Incr(t.Context(), "k", 1)
	require.NoError(t, err)
	_, err = c.KV("n").Incr(t.Context(), "k", 1, client.WithMax(1))
	require.ErrorIs(t, err, codes.OutOfBounds)
	gathered := func() string {
		families, err := registry.Gather()
		require.NoError(t, err)
		var text strings.Builder
		for _, family := range families {
			text.WriteString(family.String())
		}
		return text.String()
	}
	text := gathered()
	for _, part := range []string{"KVINCR", codes.OutOfBounds.Name(), "ok", "confcenter_request_seconds", "confcenter_connected"} {
		require.Contains(t, text, part)
	}

	span := &otelSpan{}
	_, end := spans{}.Begin(context.WithValue(t.Context(), otelKey{}, span), "KVPUT")
	require.False(t, span.ended)
	end(codes.Conflict)
	require.True(t, span.ended)
	require.Equal(t, []error{codes.Conflict}, span.errs)
}
