package kills

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/models/bench"
)

// killedJob has a stage on two nodes, and then another.
const killedJob = `name: twins
nodeAssignments: [{name: a, role: loader}, {name: b, role: loader}]
stages:
  - {name: both, tasks: [{name: t, driver: shell, shell: {command: x}}, {name: u, driver: shell, shell: {command: y}}]}
  - {name: last, selectors: [{name: a}], tasks: [{name: z, driver: shell, shell: {command: z}}]}
`

// report is a task on a node of a job.
type report struct{ stage, task, node string }

// benchProgram submits jobs, and carries out the one that it has taken.
type benchProgram struct {
	name string
	rand *rand.Rand
	node int64 // cores that its node was last said to have
	tell int64 // that it is being said to have, not acknowledged

	jobs    map[string][]string // by the id of those that no one else changes any more: events that were acknowledged
	sent    int                 // submissions
	waiting string              // the token of a submission without an answer

	job   string // that it carries out; "": none
	hold  int64
	tasks map[report]bench.TaskStatus // as they were acknowledged
	todo  []report                    // that are left; each is to run and then to finish
	asked bench.TaskStatus            // of the first of them, without an answer
}

func (p *benchProgram) step(ctx context.Context, c *client.Client) error {
	model := calls.Bench(c)
	switch n := p.rand.IntN(10); {
	case p.waiting != "":
		return p.submit(ctx, model) // again: the same token is one job
	case n < 2:
		p.waiting = fmt.Sprint(p.name, p.sent)
		p.sent++
		return p.submit(ctx, model)
	case n == 2:
		p.tell = p.node + 1
		_, err := model.UpdateNode(ctx, &bench.NodeAsk{Node: p.info()})
		if err == nil {
			p.node = p.tell
		}
		return err
	case p.job == "":
		return p.take(ctx, model)
	case n == 3:
		return p.end(model.AbortJob(ctx, &bench.AbortAsk{ID: p.job, Why: "enough"}))
	case len(p.todo) == 0:
		return p.end(nil, nil)
	}
	return p.report(ctx, model)
}

func (p *benchProgram) info() bench.NodeInfo {
	return bench.NodeInfo{ID: p.name, Config: bench.NodeConfig{Role: bench.LoaderRole}, Capacity: bench.NodeCapacity{Cores: p.tell}}
}

func (p *benchProgram) submit(ctx context.Context, model *calls.BenchCalls) error {
	got, err := model.SubmitJob(ctx, &bench.SubmitAsk{Spec: killedJob, Token: p.waiting})
	if err == nil {
		p.jobs[got.ID], p.waiting = append(p.jobs[got.ID], "submitted"), ""
	}
	return err
}

// take takes a job and starts it, if it gets the nodes for it.
func (p *benchProgram) take(ctx context.Context, model *calls.BenchCalls) error {
	got, err := model.TakeJob(ctx, &bench.TakeAsk{TTL: 3000}) // a job that no one knows of is soon free again
	if err != nil || got.Empty {
		return err
	}
	hold := bench.HoldAsk{ID: got.ID, Hold: got.Hold}
	answer, err := model.AssignNodes(ctx, &hold)
	if err == nil && !answer.Assigned {
		_, err = model.PushBackJob(ctx, &bench.PushBackAsk{ID: got.ID, Hold: got.Hold})
		return late(err)
	}
	if err == nil {
		_, err = model.StartJob(ctx, &hold)
	}
	if err != nil {
		return late(err)
	}
	p.job, p.tasks, p.todo = got.ID, map[report]bench.TaskStatus{}, nil
	p.jobs[got.ID] = append(p.jobs[got.ID], "taken", "started")
	for _, stage := range []struct{ name, tasks, nodes string }{{"both", "tu", "ab"}, {"last", "z", "a"}} {
		for _, task := range stage.tasks {
			for _, node := range stage.nodes {
				p.todo = append(p.todo, report{stage.name, string(task), string(node)})
			}
		}
	}
	return nil
}

// late lets a hold end before its holder goes on.
func late(err error) error {
	if codes.Of(err) == codes.LeaseGone {
		return nil
	}
	return err
}

func (p *benchProgram) end(_ *bench.UpdateAnswer, err error) error {
	if err == nil || codes.Of(err) == codes.Conflict { // it has ended: the answer was lost
		p.job, err = "", nil
	}
	return err
}

// report reports on the first task that is left.
func (p *benchProgram) report(ctx context.Context, model *calls.BenchCalls) error {
	at := p.todo[0]
	p.asked = bench.TaskRunning
	if p.tasks[at] == bench.TaskRunning {
		p.asked = bench.TaskFinished
	}
	_, err := model.UpdateTask(ctx, &bench.TaskAsk{ID: p.job, Stage: at.stage, Task: at.task, Node: at.node, Status: p.asked})
	if err == nil {
		p.acknowledged(p.asked)
	}
	return err
}

func (p *benchProgram) acknowledged(status bench.TaskStatus) {
	p.tasks[p.todo[0]], p.asked = status, 0
	if status == bench.TaskFinished {
		p.todo = p.todo[1:]
	}
}

