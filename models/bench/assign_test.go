package bench_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/bench"
)

// held submits a job and takes it.
func (r *rig) held(spec string) bench.HoldAsk {
	r.t.Helper()
	r.submit(spec)
	got := ask(r, r.TakeJob, bench.TakeAsk{})
	return bench.HoldAsk{ID: got.ID, Hold: got.Hold}
}

// drop ends a hold, as its time does.
func (r *rig) drop(hold int64) {
	r.t.Helper()
	_, err := r.bed.Txn(r.ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: kv.LeaseID(hold)}}})
	require.NoError(r.t, err)
}

// silence ends the time of a node.
func (r *rig) silence(id string) {
	r.t.Helper()
	e := r.bed.Get(kv.BenchNamespace, "alive/"+id)
	r.drop(int64(e.Lease))
}

// Those who can take any node leave the others theirs.
func TestAJobThatCanRunGetsItsNodes(t *testing.T) {
	const spec = `name: x
nodeAssignments:
  - {name: some, role: any}
  - {name: fast, selectors: [{labels: [{k: disk, v: ssd}]}]}
  - {name: load, role: loader}
stages: [{name: a, tasks: [{driver: shell, shell: {command: x}}]}]
`
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("a", bench.LoaderRole, bench.Label{K: "disk", V: "ssd"})
		r.register("b", bench.LoaderRole)
		hold := r.held(spec)
		require.False(t, ask(r, r.AssignNodes, hold).Assigned)
		r.register("c", bench.DatabaseRole)
		answer := ask(r, r.AssignNodes, hold)
		require.True(t, answer.Assigned)
		got := map[string]string{}
		for _, n := range answer.Nodes {
			got[n.Name] = n.ID
		}
		require.Equal(t, map[string]string{"some": "c", "fast": "a", "load": "b"}, got)
	})
}

func TestAStageWithoutNodesIsRefusedWhenNodesAreAssigned(t *testing.T) {
	const spec = `name: x
nodeAssignments: [{name: n, role: loader}]
stages:
  - {name: quick, selectors: [{labels: [{k: disk, v: ssd}]}], tasks: [{driver: shell, shell: {command: x}}]}
`
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		hold := r.held(spec)
		refused(r, codes.Conflict, "stage quick selects none of the nodes", r.AssignNodes, hold)
		require.Empty(t, r.node("n1").Job)
		ask(r, r.RegisterNode, bench.NodeAsk{Node: info("n1", bench.LoaderRole, bench.Label{K: "disk", V: "ssd"})})
		require.True(t, ask(r, r.AssignNodes, hold).Assigned)
		ask(r, r.StartJob, hold)
		require.Equal(t, []int64{0}, r.job(hold.ID).ForegroundStages)
	})
}

func TestAnAssignmentIsInTheHistoryOfItsNodes(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		hold := r.held(small)
		ask(r, r.AssignNodes, hold)
		ask(r, r.PushBackJob, bench.PushBackAsk{ID: hold.ID, Hold: hold.Hold})
		want := []string{"registered:  > NODE_IDLE", "assigned: NODE_IDLE > NODE_IDLE", "let go: NODE_IDLE > NODE_IDLE"}
		require.Equal(t, want, r.events(r.NodeHistory, "n1"))
		require.Equal(t, "job "+hold.ID+" was pushed back", ask(r, r.NodeHistory, bench.HistoryAsk{ID: "n1"}).Entries[2].Note)
	})
}

// An agent that starts anew before its job does has begun nothing.
func TestANodeThatIsRegisteredAgainBeforeItsJobStartsIsIdle(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		hold := r.held(small)
		ask(r, r.AssignNodes, hold)
		r.register("n1", bench.LoaderRole)
		require.Equal(t, bench.NodeIdle, r.node("n1").State)
		ask(r, r.StartJob, hold)
		r.register("n1", bench.LoaderRole)
		require.Equal(t, bench.RunningJob, r.node("n1").State)
	})
}

// A node that begins something else while it is being assigned is not assigned.
func TestANodeThatIsNoLongerIdleIsNotAssigned(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		hold := r.held(small)
		late := r.after(func() { r.beat("n1", bench.RunningJob) })
		require.False(t, ask(r, late.AssignNodes, hold).Assigned)
	})
}

