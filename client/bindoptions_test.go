package client

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

type pool struct {
	Size int    `json:"size"`
	User string `json:"user"`
}

// service has every shape a default can have.
type service struct {
	Title string          `json:"title"`
	Pool  pool            `json:"pool"`
	Spare *pool           `json:"spare"`
	Pools []pool          `json:"pools"`
	By    map[string]pool `json:"by"`
	Raw   json.RawMessage `json:"raw"`
	named

	hidden []int
}

type named struct {
	Names []string `json:"names"`
}

func (s *service) check() error {
	if s.Pool.Size < 1 {
		return errors.New("pool.size must be positive")
	}
	return nil
}

func serviceDefaults() service {
	return service{
		Title: "none", Pool: pool{1, "ann"}, Spare: &pool{2, "bob"}, Pools: []pool{{3, "cy"}, {4, "di"}},
		By: map[string]pool{"a": {5, "ed"}}, Raw: json.RawMessage(`{"a":1}`), named: named{Names: []string{"x"}}, hidden: []int{6},
	}
}

func TestBindMergesOverDefaults(t *testing.T) {
	for text, change := range map[string]func(want *service){
		`{}`:                                  func(*service) {},
		`{"title":"t","pool":{"size":9}}`:     func(want *service) { want.Title, want.Pool.Size = "t", 9 },
		`{"spare":{"user":"eve"}}`:            func(want *service) { want.Spare.User = "eve" },
		`{"spare":null}`:                      func(want *service) { want.Spare = nil },
		`{"pools":[{"size":7}]}`:              func(want *service) { want.Pools = []pool{{7, ""}} },
		`{"pools":[],"names":["y","z"]}`:      func(want *service) { want.Pools, want.Names = []pool{}, []string{"y", "z"} },
		`{"by":{"b":{"size":1}},"raw":[1.0]}`: func(want *service) { want.By["b"], want.Raw = pool{1, ""}, json.RawMessage(`[1.0]`) },
	} {
		s := newFakeServer(t, map[string]string{"a.json": text})
		h, err := BindWith(t.Context(), dial(t, s), Query{Name: "a.json"}, BindOptions[service]{Defaults: serviceDefaults})
		require.NoError(t, err)
		want := serviceDefaults()
		change(&want)
		require.Equal(t, want, *h.Load(), text)
	}
}

// What one document has set, the next one does not inherit.
func TestBindBeginsWithDefaultsEachTime(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"title":"t","pool":{"user":"eve"}}`})
	h, err := BindWith(t.Context(), dial(t, s), Query{Name: "a.json"}, BindOptions[service]{Defaults: serviceDefaults, Optional: true})
	require.NoError(t, err)
	now := make(chan *service, 10)
	h.OnChange(func(v *service) { now <- v })
	s.set("a.json", `{"pool":{"size":2}}`)
	require.Equal(t, pool{2, "ann"}, (<-now).Pool)
	s.set("a.json", ``)
	require.Equal(t, serviceDefaults(), *<-now, "without the document")
	require.NoError(t, h.Err())
	s.set("a.json", `{"title":"back"}`)
	require.Equal(t, "back", (<-now).Title)
}

func TestBindOfAnOptionalDocument(t *testing.T) {
	s := newFakeServer(t, nil)
	c := dial(t, s)
	h, err := BindWith(t.Context(), c, Query{Name: "a.json"}, BindOptions[service]{Optional: true})
	require.NoError(t, err)
	require.Equal(t, service{}, *h.Load())
	_, err = BindWith(t.Context(), c, Query{Name: "a.json"}, BindOptions[service]{Defaults: serviceDefaults})
	require.ErrorIs(t, err, codes.NotFound)
	_, err = BindWith(t.Context(), c, Query{Name: "a.json"}, BindOptions[service]{Optional: true, Validate: (*service).check})
	require.ErrorContains(t, err, "pool.size", "defaults must be valid, too")
}

func TestBindStrictRefusesUnknownMembers(t *testing.T) {
	s := newFakeServer(t, map[string]string{
		"a.json": `{"pool":{"sise":"hunter2"}}`, "type.json": `{"pool":{"size":"hunter2"}}`, "good.json": `{"pool":{"size":1}}`,
	})
	c := dial(t, s)
	_, err := Bind[service](t.Context(), c, Query{Name: "a.json"})
	require.NoError(t, err)
	_, err = BindWith(t.Context(), c, Query{Name: "a.json"}, BindOptions[service]{Strict: true})
	require.ErrorIs(t, err, codes.BadRequest)
	require.ErrorContains(t, err, `unknown member "sise"`)
	require.ErrorContains(t, err, "a.json")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = BindWith(t.Context(), c, Query{Name: "type.json"}, BindOptions[service]{Strict: true})
	require.ErrorContains(t, err, "pool.size: string")
	_, err = BindWith(t.Context(), c, Query{Name: "good.json"}, BindOptions[service]{Strict: true})
	require.NoError(t, err)
}

func TestBindKeepsTheLastValidValue(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"pool":{"size":0}}`})
	var errs collector
	cfg := quick(s)
	cfg.OnError = errs.add
	c := dialWith(t, cfg)
	options := BindOptions[service]{Validate: (*service).check}
	_, err := BindWith(t.Context(), c, Query{Name: "a.json"}, options)
	require.ErrorIs(t, err, codes.BadRequest)
	require.ErrorContains(t, err, "a.json is not valid: pool.size must be positive")

	s.set("a.json", `{"pool":{"size":1}}`)
	h, err := BindWith(t.Context(), c, Query{Name: "a.json"}, options)
	require.NoError(t, err)
	good := h.Load()
	s.set("a.json", `{"pool":{"size":-1}}`)
	eventually(t, func() bool { return errs.has(codes.BadRequest) }, "OnError is told")
	require.ErrorContains(t, h.Err(), "pool.size")
	require.Same(t, good, h.Load())

	_, err = BindWith(t.Context(), c, Query{Name: "a.json"}, BindOptions[service]{Validate: func(*service) error { panic("away") }})
	require.ErrorContains(t, err, "away")
}

func TestOnUpdateGivesTheOldValue(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"port":1}`})
	h, err := Bind[settings](t.Context(), dial(t, s), Query{Name: "a.json"})
	require.NoError(t, err)
	type step struct{ old, now *settings }
	steps, goOn := make(chan step), make(chan struct{})
	h.OnUpdate(func(old, now *settings) { steps <- step{old, now}; <-goOn })
	first := h.Load()
	s.set("a.json", `{"port":2}`)
	one := <-steps
	require.Same(t, first, one.old)
	require.Equal(t, 2, one.now.Port)
	s.set("a.json", `{"port":3}`)
	eventually(t, func() bool { return h.Load().Port == 3 }, "it is skipped")
	s.set("a.json", `{"port":4}`)
	eventually(t, func() bool { return h.Load().Port == 4 }, "the newest")
	goOn <- struct{}{}
	two := <-steps
	require.Same(t, one.now, two.old, "what was told before, not what was skipped")
	require.Equal(t, 4, two.now.Port)
	goOn <- struct{}{}
}
