package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/bench"
)

// running runs the Bench until the test ends.
func (r *rig) running() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		stop()
		require.ErrorIs(r.t, <-ended, context.Canceled)
	})
}

func TestB7ASilentNodeIsLostAndComesBack(t *testing.T) {
	const limit = 300 * time.Millisecond
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		short := func(id string) bench.NodeAsk {
			return bench.NodeAsk{Node: info(id, bench.LoaderRole), State: bench.RunningJob, TTL: limit.Milliseconds()}
		}
		lost := func(id string, entries int) []bench.Entry {
			r.until(func() bool { return r.node(id).Lost && len(r.events(r.NodeHistory, id)) == entries })
			require.Equal(t, bench.RunningJob, r.node(id).State, "what it did last")
			return ask(r, r.NodeHistory, bench.HistoryAsk{ID: id}).Entries
		}
		ask(r, r.RegisterNode, short("early"))
		r.until(func() bool { return r.bed.Get(kv.BenchNamespace, "alive/early") == nil })
		r.running() // it is noticed, too, when no Bench was running at the time
		lost("early", 2)

		ask(r, r.RegisterNode, short("n1"))
		r.register("steady", bench.LoaderRole)
		entries := lost("n1", 2)
		require.GreaterOrEqual(t, entries[1].Time-entries[0].Time, limit.Nanoseconds())
		require.Equal(t, "@bench", entries[1].Actor)
		r.beat("n1", 0)
		lost("n1", 4) // its limit is the same as before
		require.Equal(t, []string{
			"registered:  > NODE_RUNNING_JOB", "lost: NODE_RUNNING_JOB > LOST", "came back: LOST > NODE_RUNNING_JOB", "lost: NODE_RUNNING_JOB > LOST",
		}, r.events(r.NodeHistory, "n1"))
		r.register("n1", bench.LoaderRole)
		require.False(t, r.node("n1").Lost)
		require.False(t, r.node("steady").Lost)
	})
}

func TestALostNodeIsNotAssigned(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		ask(r, r.RegisterNode, bench.NodeAsk{Node: info("n1", bench.AnyRole), TTL: 100})
		r.running()
		r.until(func() bool { return r.node("n1").Lost })
		r.submit(small)
		got := ask(r, r.TakeJob, bench.TakeAsk{})
		require.False(t, ask(r, r.AssignNodes, bench.HoldAsk{ID: got.ID, Hold: got.Hold}).Assigned)
	})
}

func TestB32EveryUpdateIsInTheHistory(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		before := time.Now().UnixNano()
		id := r.ready()
		ask(r, r.AbortJob, bench.AbortAsk{ID: id, Why: "enough"})
		more := info("db1", bench.DatabaseRole)
		more.Capacity.Cores++
		ask(r, r.UpdateNode, bench.NodeAsk{Node: more})
		r.beat("db1", bench.RunningJob)
		r.beat("db1", bench.RunningJob)
		ask(r, r.RemoveNode, bench.NodeRemoveAsk{ID: "load1"})
		whole := func(all []bench.Entry, seq int64) {
			t.Helper()
			require.EqualValues(t, len(all), seq)
			before, old := before, ""
			for i, e := range all {
				require.EqualValues(t, i+1, e.Seq)
				require.GreaterOrEqual(t, e.Time, before)
				require.Regexp(t, r.actor(), e.Actor)
				require.Equal(t, old, e.Old)
				before, old = e.Time, e.New
			}
		}
		all := ask(r, r.JobHistory, bench.HistoryAsk{ID: id}).Entries
		whole(all, r.job(id).Seq)
		whole(ask(r, r.NodeHistory, bench.HistoryAsk{ID: "db1"}).Entries, r.node("db1").Seq)
		whole(ask(r, r.NodeHistory, bench.HistoryAsk{ID: "load1"}).Entries, 5)
		require.Equal(t, []string{
			"registered:  > NODE_IDLE", "assigned: NODE_IDLE > NODE_IDLE", "started a job: NODE_IDLE > NODE_RUNNING_JOB", "ended a job: NODE_RUNNING_JOB > NODE_IDLE",
			"updated: NODE_IDLE > NODE_IDLE", "changed its state: NODE_IDLE > NODE_RUNNING_JOB",
		}, r.events(r.NodeHistory, "db1"))
		require.Equal(t, bench.Part{Of: "stage 0 node load1 task 0", Old: "TASK_QUEUED", New: "TASK_RUNNING"}, all[4].Parts[0])
		require.Equal(t, []bench.Part{
			{Of: "stage 2 node db1 task 0", Old: "TASK_RUNNING", New: "TASK_BACKGROUND"}, {Of: "stage 2", Old: "RUNNING", New: "BACKGROUND"}, {Of: "stage 3", Old: "QUEUED", New: "RUNNING"},
		}, all[9].Parts)
		require.Equal(t, "enough", all[10].Note)

		var paged []bench.Entry
		for after := int64(0); ; {
			page := ask(r, r.JobHistory, bench.HistoryAsk{ID: id, After: after, Limit: 3})
			require.LessOrEqual(t, len(page.Entries), 3)
			paged = append(paged, page.Entries...)
			if after = page.Next; after == 0 {
				break
			}
		}
		require.Equal(t, all, paged)
		refused(r, codes.NotFound, "job 9 not found", r.JobHistory, bench.HistoryAsk{ID: "9"})
		refused(r, codes.BadRequest, "after", r.JobHistory, bench.HistoryAsk{ID: id, After: -1})
	})
}

