package bench

import (
	"context"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// AssignAnswer is the nodes that a job has, or why it has none.
type AssignAnswer struct {
	Assigned bool           `json:"assigned" doc:"the job has all its nodes; if not, it has none"`
	Nodes    []AssignedNode `json:"nodes" doc:"in the order of the specification"`
	Failed   []Unassigned   `json:"failed,omitempty" doc:"what no node could be found for"`
}

// AssignedNode is a node that a job has.
type AssignedNode struct {
	ID   string          `json:"id" doc:"of the node"`
	Name string          `json:"name" doc:"of the node in the job"`
	Role Role            `json:"role" doc:"of the node in the job"`
	Why  ScheduleSuccess `json:"why" doc:"why it was chosen"`
}

// Unassigned is what no node could be found for.
type Unassigned struct {
	Name string       `json:"name" doc:"of the node in the job"`
	Role Role         `json:"role" doc:"of the node in the job"`
	Why  ScheduleFail `json:"why" doc:"why none was chosen"`
}

// AssignNodes chooses the nodes of a job that was taken: for each assignment of its
// specification one that is idle and fits, of those of the very role first. They are the job's
// alone for as long as it is held, and from its start until its end.
func (b *Bench) AssignNodes(ctx context.Context, by *access.Actor, q *HoldAsk) (*AssignAnswer, error) {
	return apply(ctx, b, by, "job/"+q.ID, q.Token, q, func(c *change) (*AssignAnswer, error) {
		j, err := b.heldJob(ctx, q.ID, q.Hold)
		if err != nil {
			return nil, err
		}
		if j.Hold == q.Hold {
			return &AssignAnswer{Assigned: true, Nodes: answerNodes(j.nodes)}, nil
		}
		nodes, err := b.living(ctx)
		if err != nil {
			return nil, err
		}
		chosen, failed := choose(j.spec.NodeAssignments, nodes)
		if len(failed) > 0 {
			return &AssignAnswer{Nodes: []AssignedNode{}, Failed: failed}, nil
		}
		c.stillHeld(j)
		for _, n := range chosen {
			c.unchanged("node/"+n.ID+"/job", nil)
			c.exists("alive/" + n.ID)
			c.putValue("node/"+n.ID+"/job", kv.StringValue(j.ID), kv.LeaseID(q.Hold))
		}
		c.put("nodes/"+j.ID, chosen)
		j.Hold = q.Hold
		c.save(j, "assigned", "")
		return &AssignAnswer{Assigned: true, Nodes: answerNodes(chosen)}, nil
	})
}

func answerNodes(nodes []assigned) []AssignedNode {
	answer := make([]AssignedNode, len(nodes))
	for i, n := range nodes {
		answer[i] = AssignedNode{n.ID, n.Name, n.Role, n.Match}
	}
	return answer
}

// everyNode reads all nodes, page by page.
func (b *book) everyNode(ctx context.Context) (all []nodeKeys, err error) {
	for after := ""; ; {
		read, more, _, err := b.nodesAfter(ctx, after)
		all = append(all, read...)
		if err != nil || !more || len(read) == 0 {
			return all, err
		}
		after = read[len(read)-1].ID
	}
}

// living is everyNode for those whose time has not ended, whether that was noticed or not.
func (b *book) living(ctx context.Context) ([]nodeKeys, error) {
	alive := map[string]bool{}
	for after, more := "", true; more; {
		page, err := b.list(ctx, "alive/", after, 0)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			after = e.Key
			alive[strings.TrimPrefix(e.Key, "alive/")] = true
		}
		more = page.More
	}
	nodes, err := b.everyNode(ctx)
	return slices.DeleteFunc(nodes, func(n nodeKeys) bool { return !alive[n.ID] }), err
}

// choose finds a node for each assignment, of those that are free. Assignments for which few
// nodes can be used are not looked at first, so that it may fail where another order would not.
func choose(assignments []NodeAssignment, nodes []nodeKeys) (chosen []assigned, failed []Unassigned) {
	used := map[string]bool{}
	for i := range assignments {
		a := &assignments[i]
		best, match, busy := -1, ScheduleSuccess(0), false
		for n := range nodes {
			fit := a.fit(&nodes[n].Info)
			free := nodes[n].State == NodeIdle && nodes[n].Job == "" && !used[nodes[n].ID]
			busy = busy || fit != 0 && !free
			if fit != 0 && free && (match == 0 || fit < match) {
				best, match = n, fit
			}
		}
		if best < 0 {
			why := IdleRoleNoMatch
			if busy && a.Properties.Role == DatabaseRole {
				why = BusyDatabase
			}
			failed = append(failed, Unassigned{a.Properties.Name, a.Properties.Role, why})
			continue
		}
		used[nodes[best].ID] = true
		role := a.Properties.Role
		if role == 0 {
			role = nodes[best].Info.Config.Role
		}
		chosen = append(chosen, assigned{nodes[best].ID, a.Properties.Name, role, match, nodes[best].Info})
	}
	return chosen, failed
}

