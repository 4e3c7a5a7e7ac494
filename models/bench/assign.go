package bench

import (
	"cmp"
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
		j, err := b.heldJob(q.ID, q.Hold)
		if err != nil {
			return nil, err
		}
		if j.Hold == q.Hold {
			return &AssignAnswer{Assigned: true, Nodes: answerNodes(j.nodes)}, nil
		}
		offers, err := b.offers(j.spec.NodeAssignments)
		if err != nil {
			return nil, err
		}
		nodes, failed := choose(j.spec.NodeAssignments, offers)
		if len(failed) > 0 {
			return &AssignAnswer{Nodes: []AssignedNode{}, Failed: failed}, nil
		}
		c.stillHeld(j)
		chosen := make([]assigned, len(nodes))
		for i, n := range nodes {
			a := &j.spec.NodeAssignments[i]
			chosen[i] = assigned{n.ID, a.Properties.Name, cmp.Or(a.Properties.Role, n.Info.Config.Role), a.fit(&n.Info), n.Info}
			c.unchanged("node/"+n.ID+"/job", nil)
			c.exists("alive/" + n.ID)
			c.putValue("node/"+n.ID+"/job", kv.StringValue(j.ID), kv.LeaseID(q.Hold))
			c.setState(n.ID, n, n.state, "assigned", "job "+j.ID)
		}
		if err := j.spec.checkNodes(chosen); err != nil {
			return nil, err
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

// eachNode calls do for all nodes, page by page.
func (b *book) eachNode(do func(n *nodeKeys)) error {
	for after, more := "", true; more; {
		read, rest, _, err := b.nodesAfter(after)
		if err != nil {
			return err
		}
		for i := range read {
			after = read[i].ID
			do(&read[i])
		}
		more = rest
	}
	return nil
}

// living are the ids of the nodes whose time has not ended, whether that was noticed or not.
func (b *book) living() (map[string]bool, error) {
	alive := map[string]bool{}
	for e, err := range b.each("alive/") {
		if err != nil {
			return nil, err
		}
		alive[strings.TrimPrefix(e.Key, "alive/")] = true
	}
	return alive, nil
}

// offer is the nodes that an assignment can have.
type offer struct {
	free [IdleAnyRoleMatch + 1][]*nodeKeys // by how well they fit
	some bool                              // there are nodes that fit, free or not
}

// offers looks for what each assignment can have. It keeps no more nodes of a kind for one than
// there are assignments: the others cannot take as many from it.
func (b *book) offers(assignments []NodeAssignment) ([]offer, error) {
	offers := make([]offer, len(assignments))
	alive, err := b.living()
	if err != nil {
		return nil, err
	}
	return offers, b.eachNode(func(n *nodeKeys) {
		if !alive[n.ID] {
			return
		}
		kept := *n // without what keeps the page it was read from
		kept.Beat = NodeStatus{}
		for i := range assignments {
			fit := assignments[i].fit(&n.Info)
			if fit == 0 {
				continue
			}
			offers[i].some = true
			if list := &offers[i].free[fit]; n.State == NodeIdle && n.Job == "" && len(*list) < len(assignments) {
				*list = append(*list, &kept)
			}
		}
	})
}

// choose finds a node for each assignment, if there is a way to do so, and nodes of the very
// role as long as there are some. Some of nodes are nil if others are in failed.
func choose(assignments []NodeAssignment, offers []offer) (nodes []*nodeKeys, failed []Unassigned) {
	owner := map[*nodeKeys]int{}
	var find func(i int, worst ScheduleSuccess, tried map[*nodeKeys]bool) bool
	find = func(i int, worst ScheduleSuccess, tried map[*nodeKeys]bool) bool {
		fit := slices.Concat(offers[i].free[:worst+1]...)
		for _, n := range fit {
			if _, taken := owner[n]; !taken {
				owner[n] = i
				return true
			}
		}
		for _, n := range fit { // perhaps who has it can do with another one
			if !tried[n] {
				if tried[n] = true; find(owner[n], worst, tried) {
					owner[n] = i
					return true
				}
			}
		}
		return false
	}
	found := make([]bool, len(assignments))
	for _, worst := range []ScheduleSuccess{IdleExactRoleMatch, IdleAnyRoleMatch} {
		for i := range assignments {
			found[i] = found[i] || find(i, worst, map[*nodeKeys]bool{})
		}
	}
	nodes = make([]*nodeKeys, len(assignments))
	for n, i := range owner {
		nodes[i] = n
	}
	for i, a := range assignments {
		if found[i] {
			continue
		}
		why := IdleRoleNoMatch
		if offers[i].some && a.Properties.Role == DatabaseRole {
			why = BusyDatabase
		}
		failed = append(failed, Unassigned{a.Properties.Name, a.Properties.Role, why})
	}
	return nodes, failed
}

// on reports whether a stage is for a node of its job.
func (s *StageSpec) on(n *assigned) bool {
	return len(s.Selectors) == 0 || selects(s.Selectors, n.Info.Config.Labels, []string{n.Name}, n.Role)
}

// checkNodes refuses nodes with which a stage would have nothing to do and end at once: whether
// there are the labels that it selects by is not known before.
func (s *JobSpec) checkNodes(nodes []assigned) error {
	for i := range s.Stages {
		stage := &s.Stages[i]
		if slices.ContainsFunc(stage.Selectors, func(s Selector) bool { return s.None }) {
			continue
		}
		if !slices.ContainsFunc(nodes, func(n assigned) bool { return stage.on(&n) }) {
			return codes.Errorf(codes.Conflict, "stage %s selects none of the nodes that the job would get: ask for its labels in nodeAssignments, too, or push the job back until there are other nodes", stage.Name)
		}
	}
	return nil
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
		j, err := b.heldJob(q.ID, q.Hold)
		if err != nil {
			return nil, err
		}
		if j.Hold != q.Hold {
			return nil, codes.Errorf(codes.Conflict, "job %s has no nodes under hold %d: assign them first", q.ID, q.Hold)
		}
		c.stillHeld(j)
		nodes, err := b.nodesOf(j)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			if n.Job != j.ID || n.has == nil {
				return nil, codes.Errorf(codes.Conflict, "job %s no longer has node %s, or the node is silent: push the job back", q.ID, n.ID)
			}
			c.exists("alive/" + n.ID)
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
func (b *book) nodesOf(j *job) ([]*nodeKeys, error) {
	var keys []string
	for _, n := range j.nodes {
		keys = append(keys, nodeParts(n.ID)...)
	}
	var nodes []*nodeKeys
	for parts := range slices.Chunk(b.store.GetMany(kv.BenchNamespace, keys...), partsOfNode) {
		n := &nodeKeys{}
		if err := n.fill(parts); err != nil {
			return nil, err
		}
		if n.info != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// letGo writes into the histories of a job's nodes that its hold has them no more.
func (c *change) letGo(j *job, why string) error {
	if j.Hold == 0 {
		return nil
	}
	nodes, err := c.b.nodesOf(j)
	for _, n := range nodes {
		if n.Job == j.ID || n.Job == "" { // no other job has it yet
			c.setState(n.ID, n, n.state, "let go", "job "+j.ID+" "+why)
		}
	}
	j.Hold = 0
	return err
}

// progress writes a job that runs, and lets its nodes go if it has ended.
func (c *change) progress(j *job, event, note string) (*UpdateAnswer, error) {
	if len(j.run) > 0 {
		c.unchanged("run/"+j.ID, j.runAt)
		c.put("run/"+j.ID, j.run)
	}
	if len(j.parts) == 0 && j.Status == j.before { // only what a task has used
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
	nodes, err := c.b.nodesOf(j)
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
