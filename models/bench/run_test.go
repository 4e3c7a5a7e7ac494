package bench_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/bench"
)

// pair registers a node for each role of pingpong.
func (r *rig) pair() {
	r.t.Helper()
	r.register("db1", bench.DatabaseRole)
	r.register("load1", bench.LoaderRole)
}

// twins has one stage on two nodes, and then another.
const twins = `name: twins
owner: {name: ann, type: org}
nodeAssignments: [{name: a, role: loader}, {name: b, role: loader}]
stages:
  - {name: both, tasks: [{name: t, driver: shell, shell: {command: x}}, {name: u, driver: shell, shell: {command: y}}]}
  - {name: last, selectors: [{name: a}], tasks: [{driver: shell, shell: {command: z}}]}
`

func TestNodesAreAssignedByRoleAndLabels(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		for _, n := range []bench.NodeInfo{
			info("a-any", bench.AnyRole), info("central", bench.CentralRole), info("db", bench.DatabaseRole),
			info("fast", bench.LoaderRole, bench.Label{K: "disk", V: "ssd"}), info("slow", bench.LoaderRole),
		} {
			ask(r, r.RegisterNode, bench.NodeAsk{Node: n})
		}
		assign := func(nodes string) *bench.AssignAnswer {
			t.Helper()
			r.submit("name: x\nnodeAssignments: " + nodes + "\nstages: [{name: a, tasks: [{driver: shell, shell: {command: x}}]}]")
			got := ask(r, r.TakeJob, bench.TakeAsk{})
			hold := bench.HoldAsk{ID: got.ID, Hold: got.Hold}
			answer := ask(r, r.AssignNodes, hold)
			require.Equal(t, answer.Nodes, ask(r, r.AssignNodes, hold).Nodes, "asking again changes nothing")
			for _, n := range answer.Nodes {
				require.Equal(t, got.ID, r.node(n.ID).Job)
			}
			ask(r, r.AbortJob, bench.AbortAsk{ID: got.ID})
			return answer
		}
		for nodes, want := range map[string]string{
			"[{name: n, role: loader}]":                                                         "n=fast IDLE_EXACT_ROLE_MATCH;",
			"[{name: n, role: database}, {name: m, role: database}]":                            "n=db IDLE_EXACT_ROLE_MATCH;m=a-any IDLE_ANY_ROLE_MATCH;",
			"[{name: n, role: any}]":                                                            "n=a-any IDLE_EXACT_ROLE_MATCH;",
			"[{selectors: [{labels: [{k: disk, v: ssd}]}], name: n}]":                           "n=fast IDLE_ANY_ROLE_MATCH;",
			"[{selectors: [{name: host-slow}, {name: nobody}], name: n}]":                       "n=slow IDLE_ANY_ROLE_MATCH;",
			"[{selectors: [{role: loader, labels: [{k: x, v: y}]}], name: n}]":                  "!n IDLE_ROLE_NO_MATCH;",
			"[{name: a, role: database}, {name: b, role: database}, {name: c, role: database}]": "!c BUSY_DATABASE;",
		} {
			answer, got := assign(nodes), ""
			for _, n := range answer.Nodes {
				got += n.Name + "=" + n.ID + " " + n.Why.String() + ";"
			}
			for _, n := range answer.Failed {
				got += "!" + n.Name + " " + n.Why.String() + ";"
			}
			require.Equal(t, want, got, nodes)
			require.Equal(t, answer.Assigned, len(answer.Failed) == 0)
		}
	})
}