func TestAJobIsNotStartedOnASilentNode(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		hold := r.held(small)
		ask(r, r.AssignNodes, hold)
		refused(r, codes.Conflict, "push the job back", r.after(func() { r.silence("n1") }).StartJob, hold)
		r.beat("n1", bench.NodeIdle)
		ask(r, r.StartJob, hold)
	})
}

// The end of a hold is noted, whether a running Bench sees it or the job is taken again before that.
func TestTheEndOfAHoldIsInTheHistory(t *testing.T) {
	const taken, ended = "taken: JOB_QUEUED > JOB_QUEUED", "hold ended: JOB_QUEUED > JOB_QUEUED"
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		hold := r.held(small)
		ask(r, r.AssignNodes, hold)
		r.drop(hold.Hold)
		hold.Hold = ask(r, r.TakeJob, bench.TakeAsk{}).Hold
		want := []string{"submitted:  > JOB_QUEUED", taken, "assigned: JOB_QUEUED > JOB_QUEUED", ended, taken}
		require.Equal(t, want, r.events(r.JobHistory, hold.ID))
		nodes := []string{"registered:  > NODE_IDLE", "assigned: NODE_IDLE > NODE_IDLE", "let go: NODE_IDLE > NODE_IDLE"}
		require.Equal(t, nodes, r.events(r.NodeHistory, "n1"))

		r.drop(hold.Hold)
		r.running() // it is noticed, too, when no Bench was running at the time
		r.running()
		want = append(want, ended)
		r.until(func() bool { return len(r.events(r.JobHistory, hold.ID)) == len(want) })
		hold.Hold = ask(r, r.TakeJob, bench.TakeAsk{}).Hold
		r.drop(hold.Hold)
		want = append(want, taken, ended)
		r.until(func() bool { return len(r.events(r.JobHistory, hold.ID)) == len(want) })
		require.Equal(t, want, r.events(r.JobHistory, hold.ID))
		require.Equal(t, nodes, r.events(r.NodeHistory, "n1"))
		require.Equal(t, "@bench", ask(r, r.JobHistory, bench.HistoryAsk{ID: hold.ID}).Entries[len(want)-1].Actor)
		ask(r, r.AbortJob, bench.AbortAsk{ID: hold.ID})
		page, err := r.bed.List(kv.List{NS: kv.BenchNamespace, Prefix: "queue/"})
		require.NoError(t, err)
		require.Empty(t, page.Entries)
	})
}

// A job waits for a node that is lost, which may come back; a client that watches the job is told.
func TestAJobIsToldThatItHasLostANode(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		id := r.start(small)
		r.running()
		r.silence("n1")
		r.until(func() bool { return r.node("n1").Lost })
		r.register("n1", bench.LoaderRole)
		all := ask(r, r.JobHistory, bench.HistoryAsk{ID: id}).Entries
		last := all[len(all)-2:]
		require.Equal(t, "lost a node: node n1", last[0].Event+": "+last[0].Note)
		require.Equal(t, "has a node back: node n1", last[1].Event+": "+last[1].Note)
		require.Equal(t, bench.JobRunning, r.job(id).Status)
		r.done(id, "a", "0", "n")
	})
}

// The name of a node in the job may be the id of another one: ids go before names.
func TestAnIDGoesBeforeAName(t *testing.T) {
	const spec = `name: x
nodeAssignments: [{name: n2, role: loader}, {name: other, role: database}]
stages:
  - {name: both, tasks: [{driver: shell, shell: {command: x}}]}
  - {name: one, selectors: [{name: n2}], tasks: [{driver: shell, shell: {command: x}}]}
`
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		r.register("n2", bench.DatabaseRole)
		id := r.start(spec)
		r.task(id, "both", "0", "n2", bench.TaskRunning)
		nodes := r.job(id).Stages[0].Nodes
		require.Equal(t, "n2", nodes[1].ID)
		require.Equal(t, bench.TaskRunning, nodes[1].Tasks[0].Status)
		require.Equal(t, bench.TaskQueued, nodes[0].Tasks[0].Status)
		r.task(id, "both", "0", "n2", bench.TaskFinished)
		r.done(id, "both", "0", "n1")
		refused(r, codes.NotFound, "stage one of job "+id+" is not on node", r.UpdateTask, bench.TaskAsk{ID: id, Stage: "one", Task: "0", Node: "n2", Status: bench.TaskRunning})
		r.done(id, "one", "0", "n1")
	})
}
