package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
	"confcenter/server/host"
)

// kit is a Flow in a test.
type kit struct {
	asked   // the model itself, or a server over the wire
	program // what has no command
	t       *testing.T
	bed     *modeltest.Bed
	ctx     context.Context
	by      *access.Actor
	ns      string // of the default scope

	scope string // of tests that use several
}

type (
	model   = flow.Flow
	program struct{ *model }
)

// each runs a test with the model itself, and over the wire.
func each(t *testing.T, test func(k *kit)) {
	modeltest.EachWay(t, host.Config{}, func(t *testing.T, b *modeltest.Bed) { test(newKit(t, b)) })
}

// inside runs a test of what only a program with the model inside it can do.
func inside(t *testing.T, test func(k *kit)) {
	modeltest.Each(t, func(t *testing.T, b *modeltest.Bed) { test(newKit(t, b)) })
}

// wired runs a test of what a client adds.
func wired(t *testing.T, test func(k *kit, c *calls.FlowCalls)) {
	modeltest.Wire(t, host.Config{}, func(t *testing.T, b *modeltest.Bed) {
		k := newKit(t, b)
		test(k, k.asked.(wire).FlowCalls)
	})
}

func newKit(t *testing.T, b *modeltest.Bed) *kit {
	k := &kit{t: t, bed: b, ctx: modeltest.Context(t), by: &access.Actor{Name: "test"}, ns: kv.FlowPrefix + flow.DefaultScope}
	k.use(flow.Open(b.Store, flow.Config{}))
	return k
}

// whoami is how records name who asks.
func (k *kit) whoami() string {
	if k.bed.Wire() {
		return `^"127\.0\.0\.1:\d+@[^@]+@model"$`
	}
	return `^"@test"$`
}

// have goes on with another Flow in this program.
func (k *kit) have(f *flow.Flow) { k.asked, k.program = f, program{f} }

// use goes on with another Flow or, over the wire, with another connection.
func (k *kit) use(f *flow.Flow) {
	k.have(f)
	if k.bed.Wire() {
		k.asked = wire{calls.Flow(k.bed.Dial(k.t))}
	}
}

// again is another program with the same layout.
func (k *kit) again() *kit {
	other := *k
	other.use(flow.Open(k.bed.Again(k.t), flow.Config{}))
	return &other
}

// run runs the sweep until the test ends, or the function is called.
func (k *kit) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = k.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	k.t.Cleanup(stop)
	return stop
}

// ask asks what must be answered.
func ask[Q, A any](k *kit, do func(context.Context, *access.Actor, *Q) (*A, error), q Q) *A {
	k.t.Helper()
	a, err := do(k.ctx, k.by, &q)
	require.NoError(k.t, err)
	return a
}

// refused asks what must be refused with that code.
func refused[Q, A any](k *kit, code codes.Code, do func(context.Context, *access.Actor, *Q) (*A, error), q Q) string {
	k.t.Helper()
	_, err := do(k.ctx, k.by, &q)
	require.Equal(k.t, code, codes.Of(err), "%v", err)
	return codes.Message(err)
}

// watch follows keys of the default scope: over the wire by the client.
func (k *kit) watch(prefix string, after int64) *flow.Watch {
	k.t.Helper()
	if w, over := k.asked.(wire); over {
		watch, err := w.FlowCalls.Watch(k.ctx, "", prefix, after)
		require.NoError(k.t, err)
		return watch
	}
	watch, err := k.bed.Watch(k.ctx, kv.Filter{NS: k.ns, Text: prefix}, kv.Revision(after))
	require.NoError(k.t, err)
	return flow.NewWatch(watch)
}

func raw(text string) flow.Raw { return flow.Raw(text) }

// sample registers the application A with a service, a session, a flow F and n nodes.
func (k *kit) sample(n int) {
	k.t.Helper()
	ask(k, k.Register, flow.RegisterAsk{App: "A", Parts: parts("", n)})
}

// parts are a service, a session, a flow and n nodes, whose ids end in suffix.
func parts(suffix string, n int) []flow.Part {
	list := []flow.Part{{Key: "srvs.V" + suffix}, {Key: "sess.E" + suffix}, {Key: "flow.F" + suffix, Parent: "sess.E" + suffix}}
	for i := range n {
		list = append(list, flow.Part{Key: fmt.Sprintf("node.N%d%s", i, suffix), Parent: "flow.F" + suffix, Fields: map[string]flow.Raw{
			"func": raw(`"count"`), "index": raw(fmt.Sprint(i)), "inscount": raw("3"),
		}})
	}
	return list
}

// join makes workers that live for long.
func (k *kit) join(ids ...string) {
	k.t.Helper()
	for _, id := range ids {
		ask(k, k.Join, flow.JoinAsk{Key: "wokr." + id, TTL: 600_000})
	}
}

// value is the JSON of a key; "" if it is absent.
func (k *kit) value(key string) string {
	k.t.Helper()
	one := ask(k, k.Get, flow.GetAsk{Keys: []string{key}}).Entries[0]
	if one.Revision == 0 {
		require.Nil(k.t, one.Value)
	} else if one.Value == nil {
		return "null" // as it comes over the wire
	}
	return string(one.Value)
}

// keys lists all keys of the scope with a prefix.
func (k *kit) keys(prefix string) (list []string) {
	k.t.Helper()
	for after := ""; ; {
		a := ask(k, k.Read, flow.ReadAsk{Prefix: prefix, After: after, Limit: 5000})
		for _, e := range a.Entries {
			list = append(list, e.Key)
		}
		if after = a.Next; after == "" {
			return list
		}
	}
}

// sound fails the test if a list and a record differ, or a counter is not what it counts.
func (k *kit) sound() {
	k.t.Helper()
	values := map[string]string{}
	for after := ""; ; {
		a := ask(k, k.Read, flow.ReadAsk{After: after, Limit: 10_000})
		for _, e := range a.Entries {
			values[e.Key] = string(e.Value)
		}
		if after = a.Next; after == "" {
			break
		}
	}
	require.Empty(k.t, modeltest.FlowFaults(values))
}

func text(value string) (s string) {
	_ = json.Unmarshal([]byte(value), &s)
	return s
}

// duties are the keys of the index that say what is still to be finished.
func (k *kit) duties() (list []string) {
	k.t.Helper()
	page, err := k.bed.List(kv.List{NS: kv.FlowPrefix + ".index"})
	require.NoError(k.t, err)
	for _, e := range page.Entries {
		if what, _, _ := strings.Cut(e.Key, "."); what != "scope" && what != "news" && what != "live" && what != "duty" {
			list = append(list, e.Key)
		}
	}
	return list
}