func TestANodeIsNeverInTwoJobs(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		const jobs, nodes = 8, 6
		for i := range nodes {
			r.register(fmt.Sprint("n", i), bench.LoaderRole)
		}
		holds := make([]bench.HoldAsk, jobs)
		for i := range holds {
			r.submit(twins)
			got := ask(r, r.TakeJob, bench.TakeAsk{})
			holds[i] = bench.HoldAsk{ID: got.ID, Hold: got.Hold}
		}
		answers := make([]*bench.AssignAnswer, jobs)
		var all sync.WaitGroup
		for i := range holds {
			all.Go(func() { answers[i], _ = r.AssignNodes(r.ctx, agent, &holds[i]) })
		}
		all.Wait()
		owner := map[string]string{}
		assigned := 0
		for i, answer := range answers {
			require.NotNil(t, answer)
			if !answer.Assigned {
				require.Empty(t, answer.Nodes, "all or none")
				continue
			}
			assigned++
			for _, n := range answer.Nodes {
				require.Empty(t, owner[n.ID])
				owner[n.ID] = holds[i].ID
				require.Equal(t, holds[i].ID, r.node(n.ID).Job)
			}
		}
		require.Equal(t, nodes/2, assigned)
		refused(r, codes.Conflict, "abort it or wait", r.RemoveNode, bench.NodeRemoveAsk{ID: "n0"})
	})
}

func TestB23AStartedJobRuns(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.pair()
		j := r.job(r.start(strings.Replace(pingpong, "pingserver 8080", `'pingserver {{"{{"}}.State}} {{"{{"}}.Nodes.srv.Ip}}'`, 1)))
		require.Equal(t, bench.JobRunning, j.Status)
		require.NotZero(t, j.StartTime)
		require.Zero(t, j.CurrentPipeline)
		require.Equal(t, "STAGE_PIPELINE_RUNNING", j.Pipelines[0].Status.String())
		require.Equal(t, "STAGE_PIPELINE_QUEUED", j.Pipelines[1].Status.String())
		require.Equal(t, []int64{0, 1}, j.ForegroundStages)
		require.Equal(t, "load1", j.Stages[0].Nodes[0].ID)
		require.Equal(t, "cli", j.Stages[0].Nodes[0].Name)
		require.Equal(t, r.ip(), j.Stages[0].Nodes[0].Info.Addr.IP)
		task, err := json.Marshal(j.Stages[0].Nodes[0].Tasks[0])
		require.NoError(t, err)
		require.Equal(t, `{"status":"TASK_QUEUED","startTime":0,"readyTime":0,"stopTime":0}`, string(task))
		require.Equal(t, "pingclient http://"+r.ip()+":8080", j.Stages[3].Spec.Tasks[0].Shell.Command, "rendered")
		require.Equal(t, []string{"load1", ":6081"}, j.Stages[3].Spec.Tasks[2].Exec.Args)
		require.Equal(t, "host-db1", j.Stages[2].Spec.Tasks[0].Env[0].V)
		require.Equal(t, "pingserver {{.State}} {{.Nodes.srv.Ip}}", j.Stages[2].Spec.Tasks[0].Shell.Command, "braces of others")
		require.Equal(t, "pingclient http://{{.Nodes.srv.Ip}}:8080", j.Spec.Stages[3].Tasks[0].Shell.Command)
		for _, id := range []string{"db1", "load1"} {
			require.Equal(t, bench.RunningJob, r.node(id).State)
			require.Equal(t, j.ID, r.node(id).Job)
			require.Contains(t, r.events(r.NodeHistory, id), "started a job: NODE_IDLE > NODE_RUNNING_JOB")
		}
		require.Equal(t, "started: JOB_QUEUED > JOB_RUNNING", r.events(r.JobHistory, j.ID)[3])
		require.True(t, ask(r, r.TakeJob, bench.TakeAsk{}).Empty)
	})
}

// The hold of a job ends when it is started: job and nodes need it no more.
func TestAStartedJobNeedsNoHolder(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		before := r.leases()
		id := r.submit(small)
		hold := bench.HoldAsk{ID: id, Hold: ask(r, r.TakeJob, bench.TakeAsk{}).Hold}
		ask(r, r.AssignNodes, hold)
		ask(r, r.StartJob, hold)
		refused(r, codes.LeaseGone, "is not held", r.KeepJob, bench.KeepAsk{ID: id, Hold: hold.Hold})
		require.Equal(t, before, r.leases(), "the hold has ended")
		require.Equal(t, id, r.node("n1").Job)
		require.True(t, ask(r, r.TakeJob, bench.TakeAsk{}).Empty)
		r.done(id, "a", "0", "n")
		r.done(id, "b", "0", "n")
		require.Empty(t, r.node("n1").Job)
	})
}

