package bench_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/bench"
	"confcenter/models/modeltest"
	"confcenter/op"
)

func (r *rig) submit(spec string) string {
	r.t.Helper()
	return ask(r, r.SubmitJob, bench.SubmitAsk{Spec: spec}).ID
}

// start submits a job, and starts it on the nodes that there are.
func (r *rig) start(spec string) (id string) {
	r.t.Helper()
	r.submit(spec)
	got := ask(r, r.TakeJob, bench.TakeAsk{})
	hold := bench.HoldAsk{ID: got.ID, Hold: got.Hold}
	answer := ask(r, r.AssignNodes, hold)
	require.True(r.t, answer.Assigned, "%+v", answer)
	ask(r, r.StartJob, hold)
	return got.ID
}

// task reports the statuses of a task, one after the other.
func (r *rig) task(id, stage, task, node string, statuses ...bench.TaskStatus) {
	r.t.Helper()
	for _, status := range statuses {
		ask(r, r.UpdateTask, bench.TaskAsk{ID: id, Stage: stage, Task: task, Node: node, Status: status})
	}
}

// done lets a task run and finish.
func (r *rig) done(id, stage, task, node string) {
	r.t.Helper()
	r.task(id, stage, task, node, bench.TaskRunning, bench.TaskFinished)
}

func TestB13ASubmittedJobHasItsID(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		id := r.submit(pingpong)
		require.NotEmpty(t, id)
		j := r.job(id)
		require.Equal(t, id, j.ID)
		require.Equal(t, id, j.Spec.ID)
		require.Equal(t, "pingpong", j.Spec.Name)
		require.Len(t, j.Stages, 5)
		for i, s := range j.Stages {
			require.EqualValues(t, i, s.Index)
		}
		require.EqualValues(t, 3, j.Stages[4].Pipeline)
		require.Equal(t, []int64{0, 1}, j.Pipelines[0].Stages)
		require.EqualValues(t, 1, j.Pipelines[0].Status, "queued")
	})
}

func TestB14NothingIsStoredOfABrokenSpec(t *testing.T) {
	each(t, bench.Config{MaxSpec: 4 << 10, MaxTasks: 4}, func(t *testing.T, r *rig) {
		refused(r, codes.InvalidConfig, "INVALID_CONFIG: line 6: field colour", r.SubmitJob, bench.SubmitAsk{Spec: small + "colour: red"})
		refused(r, codes.InvalidConfig, "INVALID_CONFIG: ", r.SubmitJob, bench.SubmitAsk{Spec: "name: ["})
		refused(r, codes.InvalidConfig, "INVALID_CONFIG: ", r.CheckSpec, bench.CheckAsk{Spec: "name: ["})
		refused(r, codes.TooLarge, "4096", r.SubmitJob, bench.SubmitAsk{Spec: small + strings.Repeat("# \n", 2000)})
		refused(r, codes.Limit, "the limit is 4", r.SubmitJob, bench.SubmitAsk{Spec: pingpong})
		require.Zero(t, r.bed.State.Revision())
		require.Empty(t, ask(r, r.Jobs, bench.JobsAsk{}).Jobs)
		require.Equal(t, "small", ask(r, r.CheckSpec, bench.CheckAsk{Spec: small}).Name)
	})
}

func TestB16TheRawSpecIsKeptByteByByte(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		raw := "\ufeff" + strings.ReplaceAll(small, "\n", "\r\n") + "# <é> & \u2028# \t\r\n\n"
		j := r.job(r.submit(raw))
		require.Equal(t, raw, j.RawSpec)
		require.Len(t, ask(r, r.Jobs, bench.JobsAsk{Hash: j.Hash}).Jobs, 1)
	})
}