// faults implements asker.
func (p *benchProgram) faults(ctx context.Context, c *client.Client) (list []string, err error) {
	model := calls.Bench(c)
	n, err := model.Node(ctx, &bench.NodeIDAsk{ID: p.name})
	if err != nil {
		return nil, err
	}
	if cores := n.Info.Capacity.Cores; cores != p.node && cores != p.tell {
		list = append(list, fmt.Sprintf("node %s has %d cores, and %d were acknowledged and %d told", p.name, cores, p.node, p.tell))
	}
	p.node = n.Info.Capacity.Cores
	for id, acked := range p.jobs {
		history, err := model.JobHistory(ctx, &bench.HistoryAsk{ID: id})
		if err != nil {
			return list, err
		}
		at := 0
		for _, e := range history.Entries {
			if at < len(acked) && e.Event == acked[at] {
				at++
			}
		}
		if at < len(acked) {
			list = append(list, fmt.Sprintf("the history of job %s does not tell that it was %s", id, acked[at]))
		}
	}
	if p.job != "" {
		more, err := p.compare(ctx, model)
		if err != nil {
			return list, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// compare compares the tasks of its job with what was acknowledged.
func (p *benchProgram) compare(ctx context.Context, model *calls.BenchCalls) (list []string, err error) {
	j, err := model.Job(ctx, &bench.JobIDAsk{ID: p.job})
	if err != nil {
		return nil, err
	}
	if j.Status == bench.JobAborted { // by itself: the answer was lost
		p.job = ""
		return nil, nil
	}
	for _, s := range j.Stages {
		for _, n := range s.Nodes {
			for i, task := range n.Tasks {
				at := report{s.Spec.Name, s.Spec.Tasks[i].Name, n.Name}
				want := max(p.tasks[at], bench.TaskQueued)
				if len(p.todo) > 0 && at == p.todo[0] && p.asked != 0 && task.Status == p.asked {
					p.acknowledged(p.asked)
				} else if task.Status != want {
					list = append(list, fmt.Sprintf("job %s: task %v is %v, and %v was acknowledged", p.job, at, task.Status, want))
				}
			}
		}
	}
	return list, nil
}

// benchIsSound looks at all nodes and jobs: each job that runs has its nodes to itself, and
// histories have no gap and end with what is.
func benchIsSound(ctx context.Context, c *client.Client) (faults []string, err error) {
	model := calls.Bench(c)
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	nodes, err := model.Nodes(ctx, &bench.NodesAsk{})
	if err != nil {
		return nil, err
	}
	owner := map[string]string{}
	for _, n := range nodes.Nodes {
		owner[n.ID] = n.Job
		history, err := model.NodeHistory(ctx, &bench.HistoryAsk{ID: n.ID})
		if err != nil {
			return nil, err
		}
		faults = append(faults, gaps("node "+n.ID, history.Entries, n.Seq, n.State.String())...)
	}
	for after, more := "", true; more; more = after != "" {
		a, err := model.Jobs(ctx, &bench.JobsAsk{After: after})
		if err != nil {
			return nil, err
		}
		for _, head := range a.Jobs {
			j, err := model.Job(ctx, &bench.JobIDAsk{ID: head.ID})
			if err != nil {
				return nil, err
			}
			history, err := model.JobHistory(ctx, &bench.HistoryAsk{ID: head.ID})
			if err != nil {
				return nil, err
			}
			faults = append(faults, gaps("job "+j.ID, history.Entries, j.Seq, j.Status.String())...)
			has := 0
			for _, id := range owner {
				if id == j.ID {
					has++
				}
			}
			switch {
			case j.Status == bench.JobRunning && has != 2:
				fault("job %s runs, and has %d nodes", j.ID, has)
			case j.Status > bench.JobRunning && has != 0:
				fault("job %s is %v, and has %d nodes", j.ID, j.Status, has)
			}
			if j.RawSpec != killedJob {
				fault("job %s has another specification", j.ID)
			}
		}
		after = a.Next
	}
	return faults, nil
}

// gaps looks at a history that has seq entries and ends with a state.
func gaps(of string, entries []bench.Entry, seq int64, state string) (faults []string) {
	if len(entries) == 0 || entries[len(entries)-1].Seq != seq || entries[len(entries)-1].New != state {
		return []string{fmt.Sprintf("%s is %s after %d updates, and its history %v", of, state, seq, entries)}
	}
	for i, e := range entries {
		if e.Seq != int64(i)+1 || i > 0 && e.Old != entries[i-1].New {
			faults = append(faults, fmt.Sprintf("the history of %s has a gap before %+v", of, e))
		}
	}
	return faults
}

// B34: TestSoakKillBench kills the server at random moments while jobs are submitted, taken,
// assigned, started, carried out and aborted, and nodes are updated. After each start what was
// acknowledged is there, and anything else whole or not.
func TestSoakKillBench(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random, p := rand.New(rand.NewPCG(seed, 1)), process.Start(t, emptyConf(t))
	var askers []asker
	withClient(t, p, servertest.Patience, func(ctx context.Context, c *client.Client) {
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			one := &benchProgram{name: name, rand: rand.New(rand.NewPCG(seed, uint64(i)+2)), jobs: map[string][]string{}}
			_, err := calls.Bench(c).AddNode(ctx, &bench.NodeAsk{Node: one.info(), TTL: time.Hour.Milliseconds()})
			require.NoError(t, err)
			askers = append(askers, one)
		}
	})
	defer func() { t.Log("seed", seed) }()
	killModels(t, p, random, askers, benchIsSound)
	started := 0
	for _, one := range askers {
		for _, acked := range slices.Collect(maps.Values(one.(*benchProgram).jobs)) {
			if slices.Contains(acked, "started") {
				started++
			}
		}
	}
	t.Logf("%d jobs were started", started)
}