// Several servers, or programs, may work on the same job: none undoes what another has done.
func TestSeveralBenchesChangeOneJob(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		const updates = 20
		r.pair()
		id := r.start(pingpong)
		before := r.job(id).Seq
		var errs [2]error
		var both sync.WaitGroup
		for i := range errs {
			b := r.again()
			q := bench.TaskAsk{ID: id, Stage: []string{"download_client", "download_server"}[i], Task: "0", Node: []string{"cli", "srv"}[i]}
			both.Go(func() {
				for n := range updates {
					q.Usage, q.Status = &bench.Usage{CPUTime: int64(n + 1)}, 0
					if n == updates/2 {
						q.Status = bench.TaskRunning
					}
					if _, err := b.UpdateTask(r.ctx, agent, &q); err != nil {
						errs[i] = err
					}
				}
			})
		}
		both.Wait()
		require.NoError(t, errors.Join(errs[:]...))
		j := r.job(id)
		for s := range 2 {
			require.EqualValues(t, updates, j.Stages[s].Nodes[0].Tasks[0].Usage.CPUTime)
			require.Equal(t, bench.TaskRunning, j.Stages[s].Nodes[0].Tasks[0].Status)
		}
		require.EqualValues(t, before+2, j.Seq, "what was used is no update")
		require.Len(t, r.events(r.JobHistory, id), int(j.Seq))
	})
}

func TestB24AStageEndsWhenItHasEndedOnAllNodes(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		r.register("n2", bench.LoaderRole)
		id := r.start(twins)
		refused(r, codes.Conflict, "tasks of an earlier pipeline have not ended", r.UpdateTask, bench.TaskAsk{ID: id, Stage: "both", Task: "u", Node: "n1", Status: bench.TaskRunning})
		r.done(id, "both", "t", "n1")
		require.Equal(t, "TASK_PIPELINE_FINISHED", r.job(id).Stages[0].Nodes[0].Pipelines[0].Status.String())
		r.done(id, "0", "1", "a")
		j := r.job(id)
		require.Equal(t, []int64{0}, j.ForegroundStages)
		require.Empty(t, j.FinishedStages)
		r.done(id, "both", "t", "n2")
		r.done(id, "both", "u", "n2")
		j = r.job(id)
		require.Equal(t, []int64{0}, j.FinishedStages)
		require.NotZero(t, j.Stages[0].StopTime)
		require.Equal(t, []int64{1}, j.ForegroundStages)
	})
}

func TestB25TheNextPipelineFollows(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.pair()
		id := r.start(pingpong)
		r.done(id, "download_client", "0", "cli")
		require.Zero(t, r.job(id).CurrentPipeline)
		refused(r, codes.Conflict, "has not been started", r.UpdateTask, bench.TaskAsk{ID: id, Stage: "start_server", Task: "serve", Node: "srv", Status: bench.TaskRunning})
		r.done(id, "download_server", "0", "srv")
		j := r.job(id)
		require.EqualValues(t, 1, j.CurrentPipeline)
		require.Equal(t, "STAGE_PIPELINE_FINISHED", j.Pipelines[0].Status.String())
		require.Equal(t, "STAGE_PIPELINE_RUNNING", j.Pipelines[1].Status.String())
	})
}

// ready brings pingpong to where its server runs in the background.
func (r *rig) ready() string {
	r.t.Helper()
	r.pair()
	id := r.start(pingpong)
	r.done(id, "download_client", "0", "cli")
	r.done(id, "download_server", "0", "srv")
	r.task(id, "start_server", "serve", "srv", bench.TaskRunning, bench.TaskBackground)
	return id
}

