package bench

import (
	"cmp"
	"context"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// Limits of what is said of a task or a job, in bytes.
const (
	maxWhy   = 256     // of a reason, which may be repeated for each task
	maxError = 4 << 10 // of what an agent reports
)

// AbortAsk ends a job early.
type AbortAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Why   string `json:"why,omitempty" doc:"for its record"`
	Base  int64  `json:"base,omitempty" doc:"only if the job's last update is this one"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// changeJob opens a job that has not ended, lets do change it, and writes it with an entry in
// its history.
func (b *Bench) changeJob(ctx context.Context, by *access.Actor, id string, base int64, token string, asked any, event, note string, do func(c *change, j *job) error) (*UpdateAnswer, error) {
	if err := checkWhy(note); err != nil {
		return nil, err
	}
	return apply(ctx, b, by, "job/"+id, token, asked, func(c *change) (*UpdateAnswer, error) {
		j, err := b.open(id, base)
		if err != nil {
			return nil, err
		}
		if err := do(c, j); err != nil {
			return nil, err
		}
		return c.progress(j, event, note)
	})
}

func checkWhy(why string) error {
	if len(why) > maxWhy {
		return codes.Errorf(codes.TooLarge, "why has %d bytes, the limit is %d", len(why), maxWhy)
	}
	return nil
}

// AbortJob ends a job that waits or runs, with all its tasks, and lets its nodes go.
func (b *Bench) AbortJob(ctx context.Context, by *access.Actor, q *AbortAsk) (*UpdateAnswer, error) {
	return b.changeJob(ctx, by, q.ID, q.Base, q.Token, q, "aborted", q.Why, func(c *change, j *job) error {
		if j.Ticket != 0 {
			c.stillHeld(j)
			c.unqueue(j)
		}
		j.abort(q.Why, c.now.UnixNano())
		return nil
	})
}

// TaskAsk is what an agent says of a task of a job.
type TaskAsk struct {
	ID     string     `json:"id" arg:"1" doc:"of the job"`
	Stage  string     `json:"stage" arg:"2" doc:"name or index of the stage"`
	Task   string     `json:"task" arg:"3" doc:"name or index of the task in the stage"`
	Node   string     `json:"node" arg:"4" doc:"id of the node, or its name in the job"`
	Status TaskStatus `json:"status,omitempty" doc:"how far it is now; without it only its usage has changed"`
	Error  string     `json:"error,omitempty" doc:"why it was aborted"`
	Usage  *Usage     `json:"usage,omitempty" doc:"what it has used so far"`
	Base   int64      `json:"base,omitempty" doc:"only if the job's last update is this one"`
	Token  string     `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// UpdateTask reports how far a task is on a node. The job goes on by it: to the next stages
// when the last one has ended, to its end, or, when an agent reports TASK_ABORTED, to
// JOB_ABORTED. What a task has used is no update: neither the history nor seq tells of it.
func (b *Bench) UpdateTask(ctx context.Context, by *access.Actor, q *TaskAsk) (*UpdateAnswer, error) {
	if len(q.Error) > maxError {
		return nil, codes.Errorf(codes.TooLarge, "error has %d bytes, the limit is %d", len(q.Error), maxError)
	}
	if q.Status == 0 && q.Usage == nil {
		return nil, codes.Errorf(codes.BadRequest, "give status, usage, or both")
	}
	return b.changeJob(ctx, by, q.ID, q.Base, q.Token, q, "task updated", "", func(c *change, j *job) error {
		s, t, n, err := j.findTask(q.Stage, q.Task, q.Node)
		if err != nil {
			return err
		}
		if q.Usage != nil {
			j.run[s].Nodes[n].Tasks[t].Usage = q.Usage
		}
		if q.Status == 0 {
			return j.active(s)
		}
		return j.report(s, n, t, q.Status, q.Error, c.now.UnixNano())
	})
}

// KillAsk stops one task.
type KillAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Stage string `json:"stage" arg:"2" doc:"name or index of the stage"`
	Task  string `json:"task" arg:"3" doc:"name or index of the task in the stage"`
	Node  string `json:"node,omitempty" doc:"id of the node, or its name in the job; without it the task is stopped on all nodes"`
	Why   string `json:"why,omitempty" doc:"for its record: killed"`
	Base  int64  `json:"base,omitempty" doc:"only if the job's last update is this one"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// KillTask stops one task of a stage that runs; the job goes on without it.
func (b *Bench) KillTask(ctx context.Context, by *access.Actor, q *KillAsk) (*UpdateAnswer, error) {
	return b.changeJob(ctx, by, q.ID, q.Base, q.Token, q, "task killed", q.Why, func(c *change, j *job) error {
		s, t, n, err := j.find(q.Stage, q.Task, q.Node)
		if err != nil {
			return err
		}
		if t < 0 {
			return codes.Errorf(codes.BadRequest, "name the task")
		}
		return j.kill(s, n, t, cmp.Or(q.Why, "killed"), c.now.UnixNano())
	})
}

// JobIDAsk names a job.
type JobIDAsk struct {
	ID   string `json:"id" arg:"1" doc:"of the job"`
	From int64  `json:"from,omitempty" doc:"leave out the stages before this index"`
}

// FindJob returns a job with everything below it. Of one whose stages are too long for an
// answer the rest is asked for with what the answer has as Next.
func (b *Bench) FindJob(_ context.Context, _ *access.Actor, q *JobIDAsk) (*Job, error) {
	j, err := b.job(q.ID)
	if err != nil {
		return nil, err
	}
	if last := int64(len(j.spec.Stages)) - 1; q.From < 0 || q.From > last {
		return nil, codes.Errorf(codes.BadRequest, "from is %d: give 0 to %d", q.From, last)
	}
	return j.view(int(q.From)), nil
}

// JobsAsk asks for the jobs that have everything that is given.
type JobsAsk struct {
	Status JobStatus `json:"status,omitempty" doc:"only jobs that are so far"`
	Owner  string    `json:"owner,omitempty" doc:"only jobs of the owner with this id or name"`
	Hash   string    `json:"hash,omitempty" doc:"only jobs of this very specification"`
	Since  int64     `json:"since,omitempty" doc:"only jobs submitted at this time or later, in ns since 1970"`
	Until  int64     `json:"until,omitempty" doc:"only jobs submitted before, in ns since 1970"`
	After  string    `json:"after,omitempty" doc:"continue behind this job"`
	Limit  int64     `json:"limit,omitempty" doc:"jobs at most: 1,000"`
}

// JobsAnswer is a list of jobs.
type JobsAnswer struct {
	Jobs []JobHead `json:"jobs" doc:"in the order in which they were submitted"`
	Next string    `json:"next,omitempty" doc:"there may be more: ask again with this as after"`
}

func (q *JobsAsk) match(h *JobHead) bool {
	return (q.Status == 0 || q.Status == h.Status) && (q.Owner == "" || q.Owner == h.Owner.ID || q.Owner == h.Owner.Name) &&
		(q.Hash == "" || q.Hash == h.Hash) && h.CreateTime >= q.Since && (q.Until == 0 || h.CreateTime < q.Until)
}

// Jobs lists jobs, those that have ended included.
func (b *Bench) Jobs(_ context.Context, _ *access.Actor, q *JobsAsk) (*JobsAnswer, error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	page, err := b.behind("job/", q.After, "", 0)
	if err != nil {
		return nil, err
	}
	answer := &JobsAnswer{Jobs: []JobHead{}}
	for i, e := range page.Entries {
		var head JobHead
		if err := decode(e, &head); err != nil {
			return nil, err
		}
		if head.Hold = 0; q.match(&head) { // it is the holder's alone
			answer.Jobs = append(answer.Jobs, head)
		}
		if last := i == len(page.Entries)-1; len(answer.Jobs) == limit && !last || last && page.More {
			answer.Next = head.ID
			break
		}
	}
	return answer, nil
}

// StageAsk names a stage of a job.
type StageAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Stage string `json:"stage" arg:"2" doc:"name or index of the stage"`
}

// JobStage returns one stage of a job on all its nodes.
func (b *Bench) JobStage(_ context.Context, _ *access.Actor, q *StageAsk) (*Stage, error) {
	j, err := b.job(q.ID)
	if err != nil {
		return nil, err
	}
	s, _, _, err := j.find(q.Stage, "", "")
	if err != nil {
		return nil, err
	}
	stage := j.stage(s, known(j.nodes))
	return &stage, nil
}

// NodeStagesAsk asks for what a node does and did.
type NodeStagesAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the node"`
	After string `json:"after,omitempty" doc:"continue behind this job"`
	Limit int64  `json:"limit,omitempty" doc:"jobs at most: 100"`
}

