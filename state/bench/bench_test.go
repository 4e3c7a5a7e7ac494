package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/state"
	"confcenter/state/bench"
	"confcenter/state/statetest"
)

// The server's libraries keep goroutines of their own.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

var agent = &access.Actor{Name: "agent", Origin: access.OverTCP, Address: "10.0.0.7:4711"}

// rig is a Bench in a test. Its methods ask, and fail the test for an error.
type rig struct {
	*bench.Bench
	t   *testing.T
	ctx context.Context
	bed *statetest.Bed
}

func each(t *testing.T, cfg bench.Config, test func(t *testing.T, r *rig)) {
	t.Helper()
	statetest.Each(t, func(t *testing.T, b *statetest.Bed) {
		cfg := cfg
		cfg.NS, cfg.NodeTTL, cfg.HoldTTL = b.NS, time.Hour, time.Hour // a slow machine loses nothing
		test(t, &rig{bench.Open(b.Store, cfg), t, statetest.Context(t), b})
	})
}

// hooked is a store before whose next transaction with conditions somebody else acts.
type hooked struct {
	state.Store
	before func() // nil: nobody
}

func (h *hooked) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if do := h.before; do != nil && len(txn.If) > 0 {
		h.before = nil
		do()
	}
	return h.Store.Txn(ctx, txn)
}

// after returns a Bench that is told too late what others have done: they act when it has
// decided, just before its next transaction.
func (r *rig) after(others func()) *bench.Bench {
	return bench.Open(&hooked{r.bed.Store, others}, bench.Config{NS: r.bed.NS, NodeTTL: time.Hour, HoldTTL: time.Hour})
}

// leases are how many there are besides those of nodes and holds.
func (r *rig) leases() int64 {
	r.t.Helper()
	page, err := r.bed.List(r.ctx, kv.List{NS: r.bed.NS})
	require.NoError(r.t, err)
	used := map[kv.LeaseID]bool{0: true}
	for _, e := range page.Entries {
		used[e.Lease] = true
	}
	return r.bed.Server.State.(interface{ Stats() kv.Stats }).Stats().Leases - int64(len(used)-1)
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