func TestB26ABackgroundStageLetsOthersProceed(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		j := r.job(r.ready())
		require.Equal(t, []int64{2}, j.BackgroundStages)
		require.Equal(t, []int64{3}, j.ForegroundStages)
		require.NotZero(t, j.Stages[2].Nodes[0].Tasks[0].ReadyTime)
		require.Zero(t, j.Stages[2].StopTime)
		require.Equal(t, "STAGE_PIPELINE_BACKGROUND", j.Pipelines[1].Status.String())
		require.Equal(t, "TASK_PIPELINE_BACKGROUND", j.Stages[2].Nodes[0].Pipelines[0].Status.String())
		require.EqualValues(t, 2, j.CurrentPipeline)
		require.Zero(t, j.Stages[0].Nodes[0].Tasks[0].ReadyTime, "only of background tasks")
		refused(r, codes.Conflict, "not a background task", r.UpdateTask, bench.TaskAsk{ID: r.runTask(j.ID), Stage: "3", Task: "warm", Node: "cli", Status: bench.TaskBackground})
	})
}

// runTask starts the first task of the client.
func (r *rig) runTask(id string) string {
	r.t.Helper()
	r.task(id, "ping_server", "warm", "cli", bench.TaskRunning)
	return id
}

// ping lets the client do its work.
func (r *rig) ping(id string) {
	r.t.Helper()
	r.done(id, "ping_server", "warm", "cli")
	r.done(id, "ping_server", "look", "cli")
	r.done(id, "ping_server", "ping", "cli")
}

func TestB27AStopperEndsABackgroundStage(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		id := r.ready()
		r.ping(id)
		j := r.job(id)
		require.Equal(t, []int64{0, 1, 3, 4, 2}, j.FinishedStages)
		require.Empty(t, j.BackgroundStages)
		require.NotZero(t, j.Stages[2].StopTime)
		require.NotZero(t, j.Stages[2].Nodes[0].Tasks[0].StopTime)
		require.Equal(t, bench.TaskFinished, j.Stages[2].Nodes[0].Tasks[0].Status)
		require.Equal(t, bench.JobFinished, j.Status)
		require.NotZero(t, j.StopTime)
		require.Equal(t, bench.NodeIdle, r.node("db1").State)
		require.Empty(t, r.node("db1").Job)
	})
}

func TestB28AbortEndsEverything(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		id := r.ready()
		ask(r, r.AbortJob, bench.AbortAsk{ID: id, Why: "enough"})
		j := r.job(id)
		require.Equal(t, bench.JobAborted, j.Status)
		require.Equal(t, "enough", j.Error)
		require.NotZero(t, j.StopTime)
		require.Empty(t, j.ForegroundStages)
		require.Empty(t, j.BackgroundStages)
		for _, s := range j.Stages {
			for _, n := range s.Nodes {
				for _, task := range n.Tasks {
					if s.Index < 2 {
						require.Equal(t, bench.TaskFinished, task.Status)
					} else {
						require.Equal(t, bench.TaskAborted, task.Status)
					}
				}
			}
		}
		require.Equal(t, "STAGE_PIPELINE_ABORTED", j.Pipelines[2].Status.String())
		require.EqualValues(t, 5, j.Pipelines[2].Status)
		require.Equal(t, "TASK_PIPELINE_ABORTED", j.Stages[2].Nodes[0].Pipelines[0].Status.String())
		for _, id := range []string{"db1", "load1"} {
			require.Equal(t, bench.NodeIdle, r.node(id).State)
			require.Empty(t, r.node(id).Job)
		}
		waiting := r.submit(small)
		ask(r, r.AbortJob, bench.AbortAsk{ID: waiting})
		require.True(t, ask(r, r.TakeJob, bench.TakeAsk{}).Empty)
	})
}

func TestATaskThatFailsAbortsItsJob(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.pair()
		id := r.start(pingpong)
		r.task(id, "0", "0", "cli", bench.TaskRunning)
		ask(r, r.UpdateTask, bench.TaskAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Status: bench.TaskAborted, Error: "exit 1"})
		j := r.job(id)
		require.Equal(t, bench.JobAborted, j.Status)
		require.Contains(t, j.Error, "exit 1")
		require.Equal(t, "exit 1", j.Stages[0].Nodes[0].Tasks[0].Error)
	})
}