// NodeStagesAnswer is what a node does and did.
type NodeStagesAnswer struct {
	Jobs []NodeStages `json:"jobs" doc:"in the order in which they were submitted"`
	Next string       `json:"next,omitempty" doc:"there is more: ask again with this as after"`
}

// NodeStages is what a node does and did for one job.
type NodeStages struct {
	ID     string      `json:"id" doc:"of the job"`
	Status JobStatus   `json:"status" doc:"of the job"`
	Stages []StageWork `json:"stages" doc:"those that the node does or did"`
}

// StageWork is a stage on one node.
type StageWork struct {
	Index      int64     `json:"index" doc:"of the stage"`
	Name       string    `json:"name" doc:"of the stage"`
	Background bool      `json:"background,omitempty" doc:"it goes on until it is stopped"`
	Node       NodeStage `json:"node" doc:"how far it is on the node"`
}

// NodeStages returns all stages of all jobs that a node does or did.
func (b *Bench) NodeStages(_ context.Context, _ *access.Actor, q *NodeStagesAsk) (*NodeStagesAnswer, error) {
	const most = 100 // each is read on its own
	limit, err := pageLimit(q.Limit)
	if err == nil {
		err = checkName("id of the node", q.ID)
	}
	if err != nil {
		return nil, err
	}
	prefix := "ran/" + q.ID + "/"
	page, err := b.behind(prefix, q.After, "", min(limit, most))
	if err != nil {
		return nil, err
	}
	answer, room := &NodeStagesAnswer{Jobs: []NodeStages{}}, room(0)
	for _, e := range page.Entries {
		id := strings.TrimPrefix(e.Key, prefix)
		j, err := b.job(id)
		if err != nil {
			return nil, err
		}
		work := j.stagesOn(q.ID)
		if !room.has(work) {
			answer.Next = answer.Jobs[len(answer.Jobs)-1].ID
			break
		}
		answer.Jobs = append(answer.Jobs, work)
		if page.More {
			answer.Next = id
		}
	}
	return answer, nil
}