func TestHistoriesAreBounded(t *testing.T) {
	each(t, bench.Config{MaxHistory: 3}, func(t *testing.T, r *rig) {
		for range 5 {
			r.register("n1", bench.LoaderRole)
		}
		answer := ask(r, r.NodeHistory, bench.HistoryAsk{ID: "n1"})
		require.Len(t, answer.Entries, 3)
		require.EqualValues(t, 3, answer.Entries[0].Seq)
		require.EqualValues(t, 5, r.node("n1").Seq)
	})
}

func TestB33FinishedJobsOutliveARestart(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		r.register("n2", bench.LoaderRole)
		first := r.start(twins)
		ask(r, r.AbortJob, bench.AbortAsk{ID: first})
		between := time.Now().UnixNano()
		second := r.start(twins)
		for _, n := range []string{"a", "b"} {
			r.done(second, "both", "t", n)
			r.done(second, "both", "u", n)
		}
		r.done(second, "last", "0", "a")
		third := r.submit(small)
		before := r.job(second)

		r.bed.Restart(t)
		r = r.again()
		for want, q := range map[string]bench.JobsAsk{
			fmt.Sprint([]string{first, second, third}): {}, fmt.Sprint([]string{first}): {Status: bench.JobAborted}, fmt.Sprint([]string{second}): {Status: bench.JobFinished},
			fmt.Sprint([]string{first, second}): {Owner: "ann"}, fmt.Sprint([]string{second, third}): {Since: between}, "[]": {Owner: "bob"},
			fmt.Sprint([]string{second, third}) + "": {After: first},
		} {
			ids := []string{}
			for _, j := range ask(r, r.Jobs, q).Jobs {
				ids = append(ids, j.ID)
			}
			require.Equal(t, want, fmt.Sprint(ids), "%+v", q)
		}
		require.Len(t, ask(r, r.Jobs, bench.JobsAsk{Until: between}).Jobs, 1)
		require.Equal(t, before, r.job(second))
		page := ask(r, r.Jobs, bench.JobsAsk{Limit: 2})
		require.Equal(t, second, page.Next)
		require.Equal(t, third, ask(r, r.Jobs, bench.JobsAsk{After: page.Next}).Jobs[0].ID)
		require.Equal(t, third, ask(r, r.TakeJob, bench.TakeAsk{}).ID)
	})
}

func TestAJobIsRemovedWithAllThatIsBelowIt(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.pair()
		id := r.start(pingpong)
		ask(r, r.LogTask, bench.LogAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Text: "x"})
		refused(r, codes.Conflict, "is JOB_RUNNING: abort it", r.RemoveJob, bench.JobRemoveAsk{ID: id})
		ask(r, r.AbortJob, bench.AbortAsk{ID: id})
		ask(r, r.RemoveJob, bench.JobRemoveAsk{ID: id})
		refused(r, codes.NotFound, "job "+id+" not found", r.FindJob, bench.JobIDAsk{ID: id})
		page, err := r.bed.List(kv.List{NS: kv.BenchNamespace})
		require.NoError(t, err)
		for _, e := range page.Entries {
			require.NotContains(t, strings.Split(e.Key, "/"), id)
		}
		require.NotEqual(t, id, r.submit(small), "ids are not used again")
	})
}

// crashing is a store that a program uses that ends after some transactions.
type crashing struct {
	embedded.Store
	left int
}

func (c *crashing) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if c.left--; c.left < 0 {
		return nil, codes.Errorf(codes.Closed, "the program has ended")
	}
	return c.Store.Txn(ctx, txn)
}

