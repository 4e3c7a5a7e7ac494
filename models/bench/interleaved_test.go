package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
)

// crowd is several programs that work on the same nodes and jobs. Whenever one of them has
// decided and is about to write, another may do something first.
type crowd struct {
	embedded.Store
	t       require.TestingT
	mem     *memory.Store
	benches []*Bench // one acts within the other
	depth   int
	holds   []*TakeAnswer
	jobs    []string
	running string
	log     []string
	rand    *rand.Rand
}

func (w *crowd) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if len(txn.If) > 0 && w.depth < len(w.benches) && w.rand.IntN(4) == 0 {
		w.act()
	}
	return w.Store.Txn(ctx, txn)
}

const crowded = `name: x
nodeAssignments: [{name: a, role: any}, {name: b, role: any}]
stages:
  - {name: s, tasks: [{driver: shell, shell: {command: x}}]}
  - {name: t, selectors: [{name: a}], tasks: [{driver: shell, shell: {command: x}}]}
`

// act lets one of the programs do something.
func (w *crowd) act() {
	b := w.benches[w.depth]
	w.depth++
	defer func() { w.depth-- }()
	ctx := context.Background()
	who := &access.Actor{Name: fmt.Sprint("program", w.depth)}
	node := fmt.Sprint("n", w.rand.IntN(4))
	state := NodeState(w.rand.IntN(4))
	job, held := "0", &TakeAnswer{ID: "0"}
	if len(w.jobs) > 0 {
		job = w.jobs[max(0, len(w.jobs)-1-w.rand.IntN(4))]
	}
	if len(w.holds) > 0 {
		held = w.holds[max(0, len(w.holds)-1-w.rand.IntN(3))]
	}
	hold := &HoldAsk{ID: held.ID, Hold: held.Hold}
	does := map[string]func() error{
		"register": func() error {
			q := &NodeAsk{Node: NodeInfo{ID: node, Config: NodeConfig{Role: AnyRole}}, State: state, TTL: int64((1 + w.rand.IntN(2))) * 3_600_000}
			_, err := b.RegisterNode(ctx, who, q)
			return err
		},
		"beat": func() error {
			_, err := b.Heartbeat(ctx, who, &HeartbeatAsk{ID: node, Status: NodeStatus{State: state}})
			return err
		},
		"remove":  func() error { _, err := b.RemoveNode(ctx, who, &NodeRemoveAsk{ID: node}); return err },
		"silence": func() error { return w.revoke("alive/" + node) },
		"lose":    func() error { return b.lose(ctx, node) },
		"submit": func() error {
			answer, err := b.SubmitJob(ctx, who, &SubmitAsk{Spec: crowded})
			if err == nil {
				w.jobs = append(w.jobs, answer.ID)
			}
			return err
		},
		"take": func() error {
			answer, err := b.TakeJob(ctx, who, &TakeAsk{})
			if err == nil && !answer.Empty {
				w.holds = append(w.holds, answer)
			}
			return err
		},
		"keep":   func() error { _, err := b.KeepJob(ctx, who, &KeepAsk{ID: held.ID, Hold: held.Hold}); return err },
		"expire": func() error { return w.end(kv.LeaseID(held.Hold)) },
		"noted": func() error {
			places, err := b.taken()
			require.NoError(w.t, err)
			return together(places, func(place string) error { return b.endHold(ctx, place) })
		},
		"assign": func() error { _, err := b.AssignNodes(ctx, who, hold); return err },
		"start":  func() error { _, err := b.StartJob(ctx, who, hold); return err },
		"run": func() error { // of nodes that have come back
			for i := range 4 {
				_, _ = b.RegisterNode(ctx, who, &NodeAsk{Node: NodeInfo{ID: fmt.Sprint("n", i), Config: NodeConfig{Role: AnyRole}}, State: NodeIdle})
			}
			answer, err := b.TakeJob(ctx, who, &TakeAsk{})
			if err != nil || answer.Empty {
				return err
			}
			w.holds = append(w.holds, answer)
			q := &HoldAsk{ID: answer.ID, Hold: answer.Hold}
			if _, err = b.AssignNodes(ctx, who, q); err == nil {
				if _, err = b.StartJob(ctx, who, q); err == nil {
					w.running = answer.ID
				}
			}
			return err
		},
		"back": func() error {
			_, err := b.PushBackJob(ctx, who, &PushBackAsk{ID: held.ID, Hold: held.Hold, Head: state == 1})
			return err
		},
		"abort": func() error { _, err := b.AbortJob(ctx, who, &AbortAsk{ID: job}); return err },
		"task": func() error {
			stage, status := []string{"s", "t"}[int(state)%2], TaskStatus(2+2*w.rand.IntN(2))
			_, err := b.UpdateTask(ctx, who, &TaskAsk{ID: w.running, Stage: stage, Task: "0", Node: []string{"a", "b"}[int(state)/2], Status: status})
			return err
		},
		"forget": func() error { _, err := b.RemoveJob(ctx, who, &JobRemoveAsk{ID: job}); return err },
	}
	names := slices.Sorted(maps.Keys(does))
	what := names[w.rand.IntN(len(names))]
	err := does[what]()
	expected := []codes.Code{0, codes.NotFound, codes.AlreadyExists, codes.Conflict, codes.LeaseGone, codes.BadRequest}
	w.log = append(w.log, fmt.Sprint(strings.Repeat(" ", w.depth), what, " ", err))
	if err != nil {
		require.Contains(w.t, expected, codes.Of(err), "%s: %v", what, err)
	}
}

