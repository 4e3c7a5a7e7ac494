package bench_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/bench"
	"confcenter/models/modeltest"
	"confcenter/server/host"
)

// The server's libraries keep goroutines of their own.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

var agent = &access.Actor{Name: "agent", Origin: access.OverTCP, Address: "10.0.0.7:4711"}

// rig is a Bench in a test. Its methods ask, and fail the test for an error.
type rig struct {
	asked   // the model itself, or a server over the wire
	program // what has no command
	t       *testing.T
	ctx     context.Context
	bed     *modeltest.Bed
}

type (
	model   = bench.Bench
	program struct{ *model }
)

// each runs a test with the model itself, and over the wire.
func each(t *testing.T, cfg bench.Config, test func(t *testing.T, r *rig)) {
	t.Helper()
	cfg.NodeTTL, cfg.HoldTTL = time.Hour, time.Hour // a slow machine loses nothing
	modeltest.EachWay(t, host.Config{Bench: cfg}, func(t *testing.T, b *modeltest.Bed) { test(t, newRig(t, b, cfg)) })
}

// wired runs a test of what a client adds.
func wired(t *testing.T, test func(t *testing.T, r *rig, c *calls.BenchCalls)) {
	t.Helper()
	cfg := bench.Config{NodeTTL: time.Hour, HoldTTL: time.Hour}
	modeltest.Wire(t, host.Config{Bench: cfg}, func(t *testing.T, b *modeltest.Bed) {
		r := newRig(t, b, cfg)
		test(t, r, r.asked.(wire).BenchCalls)
	})
}

func newRig(t *testing.T, b *modeltest.Bed, cfg bench.Config) *rig {
	r := &rig{t: t, ctx: modeltest.Context(t), bed: b}
	r.use(bench.Open(b.Store, cfg))
	return r
}

// hooked is a store on which another client acts before the next transaction with conditions.
type hooked struct {
	embedded.Store
	before func() // nil: none does
	fails  error  // what all transactions fail with; nil: none does
}

func (h *hooked) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if do := h.before; do != nil && len(txn.If) > 0 {
		h.before = nil
		do()
	}
	if h.fails != nil {
		return nil, h.fails
	}
	return h.Store.Txn(ctx, txn)
}

// after returns a Bench that is told too late what others have done: they act when it has
// decided, just before its next transaction.
func (r *rig) after(others func()) *bench.Bench {
	return bench.Open(&hooked{Store: r.bed.Store, before: others}, bench.Config{NodeTTL: time.Hour, HoldTTL: time.Hour})
}

// leases are how many there are besides those of nodes and holds.
func (r *rig) leases() int64 {
	r.t.Helper()
	page, err := r.bed.List(kv.List{NS: kv.BenchNamespace})
	require.NoError(r.t, err)
	used := map[kv.LeaseID]bool{0: true}
	for _, e := range page.Entries {
		used[e.Lease] = true
	}
	return r.bed.State.Stats().Leases - int64(len(used)-1)
}

// use goes on with another Bench or, over the wire, with another connection.
func (r *rig) use(b *bench.Bench) {
	r.asked, r.program = b, program{b}
	if r.bed.Wire() {
		r.asked = wire{calls.Bench(r.bed.Dial(r.t))}
	}
}

// ip is where the nodes are seen to be, and actor how the history names who asks.
func (r *rig) ip() string {
	if r.bed.Wire() {
		return "127.0.0.1"
	}
	return "10.0.0.7"
}

func (r *rig) actor() string { return "^" + regexp.QuoteMeta(r.ip()) + `:\d+@([^@]+@model|agent)$` }

// again is another program with the same nodes and jobs.
func (r *rig) again() *rig {
	other := *r
	other.use(bench.Open(r.bed.Again(r.t), bench.Config{}))
	return &other
}

// ask carries out an operation that must succeed.
func ask[Q, A any](r *rig, do func(context.Context, *access.Actor, *Q) (*A, error), q Q) *A {
	r.t.Helper()
	answer, err := do(r.ctx, agent, &q)
	require.NoError(r.t, err)
	return answer
}

// refused carries out an operation that must fail.
func refused[Q, A any](r *rig, code codes.Code, text string, do func(context.Context, *access.Actor, *Q) (*A, error), q Q) {
	r.t.Helper()
	_, err := do(r.ctx, agent, &q)
	require.Equal(r.t, code, codes.Of(err), "%v", err)
	require.ErrorContains(r.t, err, text)
}

func info(id string, role bench.Role, labels ...bench.Label) bench.NodeInfo {
	return bench.NodeInfo{
		ID: id, Addr: bench.Addr{BindAddr: ":6081", RemoteAddr: "1.2.3.4:5"}, Config: bench.NodeConfig{Role: role, Provider: bench.NodeProvider{Name: 1, Region: "r", Instance: "i"}, Labels: labels},
		Capacity: bench.NodeCapacity{Cores: 4, MemoryFree: 1, MemoryTotal: 2, DiskFree: 3, DiskTotal: 4}, Property: bench.NodeProperty{StartTime: 5, BootTime: 6, Host: "host-" + id},
	}
}

func (r *rig) register(id string, role bench.Role, labels ...bench.Label) {
	r.t.Helper()
	ask(r, r.RegisterNode, bench.NodeAsk{Node: info(id, role, labels...)})
}

func (r *rig) node(id string) *bench.Node {
	r.t.Helper()
	return ask(r, r.FindNode, bench.NodeIDAsk{ID: id})
}

func (r *rig) job(id string) *bench.Job {
	r.t.Helper()
	return ask(r, r.FindJob, bench.JobIDAsk{ID: id})
}

// events are the events in the history of a node or a job.
func (r *rig) events(do func(context.Context, *access.Actor, *bench.HistoryAsk) (*bench.HistoryAnswer, error), id string) (list []string) {
	r.t.Helper()
	for _, e := range ask(r, do, bench.HistoryAsk{ID: id}).Entries {
		list = append(list, e.Event+": "+e.Old+" > "+e.New)
	}
	return list
}