// Wherever a removal is cut off, the job is there with its history and its logs, or, at the
// latest when the bench runs again, nothing of it is.
func TestARemovalThatIsCutOffIsFinished(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.pair()
		removed := map[string]bool{}
		for left := 0; ; left++ {
			id := r.start(pingpong)
			ask(r, r.LogTask, bench.LogAsk{ID: id, Stage: "0", Task: "0", Node: "cli", Text: "x"})
			ask(r, r.AbortJob, bench.AbortAsk{ID: id})
			b := bench.Open(&crashing{r.bed.Store, left}, bench.Config{})
			_, err := b.RemoveJob(r.ctx, agent, &bench.JobRemoveAsk{ID: id})
			_, found := b.FindJob(r.ctx, agent, &bench.JobIDAsk{ID: id})
			if removed[id] = found != nil; !removed[id] {
				require.Len(t, r.events(r.JobHistory, id), 5)
				require.Len(t, ask(r, r.TaskLog, bench.TaskLogAsk{ID: id, Stage: "0", Task: "0", Node: "cli"}).Chunks, 1)
			}
			if err == nil {
				break
			}
			require.Equal(t, codes.Closed, codes.Of(err))
		}
		r.running()
		r.until(func() bool {
			page, err := r.bed.List(kv.List{NS: kv.BenchNamespace})
			require.NoError(t, err)
			return !slices.ContainsFunc(page.Entries, func(e *kv.Entry) bool {
				return slices.ContainsFunc(strings.Split(e.Key, "/"), func(part string) bool { return removed[part] })
			})
		})
	})
}

// What an agent has left running is in its last heartbeat, also after it has started again.
func TestB35ARestartedAgentReportsWhatItHasNotFinished(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.DatabaseRole)
		told := bench.NodeStatus{State: bench.RunningJob, Jobs: []bench.NodeJob{{
			ID: "7", Properties: bench.Properties{Name: "srv", Role: bench.DatabaseRole}, State: bench.NodeJobRunning,
			ForegroundStages: []bench.NodeWork{{Index: 0, Name: "download", Tasks: []bench.NodeTask{{Index: 0, Status: bench.TaskFinished}}}},
			BackgroundStages: []bench.NodeWork{{Index: 2, Name: "serve", Tasks: []bench.NodeTask{{Index: 0, Name: "serve", Status: bench.TaskBackground, Handle: "pid 4711"}}}},
		}}}
		ask(r, r.Heartbeat, bench.HeartbeatAsk{ID: "n1", Status: told})

		r.bed.Restart(t)
		r = r.again()
		r.register("n1", bench.DatabaseRole)
		n := r.node("n1")
		require.Equal(t, told.Jobs, n.Beat.Jobs)
		ask(r, r.Heartbeat, bench.HeartbeatAsk{ID: "n1", Status: bench.NodeStatus{State: bench.RunningJob, Jobs: n.Beat.Jobs}})
		require.Equal(t, bench.RunningJob, r.node("n1").State)
		require.Equal(t, told.Jobs, r.node("n1").Beat.Jobs)
	})
}

func TestB37AWatcherIsToldOldAndNewState(t *testing.T) {
	wired(t, func(t *testing.T, r *rig, calls *calls.BenchCalls) {
		r.pair()
		id := r.submit(pingpong)
		watch := func(of bench.Of) func(event string) bench.Change {
			w, err := calls.Watch(r.ctx, of, 0)
			require.NoError(t, err)
			t.Cleanup(w.Stop)
			return func(event string) bench.Change {
				t.Helper()
				c, err := w.Next(r.ctx)
				require.NoError(t, err)
				require.Equal(t, event, c.Event+": "+c.Old+" > "+c.New)
				require.False(t, c.Missed)
				return c
			}
		}
		job, node, all := watch(bench.Of{Job: id}), watch(bench.Of{Node: "db1"}), watch(bench.Of{})
		r.beat("load1", bench.NodeIdle)
		got := ask(r, r.TakeJob, bench.TakeAsk{})
		hold := bench.HoldAsk{ID: id, Hold: got.Hold}
		ask(r, r.AssignNodes, hold)
		ask(r, r.StartJob, hold)
		job("taken: JOB_QUEUED > JOB_QUEUED")
		job("assigned: JOB_QUEUED > JOB_QUEUED")
		c := job("started: JOB_QUEUED > JOB_RUNNING")
		require.Equal(t, id, c.Job)
		require.NotZero(t, c.Revision)
		node("assigned: NODE_IDLE > NODE_IDLE")
		require.Equal(t, "db1", node("started a job: NODE_IDLE > NODE_RUNNING_JOB").Node)
		ask(r, r.AbortJob, bench.AbortAsk{ID: id})
		job("aborted: JOB_RUNNING > JOB_ABORTED")
		node("ended a job: NODE_RUNNING_JOB > NODE_IDLE")
		all("taken: JOB_QUEUED > JOB_QUEUED")
		all("assigned: JOB_QUEUED > JOB_QUEUED")

		since, err := calls.Watch(r.ctx, bench.Of{Job: id}, c.Revision)
		require.NoError(t, err)
		defer since.Stop()
		next, err := since.Next(r.ctx)
		require.NoError(t, err)
		require.Equal(t, "JOB_ABORTED", next.New)
		_, err = calls.Watch(r.ctx, bench.Of{Job: "a", Node: "b"}, 0)
		require.Equal(t, codes.BadRequest, codes.Of(err))
	})
}