func TestB17TheSameTokenIsOneJob(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		q := bench.SubmitAsk{Spec: small, Token: "once"}
		first := ask(r, r.SubmitJob, q)
		require.Equal(t, first, ask(r, r.SubmitJob, q))
		other := r.again()
		again, err := other.SubmitJob(r.ctx, agent, &q)
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Len(t, ask(r, r.Jobs, bench.JobsAsk{}).Jobs, 1)
		q.Spec += "# another"
		refused(r, codes.TokenReused, "once", r.SubmitJob, q)
		require.NotEqual(t, first.ID, r.submit(small), "without a token it is another job")
	})
}

func TestB18TakesInOrderThenEmpty(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		var want []string
		for range 3 {
			want = append(want, r.submit(small))
		}
		for _, id := range want {
			got := ask(r, r.TakeJob, bench.TakeAsk{})
			require.Equal(t, id, got.ID)
			require.Equal(t, id, got.Spec.ID)
			require.NotZero(t, got.Hold)
			require.Regexp(t, r.actor(), r.job(id).Holder)
		}
		require.Equal(t, &bench.TakeAnswer{Empty: true}, ask(r, r.TakeJob, bench.TakeAsk{}))
	})
}

func TestB19EachJobIsHandedOutOnce(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		const jobs = 100
		for range jobs {
			r.submit(small)
		}
		var mu sync.Mutex
		var taken []string
		var pollers sync.WaitGroup
		for range 2 {
			b := r.again()
			pollers.Go(func() {
				for {
					got, err := b.TakeJob(r.ctx, agent, &bench.TakeAsk{})
					if err != nil || got.Empty {
						return
					}
					mu.Lock()
					taken = append(taken, got.ID)
					mu.Unlock()
				}
			})
		}
		pollers.Wait()
		require.Len(t, taken, jobs)
		slices.Sort(taken)
		require.Len(t, slices.Compact(taken), jobs)
	})
}

// until waits for a fact.
func (r *rig) until(fact func() bool) {
	r.t.Helper()
	require.Eventually(r.t, fact, modeltest.Patience, 10*time.Millisecond)
}

func TestB20AJobWhoseHolderDiesIsPendingAgain(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.AnyRole)
		id := r.submit(small)
		require.Zero(t, ask(r, r.TakeJob, bench.TakeAsk{TTL: 300}).Attempts)
		var held *bench.TakeAnswer
		r.until(func() bool { held = ask(r, r.TakeJob, bench.TakeAsk{}); return !held.Empty })
		require.Equal(t, id, held.ID)
		require.EqualValues(t, 1, held.Attempts)

		ask(r, r.AssignNodes, bench.HoldAsk{ID: id, Hold: held.Hold})
		require.Equal(t, id, r.node("n1").Job)
		require.Equal(t, "n1", r.job(id).Nodes[0].ID)
		_, err := r.bed.Txn(r.ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: kv.LeaseID(held.Hold)}}}) // as its end does
		require.NoError(t, err)
		require.Empty(t, r.node("n1").Job, "its nodes are free again")
		require.Empty(t, r.job(id).Nodes)
		require.EqualValues(t, 2, r.job(id).Attempts)
		hold := bench.HoldAsk{ID: id, Hold: held.Hold}
		refused(r, codes.LeaseGone, "take a job again", r.AssignNodes, hold)
		refused(r, codes.LeaseGone, "take a job again", r.StartJob, hold)
		refused(r, codes.LeaseGone, "take a job again", r.PushBackJob, bench.PushBackAsk{ID: id, Hold: held.Hold})
		refused(r, codes.LeaseGone, "take a job again", r.KeepJob, bench.KeepAsk{ID: id, Hold: held.Hold})
		hold.Hold = ask(r, r.TakeJob, bench.TakeAsk{}).Hold
		refused(r, codes.Conflict, "assign them first", r.StartJob, hold)
		require.Equal(t, time.Hour.Milliseconds(), ask(r, r.KeepJob, bench.KeepAsk{ID: id, Hold: hold.Hold}).TTL)
		ask(r, r.AssignNodes, hold)
		ask(r, r.StartJob, hold)
		require.Equal(t, "n1", r.job(id).Nodes[0].ID)
		require.EqualValues(t, 2, r.job(id).Attempts)
	})
}

