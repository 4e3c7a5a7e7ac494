package bench

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
)

// NodeAsk tells of a node.
type NodeAsk struct {
	Node  NodeInfo  `json:"node" doc:"what the node is"`
	State NodeState `json:"state,omitempty" doc:"what it does: NODE_IDLE"`
	TTL   int64     `json:"ttl,omitempty" doc:"ms of silence after which it is lost: 10,000"`
	Token string    `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// NodeIDAsk names a node.
type NodeIDAsk struct {
	ID string `json:"id" arg:"1" doc:"of the node"`
}

// NodeRemoveAsk names a node to be removed.
type NodeRemoveAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the node"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// RegisterAnswer is what a node learns of itself.
type RegisterAnswer struct {
	ID   string   `json:"id" doc:"of the node"`
	Node NodeInfo `json:"node" doc:"as it is stored: with its remote address"`
	TTL  int64    `json:"ttl" doc:"ms of silence after which it is lost"`
	Seq  int64    `json:"seq" doc:"the number of this update"`
}

// UpdateAnswer is the answer to an update of a node or a job.
type UpdateAnswer struct {
	ID  string `json:"id" doc:"of the node or job"`
	Seq int64  `json:"seq" doc:"the number of this update; 0 if its history has no entry for it"`
}

// RegisterNode stores a node, or what has changed of one that is there.
func (b *Bench) RegisterNode(ctx context.Context, by *access.Actor, q *NodeAsk) (*RegisterAnswer, error) {
	return b.enter(ctx, by, q, false)
}

// AddNode is RegisterNode for a node that must not be there yet.
func (b *Bench) AddNode(ctx context.Context, by *access.Actor, q *NodeAsk) (*RegisterAnswer, error) {
	return b.enter(ctx, by, q, true)
}

func (b *Bench) enter(ctx context.Context, by *access.Actor, q *NodeAsk, only bool) (*RegisterAnswer, error) {
	info := q.Node
	if err := info.check(by); err != nil {
		return nil, err
	}
	ttl, err := lifetime(q.TTL, b.cfg.NodeTTL)
	if err != nil {
		return nil, err
	}
	return apply(ctx, b, by, "node/"+info.ID, q.Token, q, func(c *change) (*RegisterAnswer, error) {
		n, err := b.node(info.ID)
		if err != nil {
			return nil, err
		}
		event := "registered"
		if n.info == nil {
			if err := c.countUp("nodes", b.cfg.MaxNodes, "there are %d nodes, which is the limit: remove those that are lost for good"); err != nil {
				return nil, err
			}
			if n.state.Seq, err = c.unbury(info.ID); err != nil {
				return nil, err
			}
		} else if event = "registered again"; only {
			return nil, refuse(AlreadyExists, "node %s already exists", info.ID)
		}
		if _, err := c.keepNode(info.ID, n, ttl); err != nil {
			return nil, err
		}
		c.put("node/"+info.ID+"/info", info)
		to := nodeState{State: NodeIdle, TTL: ttl.Milliseconds()}
		if q.State != 0 {
			to.State = q.State
		} else if n.job != nil && n.job.Lease == 0 { // it has been started
			to.State = RunningJob
		}
		c.setState(info.ID, n, to, event, "")
		return &RegisterAnswer{ID: info.ID, Node: info, TTL: ttl.Milliseconds(), Seq: n.state.Seq + 1}, c.tellJob(n, to)
	})
}

func lifetime(ms int64, usual time.Duration) (time.Duration, error) {
	ttl := time.Duration(ms) * time.Millisecond
	switch {
	case ms == 0:
		return usual, nil
	case ms < 0 || ms > kv.MaxLease.Milliseconds() || ttl < kv.MinLease:
		return 0, codes.Errorf(codes.BadTTL, "ttl of %d ms is out of range: the limits are %s and %s", ms, kv.MinLease, kv.MaxLease)
	}
	return ttl, nil
}

// keepNode begins the node's time anew. Only a node that was silent, or whose time is to be
// another one, costs a write of its own for it.
func (c *change) keepNode(id string, n *nodeKeys, ttl time.Duration) (revived bool, err error) {
	revived = n.has == nil
	if n.has != nil {
		lease, err := c.b.store.KeepLease(c.ctx, n.has.Lease)
		if err == nil && lease.TTL == ttl {
			c.exists("alive/" + id)
			return false, nil
		}
		if revived = codes.Of(err) == codes.LeaseGone; err != nil && !revived {
			return false, err
		}
	}
	lease, err := c.grant(ttl)
	if err != nil {
		return revived, err
	}
	c.unchanged("alive/"+id, n.has)
	if n.has != nil && !revived {
		c.revoke(n.has.Lease)
	}
	c.putValue("alive/"+id, kv.StringValue(""), lease)
	return revived, nil
}

// UpdateNode replaces what a node is. Where it is stays as the server saw it.
func (b *Bench) UpdateNode(ctx context.Context, by *access.Actor, q *NodeAsk) (*UpdateAnswer, error) {
	info := q.Node
	if err := info.check(nil); err != nil {
		return nil, err
	}
	if q.TTL != 0 {
		return nil, codes.Errorf(codes.BadRequest, "ttl is for registering: leave it out")
	}
	return apply(ctx, b, by, "node/"+info.ID, q.Token, q, func(c *change) (*UpdateAnswer, error) {
		n, err := b.known(info.ID)
		if err != nil {
			return nil, err
		}
		info.Addr.RemoteAddr, info.Addr.IP = n.Info.Addr.RemoteAddr, n.Info.Addr.IP
		c.put("node/"+info.ID+"/info", info)
		to := n.state
		if q.State != 0 {
			to.State = q.State
		}
		c.setState(info.ID, n, to, "updated", "")
		return &UpdateAnswer{ID: info.ID, Seq: n.state.Seq + 1}, nil
	})
}

// HeartbeatAsk is what a node says every now and then.
type HeartbeatAsk struct {
	ID     string     `json:"id" arg:"1" doc:"of the node"`
	Status NodeStatus `json:"status" doc:"what it does; without a state it is as before"`
}

// Heartbeat replaces the status of a node, by one durable write. Its history has an entry
// for it only if the state is another one, or if the node was lost.
func (b *Bench) Heartbeat(ctx context.Context, by *access.Actor, q *HeartbeatAsk) (*UpdateAnswer, error) {
	if len(q.Status.Jobs) > maxNodeJobs {
		return nil, codes.Errorf(codes.Limit, "a heartbeat of %d jobs: the limit is %d", len(q.Status.Jobs), maxNodeJobs)
	}
	if err := fits("a heartbeat", q, maxBeat); err != nil {
		return nil, err
	}
	return apply(ctx, b, by, "node/"+q.ID, "", q, func(c *change) (*UpdateAnswer, error) {
		n, err := b.known(q.ID)
		if err != nil {
			return nil, err
		}
		revived, err := c.keepNode(q.ID, n, n.state.ttl())
		if err != nil {
			return nil, err
		}
		beat := q.Status
		beat.State, beat.HeartbeatTime = 0, c.now.UnixNano()
		c.put("node/"+q.ID+"/beat", beat)
		to, event := n.state, "changed its state"
		to.Lost = false
		if q.Status.State != 0 {
			to.State = q.Status.State
		}
		if n.state.Lost || revived {
			event = "came back"
		}
		if to.State == n.state.State && !n.state.Lost && !revived {
			c.unchanged("node/"+q.ID+"/state", n.stateAt)
			return &UpdateAnswer{ID: q.ID}, nil
		}
		c.setState(q.ID, n, to, event, "")
		return &UpdateAnswer{ID: q.ID, Seq: n.state.Seq + 1}, c.tellJob(n, to)
	})
}

// FindNode returns a node.
func (b *Bench) FindNode(_ context.Context, _ *access.Actor, q *NodeIDAsk) (*Node, error) {
	n, err := b.known(q.ID)
	if err != nil {
		return nil, err
	}
	return &n.Node, nil
}

// RemoveNode removes a node that no job has. Its history stays, until many others are removed.
func (b *Bench) RemoveNode(ctx context.Context, by *access.Actor, q *NodeRemoveAsk) (*UpdateAnswer, error) {
	return apply(ctx, b, by, "node/"+q.ID, q.Token, q, func(c *change) (*UpdateAnswer, error) {
		n, err := b.known(q.ID)
		if err != nil {
			return nil, err
		}
		if n.Job != "" {
			return nil, codes.Errorf(codes.Conflict, "job %s has node %s: abort it or wait for its end", n.Job, q.ID)
		}
		c.unchanged("node/"+q.ID+"/state", n.stateAt)
		c.unchanged("node/"+q.ID+"/job", nil)
		c.log("node/"+q.ID, Entry{Seq: n.state.Seq + 1, Event: "removed", Old: n.state.String(), New: removed})
		for _, key := range nodeParts(q.ID) {
			c.delete(key)
		}
		if n.has != nil {
			c.revoke(n.has.Lease)
		}
		c.count("nodes", -1)
		return &UpdateAnswer{ID: q.ID, Seq: n.state.Seq + 1}, c.bury(q.ID, n.state.Seq+1)
	})
}

// NodesAsk asks for the nodes that have everything that is given.
type NodesAsk struct {
	Role     Role      `json:"role,omitempty" doc:"only nodes that prefer this role"`
	State    NodeState `json:"state,omitempty" doc:"only nodes that do this"`
	Provider Provider  `json:"provider,omitempty" doc:"only machines of this provider"`
	Label    string    `json:"label,omitempty" doc:"only nodes with these labels: name=value,name=value"`
	Lost     *bool     `json:"lost,omitempty" doc:"only nodes that are lost, or that are not"`
	After    string    `json:"after,omitempty" doc:"continue behind this node"`
	Limit    int64     `json:"limit,omitempty" doc:"nodes at most: 1,000"`
}

// NodesAnswer is a list of nodes.
type NodesAnswer struct {
	Nodes    []Node `json:"nodes" doc:"in the order of their ids"`
	Next     string `json:"next,omitempty" doc:"there may be more: ask again with this as after"`
	Revision int64  `json:"revision" doc:"of the store: the whole answer is of this moment"`
}

// Nodes lists nodes, info and status together, all of an answer read at once.
func (b *Bench) Nodes(_ context.Context, _ *access.Actor, q *NodesAsk) (*NodesAnswer, error) {
	labels, err := parseLabels(q.Label)
	if err != nil {
		return nil, err
	}
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	read, more, revision, err := b.nodesAfter(q.After)
	if err != nil {
		return nil, err
	}
	answer := &NodesAnswer{Nodes: []Node{}, Revision: int64(revision)}
	for i := range read {
		if len(answer.Nodes) == limit {
			more = true
			break
		}
		answer.Next = read[i].ID
		if q.match(&read[i].Node, labels) {
			answer.Nodes = append(answer.Nodes, read[i].Node)
		}
	}
	if !more {
		answer.Next = ""
	}
	return answer, nil
}

func (q *NodesAsk) match(n *Node, labels []Label) bool {
	return hasAll(n.Info.Config.Labels, labels) && (q.Role == 0 || q.Role == n.Info.Config.Role) && (q.State == 0 || q.State == n.State) &&
		(q.Provider == 0 || q.Provider == n.Info.Config.Provider.Name) && (q.Lost == nil || *q.Lost == n.Lost)
}

// nodesAfter reads as many whole nodes as one page of the store has.
func (b *book) nodesAfter(after string) (read []nodeKeys, more bool, at kv.Revision, err error) {
	page, err := b.behind("node/", after, "0", 0) // behind all keys of that node: 0 follows the slash
	if err != nil {
		return nil, false, 0, err
	}
	for rest := page.Entries; len(rest) > 0; {
		id, _, _ := strings.Cut(strings.TrimPrefix(rest[0].Key, "node/"), "/")
		var n nodeKeys
		parts, keys := make([]*kv.Entry, partsOfNode), nodeParts(id)
		for ; len(rest) > 0 && strings.HasPrefix(rest[0].Key, "node/"+id+"/"); rest = rest[1:] {
			if k := slices.Index(keys, rest[0].Key); k >= 0 {
				parts[k] = rest[0]
			}
		}
		if len(rest) == 0 && page.More {
			break // the rest of this node is on the next page
		}
		if err := n.fill(parts); err != nil {
			return nil, false, 0, err
		}
		read = append(read, n)
	}
	return read, page.More, page.Revision, nil
}

// NothingAsk is a question without members.
type NothingAsk struct{}

// CountAnswer is a number.
type CountAnswer struct {
	Count int64 `json:"count" doc:"how many there are"`
}

// CountNodes returns how many nodes there are.
func (b *Bench) CountNodes(_ context.Context, _ *access.Actor, _ *NothingAsk) (*CountAnswer, error) {
	n, err := b.counted("nodes")
	return &CountAnswer{n[0]}, err
}

// counted returns what countUp counts.
func (b *book) counted(names ...string) (counts []int64, err error) {
	counts = make([]int64, len(names))
	for i, name := range names {
		err = cmp.Or(err, decode(b.store.Get(kv.BenchNamespace, "count/"+name), &counts[i]))
	}
	return counts, err
}

// Used implements state.User.
func (b *Bench) Used(_ context.Context) ([]op.Used, error) {
	n, err := b.counted("nodes", "waiting", "kept")
	return []op.Used{{What: "nodes", N: n[0], Limit: b.cfg.MaxNodes}, {What: "queue", N: n[1], Limit: b.cfg.MaxQueue}, {What: "jobs", N: n[2], Limit: b.cfg.MaxJobs}}, err
}