// A watcher that continues behind any change misses none, however many came together; behind the last
// of those that were written together it is told none twice.
func TestAWatchContinuesBehindEachChange(t *testing.T) {
	wired(t, func(t *testing.T, r *rig, calls *calls.BenchCalls) {
		read := func(after kv.Revision, n int) (list []bench.Change) {
			t.Helper()
			w, err := calls.Watch(r.ctx, bench.Of{}, after)
			require.NoError(t, err)
			defer w.Stop()
			for len(list) < n {
				c, err := w.Next(r.ctx)
				require.NoError(t, err)
				list = append(list, c)
			}
			return list
		}
		name := func(c bench.Change) string { return fmt.Sprint(c.Job, c.Node, " ", c.Seq) }
		w, err := calls.Watch(r.ctx, bench.Of{}, 0)
		require.NoError(t, err)
		defer w.Stop()
		r.pair()
		ask(r, r.AbortJob, bench.AbortAsk{ID: r.start(pingpong)})
		var all []bench.Change
		for len(all) < 5+2*4 { // of the job and of each node
			c, err := w.Next(r.ctx)
			require.NoError(t, err)
			all = append(all, c)
		}
		// the nodes are registered, and the job is submitted and taken; the rest is three times three
		together := []int{1, 1, 1, 1, 3, 3, 3}
		begin, i := 0, 0
		for _, n := range together {
			for last := begin + n - 1; i <= last; i++ {
				next := begin
				if i == last {
					next = i + 1
				}
				for k, c := range read(all[i].Revision, len(all)-next) {
					require.Equal(t, name(all[next+k]), name(c))
				}
			}
			begin += n
		}
		require.Equal(t, len(all), begin)
	})
}

// So it is of a store that was empty when the watch began.
func TestAWatchOfAnEmptyStoreTellsInOrder(t *testing.T) {
	wired(t, func(t *testing.T, r *rig, calls *calls.BenchCalls) {
		w, err := calls.Watch(r.ctx, bench.Of{}, 0)
		require.NoError(t, err)
		defer w.Stop()
		for _, id := range []string{"b", "a"} {
			r.register(id, bench.LoaderRole)
		}
		r.register("b", bench.LoaderRole)
		for _, want := range []string{"b 1", "a 1", "b 2"} {
			c, err := w.Next(r.ctx)
			require.NoError(t, err)
			require.Equal(t, want, fmt.Sprint(c.Node, " ", c.Seq))
		}
	})
}

// notices is a watch that tells them.
type notices []kv.Notice

func (n *notices) Next(context.Context) (kv.Notice, error) {
	first := (*n)[0]
	*n = (*n)[1:]
	return first, nil
}

func (n *notices) Stop() {}

func TestAWatcherIsToldThatItHasMissedChanges(t *testing.T) {
	entry := []kv.Event{{Kind: kv.Put, Entry: &kv.Entry{Key: "history/node/n1/0000000000000001", Create: 8, Mod: 8, Version: 1, Value: kv.JSONValue([]byte(`{"seq":1,"event":"lost"}`))}}}
	w := bench.NewWatch(&notices{
		{Kind: kv.Resync, Revision: 6}, {Kind: kv.State, Revision: 7, Events: entry}, {Kind: kv.Synced, Revision: 7}, {Kind: kv.Changed, Revision: 8, Events: entry},
	})
	c, err := w.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, bench.Change{Missed: true, Revision: 7}, c)
	c, err = w.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, bench.Change{Node: "n1", Entry: bench.Entry{Seq: 1, Event: "lost"}, Revision: 8}, c)
}

// pairs is a store in which a transaction with conditions waits for another one.
type pairs struct {
	embedded.Store
	meet chan struct{}
}

func (p *pairs) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if len(txn.If) > 0 {
		select {
		case p.meet <- struct{}{}:
		case <-p.meet:
		case <-ctx.Done():
		}
	}
	return p.Store.Txn(ctx, txn)
}