// fit says how a node can be used for an assignment; 0: it cannot.
func (a *NodeAssignment) fit(n *NodeInfo) ScheduleSuccess {
	role := n.Config.Role
	if len(a.Selectors) > 0 {
		if !selects(a.Selectors, n.Config.Labels, []string{n.ID, n.Property.Host}, role) {
			return 0
		}
	} else if !sameRole(a.Properties.Role, role) {
		return 0
	}
	wanted := func(s Selector) bool { return s.Role == role }
	if role == a.Properties.Role || slices.ContainsFunc(a.Selectors, wanted) {
		return IdleExactRoleMatch
	}
	return IdleAnyRoleMatch
}

// StartJob starts a job on the nodes that it was assigned: from now on it is not in the queue.
func (b *Bench) StartJob(ctx context.Context, by *access.Actor, q *HoldAsk) (*UpdateAnswer, error) {
	return apply(ctx, b, by, "job/"+q.ID, q.Token, q, func(c *change) (*UpdateAnswer, error) {
		j, err := b.heldJob(ctx, q.ID, q.Hold)
		if err != nil {
			return nil, err
		}
		if j.Hold != q.Hold {
			return nil, codes.Errorf(codes.Conflict, "job %s has no nodes under hold %d: assign them first", q.ID, q.Hold)
		}
		c.stillHeld(j)
		nodes, err := b.nodesOf(ctx, j)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			if n.Job != j.ID {
				return nil, codes.Errorf(codes.Conflict, "job %s no longer has node %s: push it back", q.ID, n.ID)
			}
			c.unchanged("node/"+n.ID+"/job", n.job)
			c.putValue("node/"+n.ID+"/job", kv.StringValue(j.ID), 0) // no longer under the hold
			c.putValue("ran/"+n.ID+"/"+j.ID, kv.StringValue(""), 0)
			to := n.state
			to.State = RunningJob
			c.setState(n.ID, n, to, "started a job", "job "+j.ID)
		}
		c.unqueue(j)
		j.begin(c.now.UnixNano())
		return c.progress(j, "started", "")
	})
}

// nodesOf reads the nodes of a job that are still there.
func (b *book) nodesOf(ctx context.Context, j *job) ([]*nodeKeys, error) {
	var keys []string
	for _, n := range j.nodes {
		keys = append(keys, nodeParts(n.ID)...)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	entries, err := b.store.GetMany(ctx, b.cfg.NS, keys...)
	if err != nil {
		return nil, err
	}
	var nodes []*nodeKeys
	for i := 0; i < len(entries); i += partsOfNode {
		n := &nodeKeys{}
		if err := n.fill(entries[i : i+partsOfNode]); err != nil {
			return nil, err
		}
		if n.info != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// progress writes a job that runs, and lets its nodes go if it has ended.
func (c *change) progress(j *job, event, note string) (*UpdateAnswer, error) {
	if len(j.run) > 0 {
		c.unchanged("run/"+j.ID, j.runAt)
		c.put("run/"+j.ID, j.run)
	}
	if len(j.parts) == 0 && j.Status == j.before.Status { // only what a task has used
		c.unchanged("job/"+j.ID, j.head)
		return &UpdateAnswer{ID: j.ID}, nil
	}
	if j.Status == JobFinished || j.Status == JobAborted {
		if err := c.release(j); err != nil {
			return nil, err
		}
	}
	return c.save(j, event, note), nil
}

// release lets the nodes of a job go that has ended.
func (c *change) release(j *job) error {
	nodes, err := c.b.nodesOf(c.ctx, j)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Job != j.ID {
			continue
		}
		c.unchanged("node/"+n.ID+"/job", n.job)
		c.delete("node/" + n.ID + "/job")
		to := n.state
		if to.State == RunningJob {
			to.State = NodeIdle
		}
		c.setState(n.ID, n, to, "ended a job", "job "+j.ID+" is "+j.Status.String())
	}
	return nil
}