func TestB21PushesBackToTheTailOrTheHead(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		a, b, c := r.submit(small), r.submit(small), r.submit(small)
		take := func(want string, attempts int64) bench.PushBackAsk {
			t.Helper()
			got := ask(r, r.TakeJob, bench.TakeAsk{})
			require.Equal(t, want, got.ID)
			require.Equal(t, attempts, got.Attempts)
			return bench.PushBackAsk{ID: got.ID, Hold: got.Hold}
		}
		q := take(a, 0)
		require.Zero(t, r.job(a).Attempts)
		ask(r, r.PushBackJob, q)
		require.EqualValues(t, 1, r.job(a).Attempts)
		q = take(b, 0)
		q.Head, q.Why = true, "no nodes"
		ask(r, r.PushBackJob, q)
		q = take(b, 1)
		take(c, 0)
		take(a, 1)
		q.Head = true
		ask(r, r.PushBackJob, q)
		take(b, 2)
		require.Equal(t, []string{"submitted:  > JOB_QUEUED", "taken: JOB_QUEUED > JOB_QUEUED", "pushed back: JOB_QUEUED > JOB_QUEUED", "taken: JOB_QUEUED > JOB_QUEUED"}, r.events(r.JobHistory, b)[:4])
	})
}

func TestB22ANewJobIsQueued(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		before := time.Now().UnixNano()
		j := r.job(r.submit(small))
		require.Equal(t, bench.JobQueued, j.Status)
		require.GreaterOrEqual(t, j.CreateTime, before)
		require.LessOrEqual(t, j.CreateTime, time.Now().UnixNano())
		require.Zero(t, j.StartTime)
		require.Zero(t, j.StopTime)
		require.Equal(t, []int64{}, j.ForegroundStages)
	})
}

func TestTheQueueHasALimit(t *testing.T) {
	each(t, bench.Config{MaxQueue: 2}, func(t *testing.T, r *rig) {
		r.submit(small)
		r.submit(small)
		ask(r, r.TakeJob, bench.TakeAsk{})
		at := r.bed.State.Revision()
		refused(r, codes.Limit, "2 jobs wait", r.SubmitJob, bench.SubmitAsk{Spec: small})
		used, err := r.Used(r.ctx)
		require.NoError(t, err)
		require.Equal(t, op.Used{What: "queue", N: 2, Limit: 2}, used[1])
		require.Equal(t, at, r.bed.State.Revision(), "a refusal costs no write")
	})
}

func TestTheNumberOfJobsHasALimit(t *testing.T) {
	each(t, bench.Config{MaxJobs: 1}, func(t *testing.T, r *rig) {
		id := r.submit(small)
		ask(r, r.AbortJob, bench.AbortAsk{ID: id})
		refused(r, codes.Limit, "1 jobs are kept, which is the limit: remove", r.SubmitJob, bench.SubmitAsk{Spec: small})
		ask(r, r.RemoveJob, bench.JobRemoveAsk{ID: id})
		r.submit(small)
	})
}

// A job that is held counts once.
func TestTheQueueHasRoomForAsManyAsItsLimit(t *testing.T) {
	each(t, bench.Config{MaxQueue: 3}, func(t *testing.T, r *rig) {
		first := r.submit(small)
		held := ask(r, r.TakeJob, bench.TakeAsk{})
		r.submit(small)
		r.submit(small)
		ask(r, r.PushBackJob, bench.PushBackAsk{ID: first, Hold: held.Hold})
		refused(r, codes.Limit, "3 jobs wait", r.SubmitJob, bench.SubmitAsk{Spec: small})
		ask(r, r.AbortJob, bench.AbortAsk{ID: first})
		r.submit(small)
		refused(r, codes.Limit, "3 jobs wait", r.SubmitJob, bench.SubmitAsk{Spec: small})
	})
}