// When many nodes fall silent at once, none waits for the others to be written.
func TestB7NodesAreLostTogether(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		for _, id := range []string{"n1", "n2"} {
			r.register(id, bench.LoaderRole)
			r.silence(id)
		}
		sweeps := r.again()
		sweeps.program = program{bench.Open(&pairs{r.bed.Store, make(chan struct{})}, bench.Config{})}
		sweeps.running()
		r.until(func() bool { return r.node("n1").Lost && r.node("n2").Lost })
	})
}

// What goes wrong is told to who runs it.
func TestRunTellsWhatGoesWrong(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		if r.bed.Wire() {
			return // the server runs a Bench, too, which may be the first to lose the node
		}
		ask(r, r.RegisterNode, bench.NodeAsk{Node: info("n1", bench.LoaderRole), TTL: 100})
		full := codes.Errorf(codes.Busy, "the disk is full")
		b := bench.Open(&hooked{Store: r.bed.Store, fails: full}, bench.Config{})
		require.ErrorIs(t, b.Run(r.ctx), full)
	})
}

func TestB34WhatWasAcknowledgedIsThereWithItsHistory(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		const updates, cut = 100, 30
		r.register("n1", bench.LoaderRole)
		some, done := make(chan struct{}), make(chan int64)
		go func() {
			acknowledged := int64(1)
			defer func() { done <- acknowledged }()
			for i := range updates {
				if i == cut {
					close(some)
				}
				answer, err := r.UpdateNode(r.ctx, agent, &bench.NodeAsk{Node: info("n1", bench.Role(i%4+1))})
				if err != nil {
					return
				}
				acknowledged = answer.Seq
			}
		}()
		<-some
		r.bed.Restart(t) // a store near ends, and a connection goes on
		acknowledged := <-done
		r = r.again()
		n := r.node("n1")
		require.GreaterOrEqual(t, acknowledged, int64(cut))
		require.GreaterOrEqual(t, n.Seq, acknowledged)
		entries := ask(r, r.NodeHistory, bench.HistoryAsk{ID: "n1"}).Entries
		require.EqualValues(t, n.Seq, len(entries))
		require.Equal(t, bench.Role((n.Seq-2)%4+1), n.Info.Config.Role)
	})
}

// The machine's clock is put back, by an hour: what histories say never is, and neither is what a job
// says of itself.
func TestTimesOfAHistoryNeverStepBack(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		if r.bed.Wire() {
			return // the server has its own clock
		}
		at := func(hour int64) *rig {
			other := *r
			other.use(bench.Open(r.bed.Store, bench.Config{Clock: clocktest.NewFake(time.Unix(3600*hour, 0)), NodeTTL: time.Hour, HoldTTL: time.Hour}))
			return &other
		}
		noon, before := at(12), at(11)
		noon.register("n1", bench.LoaderRole)
		before.register("n1", bench.AnyRole)
		before.beat("n1", bench.NodeIdle)
		id := noon.submit(small)
		got := ask(before, before.TakeJob, bench.TakeAsk{})
		hold := bench.HoldAsk{ID: id, Hold: got.Hold}
		require.True(t, ask(before, before.AssignNodes, hold).Assigned)
		ask(before, before.StartJob, hold)
		for _, text := range []string{"a", "b"} {
			ask(noon, noon.LogTask, bench.LogAsk{ID: id, Stage: "a", Task: "0", Node: "n1", Text: text})
			noon = before
		}
		ask(before, before.AbortJob, bench.AbortAsk{ID: id})
		ask(before, before.RemoveNode, bench.NodeRemoveAsk{ID: "n1"})
		before.register("n1", bench.AnyRole)
		for _, history := range []*bench.HistoryAnswer{ask(r, r.NodeHistory, bench.HistoryAsk{ID: "n1"}), ask(r, r.JobHistory, bench.HistoryAsk{ID: id})} {
			require.Greater(t, len(history.Entries), 3)
			for _, e := range history.Entries {
				require.Equal(t, 12*time.Hour.Nanoseconds(), e.Time, "%d %s", e.Seq, e.Event)
			}
		}
		for _, chunk := range ask(r, r.TaskLog, bench.TaskLogAsk{ID: id, Stage: "a", Task: "0", Node: "n1"}).Chunks {
			require.Equal(t, 12*time.Hour.Nanoseconds(), chunk.Time)
		}
		job := r.job(id)
		require.Equal(t, []int64{12 * time.Hour.Nanoseconds(), 12 * time.Hour.Nanoseconds()}, []int64{job.StartTime, job.StopTime})
	})
}