func TestKillStopsOneNamedTask(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		id := r.ready()
		refused(r, codes.NotFound, "no task", r.KillTask, bench.KillAsk{ID: id, Stage: "start_server", Task: "nobody"})
		refused(r, codes.Conflict, "has ended", r.KillTask, bench.KillAsk{ID: id, Stage: "download_client", Task: "0"})
		ask(r, r.KillTask, bench.KillAsk{ID: id, Stage: "start_server", Task: "serve"})
		j := r.job(id)
		require.Equal(t, bench.TaskAborted, j.Stages[2].Nodes[0].Tasks[0].Status)
		require.Equal(t, "killed", j.Stages[2].Nodes[0].Tasks[0].Error)
		require.Equal(t, []int64{0, 1, 2}, j.FinishedStages)
		require.Equal(t, bench.JobRunning, j.Status, "the job goes on")
		ask(r, r.KillTask, bench.KillAsk{ID: id, Stage: "ping_server", Task: "warm", Node: "load1", Why: "too slow"})
		refused(r, codes.Conflict, "has ended already", r.KillTask, bench.KillAsk{ID: id, Stage: "ping_server", Task: "warm"})
		r.done(id, "ping_server", "look", "cli")
		r.done(id, "ping_server", "ping", "cli")
		require.Equal(t, bench.JobFinished, r.job(id).Status)
	})
}

func TestB29AFinishedJobChangesNoMore(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		finished := r.ready()
		r.ping(finished)
		aborted := r.start(pingpong)
		ask(r, r.AbortJob, bench.AbortAsk{ID: aborted})
		for id, final := range map[string]string{finished: "is JOB_FINISHED, which is final", aborted: "is JOB_ABORTED, which is final"} {
			before, entries := r.job(id), r.events(r.JobHistory, id)
			refused(r, codes.Conflict, final, r.AbortJob, bench.AbortAsk{ID: id})
			refused(r, codes.Conflict, final, r.StartJob, bench.HoldAsk{ID: id, Hold: 1})
			refused(r, codes.Conflict, final, r.AssignNodes, bench.HoldAsk{ID: id, Hold: 1})
			refused(r, codes.Conflict, final, r.KeepJob, bench.KeepAsk{ID: id, Hold: 1})
			refused(r, codes.Conflict, final, r.PushBackJob, bench.PushBackAsk{ID: id, Hold: 1})
			refused(r, codes.Conflict, final, r.KillTask, bench.KillAsk{ID: id, Stage: "0", Task: "0"})
			for status := bench.TaskQueued; status <= bench.TaskAborted; status++ {
				refused(r, codes.Conflict, final, r.UpdateTask, bench.TaskAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Status: status})
			}
			refused(r, codes.Conflict, final, r.UpdateTask, bench.TaskAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Usage: &bench.Usage{CPUTime: 1}})
			require.Equal(t, before, r.job(id))
			require.Equal(t, entries, r.events(r.JobHistory, id))
		}
	})
}

func TestB30StagesAreSeenFromBothSides(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		id := r.ready()
		stage := ask(r, r.JobStage, bench.StageAsk{ID: id, Stage: "start_server"})
		require.Equal(t, r.job(id).Stages[2], *stage)
		require.Len(t, stage.Nodes, 1)
		refused(r, codes.NotFound, "no stage", r.JobStage, bench.StageAsk{ID: id, Stage: "9"})

		ask(r, r.AbortJob, bench.AbortAsk{ID: id})
		second := r.start(pingpong)
		answer := ask(r, r.NodeStages, bench.NodeStagesAsk{ID: "db1"})
		require.Len(t, answer.Jobs, 2)
		require.Equal(t, id, answer.Jobs[0].ID)
		require.Equal(t, bench.JobAborted, answer.Jobs[0].Status)
		require.Equal(t, second, answer.Jobs[1].ID)
		var names []string
		for _, s := range answer.Jobs[1].Stages {
			names = append(names, s.Name)
			require.Equal(t, "db1", s.Node.ID)
		}
		require.Equal(t, []string{"download_server", "start_server"}, names)
		require.True(t, answer.Jobs[0].Stages[1].Background)
		require.Equal(t, bench.TaskAborted, answer.Jobs[0].Stages[1].Node.Tasks[0].Status)
		r.register("load2", bench.LoaderRole)
		r.register("load3", bench.LoaderRole)
		both := r.start(twins)
		r.task(both, "both", "t", "a", bench.TaskRunning)
		stage = ask(r, r.JobStage, bench.StageAsk{ID: both, Stage: "0"})
		seen := map[string]string{}
		for _, n := range stage.Nodes {
			seen[n.ID] = n.Name + " " + n.Tasks[0].Status.String() + " " + n.Tasks[1].Status.String()
		}
		require.Equal(t, map[string]string{"load2": "a TASK_RUNNING TASK_QUEUED", "load3": "b TASK_QUEUED TASK_QUEUED"}, seen)

		page := ask(r, r.NodeStages, bench.NodeStagesAsk{ID: "db1", Limit: 1})
		require.Equal(t, id, page.Next)
		require.Equal(t, second, ask(r, r.NodeStages, bench.NodeStagesAsk{ID: "db1", After: page.Next}).Jobs[0].ID)
	})
}

