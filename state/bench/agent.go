package bench

import (
	"context"
	"crypto/rand"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/state"
)

// Agent is what an agent remembers across its restarts: which node it is, and what it does for
// which job. Without it, a restarted agent is a new node, and nobody knows of the background
// tasks that it has left running.
//
// Its store is the agent's choice: one on its own disk, or a namespace of the server.
type Agent struct {
	// set at open
	store state.Store
	ns    string
	at    string // what its keys begin with
}

// OpenAgent returns the memory of the agent with a name, which several agents in one namespace
// must not share: the name of its machine, as a rule.
func OpenAgent(store state.Store, ns, name string) (*Agent, error) {
	if err := checkName("name of the agent", name); err != nil {
		return nil, err
	}
	return &Agent{store, ns, "agent/" + name + "/"}, nil
}

// ID is the id of the agent's node: the same after every restart.
func (a *Agent) ID(ctx context.Context) (string, error) {
	key := a.at + "id"
	for {
		e, err := a.store.Get(ctx, a.ns, key)
		if err != nil {
			return "", err
		}
		if e != nil {
			return string(e.Value.Data), nil
		}
		made := kv.PutTxn(a.ns, key, kv.StringValue(rand.Text()))
		made.If = []kv.Compare{kv.Absent(a.ns, key)}
		if _, err := a.store.Txn(ctx, made); err != nil {
			return "", err
		}
	}
}

// Remember stores what the agent does for a job, before it does it. A job that is
// NODE_JOB_FINISHED is forgotten; one that is NODE_JOB_ERROR is not, so that heartbeats tell of
// it and what it has left running can be found: see Forget.
func (a *Agent) Remember(ctx context.Context, j *NodeJob) error {
	if j.State == NodeJobFinished {
		return a.Forget(ctx, j.ID)
	}
	if err := checkName("id of the job", j.ID); err != nil {
		return err
	}
	if err := fits("what an agent does for job "+j.ID, j, maxInfo); err != nil {
		return err
	}
	jobs, err := a.jobs(ctx)
	if err != nil {
		return err
	}
	if len(jobs) == maxNodeJobs && !slices.ContainsFunc(jobs, func(known NodeJob) bool { return known.ID == j.ID }) {
		return codes.Errorf(codes.Limit, "the agent has %d jobs, which is the limit: finish or forget some", maxNodeJobs)
	}
	c := a.change(ctx)
	c.put(a.at+"job/"+j.ID, j)
	_, err = c.commit()
	return err
}

// Forget forgets a job, whatever became of it.
func (a *Agent) Forget(ctx context.Context, job string) error {
	if err := checkName("id of the job", job); err != nil {
		return err
	}
	c := a.change(ctx)
	c.delete(a.at + "job/" + job)
	_, err := c.commit()
	return err
}

func (a *Agent) change(ctx context.Context) *change {
	return &change{b: &book{store: a.store, cfg: Config{NS: a.ns}}, ctx: ctx}
}

// Status is what the agent says in its next heartbeat: all jobs that it has not forgotten, with
// what runs in the background. With none but failed ones its node is idle.
func (a *Agent) Status(ctx context.Context) (*NodeStatus, error) {
	jobs, err := a.jobs(ctx)
	if err != nil {
		return nil, err
	}
	s := &NodeStatus{State: NodeIdle, Jobs: jobs}
	if slices.ContainsFunc(jobs, func(j NodeJob) bool { return j.State != NodeJobError }) {
		s.State = RunningJob
	}
	return s, nil
}

func (a *Agent) jobs(ctx context.Context) (list []NodeJob, err error) {
	page, err := a.store.List(ctx, kv.List{NS: a.ns, Prefix: a.at + "job/", Limit: maxNodeJobs})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Entries {
		var j NodeJob
		if err := decode(e, &j); err != nil {
			return nil, err
		}
		list = append(list, j)
	}
	return list, nil
}

// Set notes how far a task of a stage is. A stage that goes to the background leaves the
// foreground, with all its tasks, and stays there.
func (j *NodeJob) Set(stage int64, name string, background bool, task NodeTask) {
	find := func(list []NodeWork) int {
		return slices.IndexFunc(list, func(w NodeWork) bool { return w.Index == stage })
	}
	list, s := &j.BackgroundStages, find(j.BackgroundStages)
	if s < 0 && !background {
		list, s = &j.ForegroundStages, find(j.ForegroundStages)
	}
	if s < 0 {
		work := NodeWork{Index: stage, Name: name}
		if from := find(j.ForegroundStages); from >= 0 {
			work = j.ForegroundStages[from]
			j.ForegroundStages = slices.Delete(j.ForegroundStages, from, from+1)
		}
		s = len(*list)
		*list = append(*list, work)
	}
	tasks := &(*list)[s].Tasks
	t := slices.IndexFunc(*tasks, func(known NodeTask) bool { return known.Index == task.Index })
	if t < 0 {
		*tasks = append(*tasks, task)
	} else {
		(*tasks)[t] = task
	}
}