func (j *job) stagesOn(node string) NodeStages {
	v := NodeStages{ID: j.ID, Status: j.Status, Stages: []StageWork{}}
	for s := range j.run {
		for n, run := range j.run[s].Nodes {
			if spec := &j.spec.Stages[s]; j.nodes[run.Node].ID == node {
				v.Stages = append(v.Stages, StageWork{int64(s), spec.Name, spec.Background, j.nodeStage(s, n)})
			}
		}
	}
	return v
}

// RemoveJob removes a job that has ended, with its history and its logs.
func (b *Bench) RemoveJob(ctx context.Context, by *access.Actor, q *JobRemoveAsk) (*UpdateAnswer, error) {
	answer, err := apply(ctx, b, by, "job/"+q.ID, q.Token, q, func(c *change) (*UpdateAnswer, error) {
		j, err := b.job(q.ID)
		if err != nil {
			return nil, err
		}
		if j.Status != JobFinished && j.Status != JobAborted {
			return nil, codes.Errorf(codes.Conflict, "job %s is %s: abort it or wait for its end", q.ID, j.Status)
		}
		c.putValue("gone/"+j.ID, kv.StringValue(""), 0)
		c.unchanged("job/"+j.ID, j.head)
		for _, key := range []string{"job/", "raw/", "spec/", "nodes/", "run/"} {
			c.delete(key + j.ID)
		}
		for _, n := range j.nodes {
			c.delete("ran/" + n.ID + "/" + j.ID)
		}
		c.count("kept", -1)
		return &UpdateAnswer{ID: j.ID}, nil
	})
	if err != nil {
		return nil, err
	}
	return answer, b.clear(ctx, q.ID)
}

// clear deletes what a removed job has left, which may be more than one transaction can
// delete.
func (b *book) clear(ctx context.Context, id string) error {
	for _, prefix := range []string{"history/job/" + id + "/", "log/" + id + "/"} {
		if err := b.deleteAll(ctx, prefix); err != nil {
			return err
		}
	}
	c := &change{b: b, ctx: ctx}
	c.delete("gone/" + id)
	_, err := c.commit()
	return err
}

// clearGone is clear for all jobs whose removal was cut off.
func (b *book) clearGone(ctx context.Context) error {
	for e, err := range b.each("gone/") {
		if err == nil {
			err = b.clear(ctx, strings.TrimPrefix(e.Key, "gone/"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// JobRemoveAsk names a job to be changed.
type JobRemoveAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// deleteAll deletes all keys with a prefix, in pieces.
func (b *book) deleteAll(ctx context.Context, prefix string) error {
	for {
		res, err := b.store.Txn(ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: kv.BenchNamespace, Key: prefix, Limit: maxPage}}})
		if err != nil || !res.Ops[0].More {
			return err
		}
	}
}