func TestB31ClientsDoNotSetIndexAndPipeline(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		refused(r, codes.InvalidConfig, "field index not found", r.SubmitJob, bench.SubmitAsk{Spec: small + "  - {name: c, index: 7, tasks: [{driver: shell, shell: {command: z}}]}\n"})
		refused(r, codes.InvalidConfig, "field pipeline not found", r.SubmitJob, bench.SubmitAsk{Spec: small + "  - {name: c, pipeline: 7, tasks: [{driver: shell, shell: {command: z}}]}\n"})
		for i, s := range r.job(r.submit(twins)).Stages {
			require.EqualValues(t, i, s.Index)
			require.EqualValues(t, i, s.Pipeline)
		}
	})
}

func TestB36OneOfTwoWritersIsRefused(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.pair()
		id := r.start(pingpong)
		base := r.job(id).Seq
		var errs [2]error
		var both sync.WaitGroup
		for i, stage := range []string{"download_client", "download_server"} {
			node := []string{"cli", "srv"}[i]
			both.Go(func() {
				_, errs[i] = r.UpdateTask(r.ctx, agent, &bench.TaskAsk{ID: id, Stage: stage, Task: "0", Node: node, Status: bench.TaskRunning, Base: base})
			})
		}
		both.Wait()
		if errs[0] != nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.NoError(t, errs[0])
		require.Equal(t, codes.Conflict, codes.Of(errs[1]))
		require.ErrorContains(t, errs[1], fmt.Sprintf("you know update %d, the last is %d", base, base+1))
		refused(r, codes.Conflict, "you know update", r.AbortJob, bench.AbortAsk{ID: id, Base: base})
		require.Equal(t, base+1, r.job(id).Seq)
	})
}

// All agents of a job report at the same moment, as they do when a stage starts.
func TestManyAgentsReportAtOnce(t *testing.T) {
	each(t, bench.Config{MaxWaiting: 64}, func(t *testing.T, r *rig) {
		const nodes = 64
		var wanted []string
		for i := range nodes {
			r.register(fmt.Sprint("n", i), bench.LoaderRole)
			wanted = append(wanted, fmt.Sprintf("{name: m%d, role: loader}", i))
		}
		id := r.start("name: x\nnodeAssignments: [" + strings.Join(wanted, ", ") + "]\nstages: [{name: a, tasks: [{driver: shell, shell: {command: x}}]}]")
		before := r.job(id).Seq
		var agents sync.WaitGroup
		errs := make([]error, nodes)
		for i := range nodes {
			agents.Go(func() {
				for _, status := range []bench.TaskStatus{bench.TaskRunning, bench.TaskFinished} {
					if _, err := r.UpdateTask(r.ctx, agent, &bench.TaskAsk{ID: id, Stage: "a", Task: "0", Node: fmt.Sprint("m", i), Status: status}); err != nil {
						errs[i] = err
					}
				}
			})
		}
		agents.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Equal(t, bench.JobFinished, r.job(id).Status)
		require.EqualValues(t, before+2*nodes, r.job(id).Seq)
		for _, n := range ask(r, r.Nodes, bench.NodesAsk{}).Nodes {
			require.Empty(t, n.Job)
			require.Equal(t, bench.NodeIdle, n.State)
		}
	})
}

