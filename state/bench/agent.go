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
// NODE_JOB_FINISHED is forgotten.
func (a *Agent) Remember(ctx context.Context, j *NodeJob) error {
	if err := checkName("id of the job", j.ID); err != nil {
		return err
	}
	if err := fits("what an agent does for job "+j.ID, j, maxInfo); err != nil {
		return err
	}
	c := change{b: &book{store: a.store, cfg: Config{NS: a.ns}}, ctx: ctx}
	if j.State == NodeJobFinished {
		c.delete(a.at + "job/" + j.ID)
	} else {
		c.put(a.at+"job/"+j.ID, j)
	}
	_, err := c.commit()
	return err
}

// Status is what the agent says in its next heartbeat: all jobs that it has not finished, with
// what runs in the background.
func (a *Agent) Status(ctx context.Context) (*NodeStatus, error) {
	page, err := a.store.List(ctx, kv.List{NS: a.ns, Prefix: a.at + "job/", Limit: maxNodeJobs + 1})
	if err != nil {
		return nil, err
	}
	if len(page.Entries) > maxNodeJobs {
		return nil, codes.Errorf(codes.Limit, "the agent has more than %d jobs: finish some", maxNodeJobs)
	}
	s := &NodeStatus{State: NodeIdle}
	for _, e := range page.Entries {
		var j NodeJob
		if err := decode(e, &j); err != nil {
			return nil, err
		}
		s.Jobs = append(s.Jobs, j)
		s.State = RunningJob
	}
	return s, nil
}

// Set notes how far a task of a stage is.
func (j *NodeJob) Set(stage int64, name string, background bool, task NodeTask) {
	list := &j.ForegroundStages
	if background {
		list = &j.BackgroundStages
	}
	s := slices.IndexFunc(*list, func(w NodeWork) bool { return w.Index == stage })
	if s < 0 {
		s = len(*list)
		*list = append(*list, NodeWork{Index: stage, Name: name})
	}
	tasks := &(*list)[s].Tasks
	t := slices.IndexFunc(*tasks, func(known NodeTask) bool { return known.Index == task.Index })
	if t < 0 {
		*tasks = append(*tasks, task)
	} else {
		(*tasks)[t] = task
	}
}
