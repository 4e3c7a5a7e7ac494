package bench

import (
	"cmp"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// Label is something that a node is found by.
type Label struct {
	K string `json:"k" yaml:"k" doc:"its name"`
	V string `json:"v" yaml:"v" doc:"its value"`
}

// NodeInfo is what a node is, as it says when it registers.
type NodeInfo struct {
	ID       string       `json:"id" doc:"made by the agent"`
	Addr     Addr         `json:"addr" doc:"where it is"`
	Config   NodeConfig   `json:"config" doc:"what it is for"`
	Capacity NodeCapacity `json:"capacity" doc:"what it has"`
	Property NodeProperty `json:"property" doc:"where and since when it runs"`
}

// Addr is where a node is. The server knows RemoteAddr and IP better than the node.
type Addr struct {
	IP         string `json:"ip,omitempty" doc:"that others reach it by: the host of remoteAddr"`
	BindAddr   string `json:"bindAddr,omitempty" doc:"that it listens at"`
	RemoteAddr string `json:"remoteAddr,omitempty" doc:"that the server sees: host and port; what a node says of it is ignored"`
}

// NodeConfig is what a node is for.
type NodeConfig struct {
	Role     Role         `json:"role,omitempty" doc:"that it prefers"`
	Provider NodeProvider `json:"provider" doc:"whose machine it is"`
	Labels   []Label      `json:"labels,omitempty" doc:"that it is found by"`
}

// NodeProvider is whose machine a node is.
type NodeProvider struct {
	Name     Provider `json:"name,omitempty" doc:"who"`
	Region   string   `json:"region,omitempty" doc:"where"`
	Instance string   `json:"instance,omitempty" doc:"which kind"`
}

// NodeCapacity is what a node has, in MB.
type NodeCapacity struct {
	Cores       int64 `json:"cores,omitempty" doc:"of its processors"`
	MemoryFree  int64 `json:"memoryFree,omitempty" doc:"MB"`
	MemoryTotal int64 `json:"memoryTotal,omitempty" doc:"MB"`
	DiskFree    int64 `json:"diskFree,omitempty" doc:"MB"`
	DiskTotal   int64 `json:"diskTotal,omitempty" doc:"MB"`
}

// NodeProperty is where and since when a node runs.
type NodeProperty struct {
	StartTime int64  `json:"startTime,omitempty" doc:"of the agent, in s since 1970"`
	BootTime  int64  `json:"bootTime,omitempty" doc:"of the machine, in s since 1970"`
	Host      string `json:"host,omitempty" doc:"name of the machine"`
}

// NodeStatus is what a node does, as its last heartbeat said.
type NodeStatus struct {
	State         NodeState `json:"state,omitempty" doc:"what it does"`
	Jobs          []NodeJob `json:"jobs,omitempty" doc:"what it does for each job"`
	HeartbeatTime int64     `json:"heartbeatTime,omitempty" doc:"when it was last heard of, in ns since 1970; set by the server"`
}

// NodeJob is what a node does for one job.
type NodeJob struct {
	ID               string       `json:"id,omitempty" doc:"of the job"`
	Properties       Properties   `json:"properties" doc:"what the node is in the job"`
	State            NodeJobState `json:"state,omitempty" doc:"how far it is"`
	ForegroundStages []NodeWork   `json:"foregroundStages,omitempty" doc:"what it does in the foreground"`
	BackgroundStages []NodeWork   `json:"backgroundStages,omitempty" doc:"what it does in the background"`
}

// NodeWork is what a node does for one stage of a job.
type NodeWork struct {
	Index int64      `json:"index" doc:"of the stage"`
	Name  string     `json:"name" doc:"of the stage"`
	Tasks []NodeTask `json:"tasks,omitempty" doc:"of the stage"`
}

// NodeTask is one task on a node.
type NodeTask struct {
	Index  int64      `json:"index" doc:"of the task in its stage"`
	Name   string     `json:"name,omitempty" doc:"of the task"`
	Status TaskStatus `json:"status" doc:"how far it is"`
	Handle string     `json:"handle,omitempty" doc:"by which the agent finds it again: a process, a container"`
}

// Node is what is known of a node: all of it read at once.
type Node struct {
	ID    string     `json:"id" doc:"of the node"`
	State NodeState  `json:"state" doc:"what it does"`
	Lost  bool       `json:"lost,omitempty" doc:"it has been silent for too long"`
	Job   string     `json:"job,omitempty" doc:"the job that has it"`
	Seq   int64      `json:"seq" doc:"the number of its last update"`
	Info  NodeInfo   `json:"info" doc:"what it said of itself when it registered"`
	Beat  NodeStatus `json:"status" doc:"what its last heartbeat said"`
}

// nodeState is the part of a node that every update changes, so that it orders them.
type nodeState struct {
	State NodeState `json:"state"`
	Lost  bool      `json:"lost,omitempty"`
	Seq   int64     `json:"seq"`
	TTL   int64     `json:"ttl"` // ms
}

func (s nodeState) ttl() time.Duration { return time.Duration(s.TTL) * time.Millisecond }

func (s nodeState) String() string {
	if s.Lost {
		return lost
	}
	return s.State.String()
}

// What the history says of nodes that are silent, and of those that are no more.
const lost, removed = "LOST", "REMOVED"

// nodeKeys is a node as it was read, with the entries that it was read from; those that are
// absent are nil.
type nodeKeys struct {
	Node
	state                         nodeState
	info, stateAt, beat, job, has *kv.Entry // has is the key under its lease
}

const partsOfNode = 5

func nodeParts(id string) []string {
	return []string{"node/" + id + "/info", "node/" + id + "/state", "node/" + id + "/beat", "node/" + id + "/job", "alive/" + id}
}

func (n *nodeKeys) fill(entries []*kv.Entry) error {
	n.info, n.stateAt, n.beat, n.job, n.has = entries[0], entries[1], entries[2], entries[3], entries[4]
	if err := cmp.Or(decode(n.info, &n.Info), decode(n.stateAt, &n.state), decode(n.beat, &n.Beat)); err != nil {
		return err
	}
	n.State, n.Lost, n.Seq, n.Beat.State = n.state.State, n.state.Lost, n.state.Seq, n.state.State
	n.ID = n.Info.ID
	if n.job != nil {
		n.Job = string(n.job.Value.Data)
	}
	return nil
}

// node reads a node, which may be absent: its info is nil then.
func (b *book) node(id string) (*nodeKeys, error) {
	if err := checkName("id of the node", id); err != nil {
		return nil, err
	}
	n := &nodeKeys{}
	return n, n.fill(b.store.GetMany(kv.BenchNamespace, nodeParts(id)...))
}

// known is node for one that must be there.
func (b *book) known(id string) (*nodeKeys, error) {
	n, err := b.node(id)
	if err == nil && n.info == nil {
		err = refuse(NotFound, "node %s not found", id)
	}
	return n, err
}

// setState writes what a node does now, and the entry in its history.
func (c *change) setState(id string, n *nodeKeys, to nodeState, event, note string) {
	old := ""
	if n.stateAt != nil {
		old = n.state.String()
	}
	to.Seq = n.state.Seq + 1
	c.unchanged("node/"+id+"/state", n.stateAt)
	c.put("node/"+id+"/state", to)
	c.log("node/"+id, Entry{Seq: to.Seq, Event: event, Old: old, New: to.String(), Note: note})
}

// check also sets what the server knows better.
func (n *NodeInfo) check(by *access.Actor) error {
	if err := checkName("id of the node", n.ID); err != nil {
		return err
	}
	if len(n.Config.Labels) > maxLabels {
		return codes.Errorf(codes.Limit, "node %s has %d labels, the limit is %d", n.ID, len(n.Config.Labels), maxLabels)
	}
	for what, text := range map[string]string{"ip": n.Addr.IP, "bindAddr": n.Addr.BindAddr, "host": n.Property.Host, "region": n.Config.Provider.Region, "instance": n.Config.Provider.Instance} {
		if len(text) > maxText { // a specification may repeat it often
			return codes.Errorf(codes.TooLarge, "%s of node %s has %d bytes, the limit is %d", what, n.ID, len(text), maxText)
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return codes.Errorf(codes.BadRequest, "%s of node %s is no line of text", what, n.ID)
		}
	}
	n.Addr.RemoteAddr = ""
	if by != nil && by.Address != "" {
		n.Addr.RemoteAddr = by.Address
		if host, _, err := net.SplitHostPort(by.Address); err == nil {
			n.Addr.IP = host
		}
	}
	return fits("what node "+n.ID+" says of itself", n, maxInfo)
}

func fits(what string, record any, limit int) error {
	text, err := json.Marshal(record)
	if err == nil && len(text) > limit {
		err = codes.Errorf(codes.TooLarge, "%s has %d bytes, the limit is %d", what, len(text), limit)
	}
	return err
}

// hasAll reports whether a list of labels has all that are wanted.
func hasAll(labels, wanted []Label) bool {
	return !slices.ContainsFunc(wanted, func(l Label) bool { return !slices.Contains(labels, l) })
}

// parseLabels reads k=v,k=v.
func parseLabels(text string) (labels []Label, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		k, v, ok := strings.Cut(one, "=")
		if !ok || k == "" {
			return nil, codes.Errorf(codes.BadRequest, "label %.40q: give name=value, several of them with commas", one)
		}
		labels = append(labels, Label{k, v})
	}
	return labels, nil
}