func TestTasksHaveLogAndUsage(t *testing.T) {
	each(t, bench.Config{MaxLog: 3, MaxLogChunk: 10}, func(t *testing.T, r *rig) {
		r.pair()
		id := r.start(pingpong)
		at := bench.TaskAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Usage: &bench.Usage{CPUTime: 12, MemoryMax: 34}}
		ask(r, r.UpdateTask, at)
		require.Equal(t, at.Usage, r.job(id).Stages[0].Nodes[0].Tasks[0].Usage)
		refused(r, codes.BadRequest, "status, usage", r.UpdateTask, bench.TaskAsk{ID: id, Stage: "0", Task: "0", Node: "cli"})
		seq := r.job(id).Seq
		for i := range 5 {
			q := bench.LogAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Text: fmt.Sprint("line ", i), Token: fmt.Sprint(i)}
			require.EqualValues(t, i+1, ask(r, r.LogTask, q).Seq)
			require.EqualValues(t, i+1, ask(r, r.LogTask, q).Seq, "repeated")
		}
		refused(r, codes.TooLarge, "the limit is 10", r.LogTask, bench.LogAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Text: "line that is long"})
		require.Equal(t, seq, r.job(id).Seq, "a log is no update")
		var text []string
		for after := int64(0); ; {
			page := ask(r, r.TaskLog, bench.TaskLogAsk{ID: id, Stage: "0", Task: "0", Node: "load1", After: after, Limit: 2})
			for _, c := range page.Chunks {
				text = append(text, c.Text)
			}
			if after = page.Next; after == 0 {
				break
			}
		}
		require.Equal(t, []string{"line 2", "line 3", "line 4"}, text)
	})
}

// A job that is as large as a job may be can be brought to its end, and its history says how.
func TestTheLargestJobCanBeAborted(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		const nodes, tasks = 2, 2048 / 2
		var wanted []string
		for i := range nodes {
			r.register(fmt.Sprintf("%s%02d", strings.Repeat(`<"&\`, 31)+"..", i), bench.LoaderRole)
			wanted = append(wanted, fmt.Sprintf("{name: m%d, role: loader}", i))
		}
		id := r.start("name: x\nnodeAssignments: [" + strings.Join(wanted, ", ") + "]\nstages: [{name: a, tasks: [" + strings.Repeat("{driver: shell, shell: {command: x}},", tasks) + "]}]")

		// what the agents say of it, as the store has it
		key := "run/" + id
		e := r.bed.Get(kv.BenchNamespace, key)
		const n = math.MaxInt64
		most, err := json.Marshal(bench.Task{
			Status: bench.TaskBackground, StartTime: n, ReadyTime: n, StopTime: n, Error: strings.Repeat(`"`, 67),
			Usage: &bench.Usage{CPUTime: n, MemoryMax: n, DiskRead: n, DiskWrite: n, NetRead: n, NetWrite: n},
		})
		require.NoError(t, err)
		least, err := json.Marshal(bench.Task{Status: bench.TaskQueued})
		require.NoError(t, err)
		full := strings.ReplaceAll(string(e.Value.Data), string(least), string(most))
		require.Equal(t, nodes*tasks, strings.Count(full, string(most)))
		_, err = r.bed.Txn(r.ctx, kv.PutTxn(kv.BenchNamespace, key, kv.JSONValue([]byte(full))))
		require.NoError(t, err)

		ask(r, r.AbortJob, bench.AbortAsk{ID: id, Why: strings.Repeat(`"`, 256)})
		require.Equal(t, bench.JobAborted, r.job(id).Status)
		entries := ask(r, r.JobHistory, bench.HistoryAsk{ID: id}).Entries
		require.Len(t, entries[len(entries)-1].Parts, nodes*tasks+1)
		require.Equal(t, bench.JobAborted, ask(r, r.Jobs, bench.JobsAsk{}).Jobs[0].Status)
	})
}