// revoke ends the lease that a key is under.
func (w *crowd) revoke(key string) error {
	e := w.Get(kv.BenchNamespace, key)
	if e == nil {
		return nil
	}
	return w.end(e.Lease)
}

func (w *crowd) end(lease kv.LeaseID) error {
	_, err := w.Store.Txn(context.Background(), &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: lease}}})
	return err
}

// check compares everything that is stored with everything else.
func (w *crowd) check() {
	page, err := w.List(kv.List{NS: kv.BenchNamespace})
	require.NoError(w.t, err)
	require.False(w.t, page.More)
	all, counts, leases := map[string]*kv.Entry{}, map[string]int64{}, map[kv.LeaseID]bool{}
	for _, e := range page.Entries {
		all[e.Key] = e
		if e.Lease != 0 {
			leases[e.Lease] = true
		}
	}
	b := w.benches[0]
	for _, key := range slices.Sorted(maps.Keys(all)) {
		path := strings.Split(key, "/")
		switch {
		case path[0] == "removed":
			counts["removed"]++
			require.Nil(w.t, all["node/"+path[2]+"/info"], key)
		case path[0] == "queue" && len(path) == 2:
			counts["waiting"]++
		case path[0] == "queue" && path[2] == "held":
			require.NotNil(w.t, all["queue/"+path[1]+"/taken"], key)
		case path[0] == "queue":
			require.NotNil(w.t, all["queue/"+path[1]], key)
		case path[0] == "job":
			counts["kept"]++
			w.checkJob(b, path[1], all)
		case path[0] == "node" && path[2] == "info":
			counts["nodes"]++
			w.checkNode(b, path[1], all)
		}
	}
	for _, name := range []string{"removed", "waiting", "kept", "nodes"} {
		var n int64
		require.NoError(w.t, decode(all["count/"+name], &n))
		require.Equal(w.t, counts[name], n, name)
	}
	require.EqualValues(w.t, len(leases), w.mem.Stats().Leases, "leases that nothing is under")
}

func (w *crowd) checkJob(b *Bench, id string, all map[string]*kv.Entry) {
	j, err := b.job(id)
	require.NoError(w.t, err)
	require.Equal(w.t, j.Status == JobQueued, j.Ticket != 0)
	w.checkHistory("job/"+id, j.Seq, j.Status.String(), all)
	if j.Status == JobQueued {
		require.Equal(w.t, id, string(all[queueKey(j.Ticket)].Value.Data))
	}
	if j.Status == JobRunning {
		for _, n := range j.nodes {
			e := all["node/"+n.ID+"/job"]
			require.NotNil(w.t, e, n.ID)
			require.Equal(w.t, id, string(e.Value.Data))
			require.Zero(w.t, e.Lease)
		}
	}
}

func (w *crowd) checkNode(b *Bench, id string, all map[string]*kv.Entry) {
	n, err := b.node(id)
	require.NoError(w.t, err)
	w.checkHistory("node/"+id, n.state.Seq, n.state.String(), all)
	if n.Job == "" {
		return
	}
	j, err := b.job(n.Job)
	require.NoError(w.t, err)
	require.True(w.t, slices.ContainsFunc(j.nodes, func(a assigned) bool { return a.ID == id }))
	require.True(w.t, j.Status == JobRunning || j.heldEntry != nil && j.heldEntry.Lease == n.job.Lease, "%+v", j.JobHead)
}

// checkHistory looks at whether there is one entry for each update, from state to state.
func (w *crowd) checkHistory(of string, seq int64, now string, all map[string]*kv.Entry) {
	was := ""
	for n := int64(1); n <= seq; n++ {
		var e Entry
		require.NotNil(w.t, all[numbered("history/"+of, n)], "%s %d", of, n)
		require.NoError(w.t, decode(all[numbered("history/"+of, n)], &e))
		require.Equal(w.t, n, e.Seq)
		if e.Event != "registered" {
			require.Equal(w.t, was, e.Old, "%s %d", of, n)
		}
		was = e.New
	}
	require.Equal(w.t, now, was, of)
	require.Nil(w.t, all[numbered("history/"+of, seq+1)], of)
}

// What the server does by itself waits for its turn, however many do: it keeps no worker.
func TestTheSweepIsNotRefusedBecauseOthersWait(t *testing.T) {
	mem := memory.New(memory.Config{})
	defer func() { require.NoError(t, mem.Close()) }()
	near := embedded.New(mem, nil)
	defer near.Close()
	b := Open(near, Config{MaxWaiting: -1})
	done, err := b.turn(t.Context(), nil, "node/n1")
	require.NoError(t, err)
	_, err = b.Heartbeat(t.Context(), nil, &HeartbeatAsk{ID: "n1"})
	require.ErrorIs(t, err, codes.Busy)
	lost := make(chan error, 1)
	go func() { lost <- b.lose(t.Context(), "n1") }()
	require.Eventually(t, func() bool { return b.waiting.Load() == 1 || len(lost) == 1 }, 30*time.Second, time.Millisecond)
	done()
	require.NoError(t, <-lost)
}
