package bench

import (
	"encoding/json"
	"strings"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
)

// Job is a job: what was submitted, and what has become of it. Times are ns since 1970, and
// 0 for what has not happened. Stages are named by their index.
//
// wide: it is the document's record, member by member.
type Job struct {
	ID               string          `json:"id" doc:"of the job"`
	RawSpec          string          `json:"rawSpec" doc:"as it was submitted, byte by byte"`
	Spec             JobSpec         `json:"spec" doc:"as it was read"`
	CreateTime       int64           `json:"createTime" doc:"when it was submitted"`
	StartTime        int64           `json:"startTime" doc:"when it was started"`
	StopTime         int64           `json:"stopTime" doc:"when it ended"`
	Status           JobStatus       `json:"status" doc:"how far it is"`
	CurrentPipeline  int64           `json:"currentPipeline" doc:"index of the pipeline that runs, or that ran last"`
	ForegroundStages []int64         `json:"foregroundStages" doc:"that run"`
	BackgroundStages []int64         `json:"backgroundStages" doc:"that run in the background"`
	FinishedStages   []int64         `json:"finishedStages" doc:"that have ended"`
	Pipelines        []StagePipeline `json:"pipelines" doc:"of stages"`
	Stages           []Stage         `json:"stages" doc:"all of them"`
	Nodes            []AssignedNode  `json:"nodes" doc:"that it was assigned"`
	Seq              int64           `json:"seq" doc:"the number of its last update, for base"`
	Attempts         int64           `json:"attempts" doc:"how often it was taken and came back"`
	Holder           string          `json:"holder,omitempty" doc:"who has taken it from the queue"`
	Error            string          `json:"error,omitempty" doc:"why it was aborted"`
	Hash             string          `json:"hash" doc:"SHA-256 of rawSpec, by which repeats are found"`
	Next             int64           `json:"next,omitempty" doc:"there are more stages: ask again with this as from"`
}

// StagePipeline is stages that run together.
type StagePipeline struct {
	Status StagePipelineStatus `json:"status" doc:"how far it is"`
	Stages []int64             `json:"stages" doc:"indexes of its stages"`
}

// Stage is a stage on all its nodes.
type Stage struct {
	Index     int64       `json:"index" doc:"in the job's stages; set by the server"`
	Pipeline  int64       `json:"pipeline" doc:"index of its pipeline; set by the server"`
	Spec      StageSpec   `json:"spec" doc:"with the names of nodes replaced by what they stand for"`
	StartTime int64       `json:"startTime" doc:"when it was started"`
	StopTime  int64       `json:"stopTime" doc:"when it ended"`
	Nodes     []NodeStage `json:"nodes" doc:"those that do it"`
}

// NodeStage is a stage on one of its nodes.
type NodeStage struct {
	ID        string         `json:"id" doc:"of the node"`
	Name      string         `json:"name" doc:"of the node in the job"`
	Role      Role           `json:"role" doc:"of the node in the job"`
	Info      NodeInfo       `json:"info" doc:"what the node was when it was assigned"`
	Pipelines []TaskPipeline `json:"pipelines" doc:"of tasks"`
	Tasks     []Task         `json:"tasks" doc:"all of them"`
}

// TaskPipeline is tasks that run together.
type TaskPipeline struct {
	Status TaskPipelineStatus `json:"status" doc:"how far it is"`
	Tasks  []int64            `json:"tasks" doc:"indexes of its tasks"`
}

// Task is a task on one node.
type Task struct {
	Status    TaskStatus `json:"status" doc:"how far it is"`
	StartTime int64      `json:"startTime" doc:"when it was started; 0: not yet"`
	ReadyTime int64      `json:"readyTime" doc:"of a background task: when it was ready"`
	StopTime  int64      `json:"stopTime" doc:"when it ended"`
	Error     string     `json:"error,omitempty" doc:"why it was aborted"`
	Usage     *Usage     `json:"usage,omitempty" doc:"what it has used so far"`
}

// Usage is what a task has used.
type Usage struct {
	CPUTime   int64 `json:"cpuTime,omitempty" doc:"ms"`
	MemoryMax int64 `json:"memoryMax,omitempty" doc:"MB"`
	DiskRead  int64 `json:"diskRead,omitempty" doc:"bytes"`
	DiskWrite int64 `json:"diskWrite,omitempty" doc:"bytes"`
	NetRead   int64 `json:"netRead,omitempty" doc:"bytes"`
	NetWrite  int64 `json:"netWrite,omitempty" doc:"bytes"`
}

func (t *Task) ended() bool { return t.Status == TaskFinished || t.Status == TaskAborted }

// JobHead is what a list of jobs tells of each.
//
// wide: it is the part of a job's record that is stored on its own.
type JobHead struct {
	ID         string    `json:"id" doc:"of the job"`
	Name       string    `json:"name" doc:"as the specification says"`
	Owner      Owner     `json:"owner" doc:"whose job it is"`
	Status     JobStatus `json:"status" doc:"how far it is"`
	CreateTime int64     `json:"createTime" doc:"when it was submitted, in ns since 1970"`
	StartTime  int64     `json:"startTime" doc:"when it was started, in ns since 1970"`
	StopTime   int64     `json:"stopTime" doc:"when it ended, in ns since 1970"`
	Current    int64     `json:"currentPipeline" doc:"index of the pipeline that runs, or that ran last"`
	Foreground []int64   `json:"foregroundStages" doc:"that run"`
	Background []int64   `json:"backgroundStages" doc:"that run in the background"`
	Finished   []int64   `json:"finishedStages" doc:"that have ended"`
	Seq        int64     `json:"seq" doc:"the number of its last update"`
	Taken      int64     `json:"taken" doc:"how often it was taken from the queue"`
	Ticket     int64     `json:"ticket,omitempty" doc:"its place in the queue"`
	Hold       int64     `json:"hold,omitempty" doc:"the hold under which its nodes were assigned"`
	Error      string    `json:"error,omitempty" doc:"why it was aborted"`
	Hash       string    `json:"hash" doc:"SHA-256 of rawSpec"`
}

// assigned is a node of a job as it was when it was assigned.
type assigned struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Role  Role            `json:"role"`
	Match ScheduleSuccess `json:"match"`
	Info  NodeInfo        `json:"info"`
}

// stageRun is what becomes of a stage.
type stageRun struct {
	Start int64     `json:"start,omitempty"`
	Stop  int64     `json:"stop,omitempty"`
	Nodes []nodeRun `json:"nodes"`
}

// nodeRun is what becomes of a stage on one node.
type nodeRun struct {
	Node  int    `json:"node"` // index in the job's nodes
	Tasks []Task `json:"tasks"`
}

// job is a job as it was read, with the entries that it was read from.
type job struct {
	JobHead
	raw   string
	spec  JobSpec
	nodes []assigned
	run   []stageRun

	// of an update
	before    JobStatus
	parts     []Part
	head      *kv.Entry
	runAt     *kv.Entry // changes by itself when only the usage of a task does
	heldEntry *kv.Entry
}

// hold is what is written under the lease of who has taken a job.
type hold struct {
	By string `json:"by"`
}

func queueKey(ticket int64) string { return numbered("queue", ticket) }

// job reads a job, all of it at once.
func (b *book) job(id string) (*job, error) {
	if err := checkName("id of the job", id); err != nil {
		return nil, err
	}
	j := &job{}
	entries := b.store.GetMany(kv.BenchNamespace, "job/"+id, "raw/"+id, "spec/"+id, "nodes/"+id, "run/"+id)
	if entries[0] == nil {
		return nil, refuse(NotFound, "job %s not found", id)
	}
	j.head, j.runAt = entries[0], entries[4]
	for i, into := range []any{&j.JobHead, nil, &j.spec, &j.nodes, &j.run} {
		if into == nil {
			j.raw = string(entries[i].Value.Data)
		} else if err := decode(entries[i], into); err != nil {
			return nil, err
		}
	}
	if j.before = j.Status; j.Ticket != 0 {
		j.heldEntry = b.store.Get(kv.BenchNamespace, queueKey(j.Ticket)+"/held")
	}
	return j, nil
}

// open is job for an update of a job that has not ended, and is still as the caller knew it.
func (b *book) open(id string, base int64) (*job, error) {
	j, err := b.job(id)
	switch {
	case err != nil:
		return nil, err
	case base != 0 && base != j.Seq:
		return nil, codes.Errorf(codes.Conflict, "job %s has changed: you know update %d, the last is %d; read it again and decide", id, base, j.Seq)
	case j.Status == JobFinished || j.Status == JobAborted:
		return nil, codes.Errorf(codes.Conflict, "job %s is %s, which is final", id, j.Status)
	}
	return j, nil
}

// save writes an updated job, and the entry in its history.
func (c *change) save(j *job, event, note string) *UpdateAnswer {
	j.Seq++
	c.unchanged("job/"+j.ID, j.head)
	c.put("job/"+j.ID, j.JobHead)
	old := ""
	if j.head != nil {
		old = j.before.String()
	}
	c.log("job/"+j.ID, Entry{Seq: j.Seq, Event: event, Old: old, New: j.Status.String(), Note: note, Parts: j.parts})
	return &UpdateAnswer{ID: j.ID, Seq: j.Seq}
}

// room is what is taken of an answer.
type room int

// maxRoom is how many bytes a list has in an answer. The rest is for what else is there: of a
// job, the specification as it came and as it was read.
const maxRoom = op.MaxAnswer - 512<<10

// has reports whether there is still room for a part, which takes it then. There is always
// room for the first one.
func (r *room) has(part any) bool {
	text, err := json.Marshal(part)
	first := *r == 0
	*r += room(len(text))
	return err == nil && (first || *r <= maxRoom)
}

// view is the job as it is shown, with its stages from one on, as many as there is room for.
func (j *job) view(from int) *Job {
	v := &Job{
		ID: j.ID, RawSpec: j.raw, Spec: j.spec, CreateTime: j.CreateTime, StartTime: j.StartTime, StopTime: j.StopTime, Status: j.Status,
		CurrentPipeline: j.Current, ForegroundStages: j.Foreground, BackgroundStages: j.Background, FinishedStages: j.Finished,
		Pipelines: make([]StagePipeline, len(j.spec.Pipelines)), Stages: []Stage{},
		Seq: j.Seq, Attempts: j.attempts(), Error: j.Error, Hash: j.Hash,
	}
	var holder hold
	_ = decode(j.heldEntry, &holder) // TakeJob wrote it
	v.Holder = holder.By
	if v.Nodes = []AssignedNode{}; j.StartTime != 0 || j.heldEntry != nil && j.Hold == int64(j.heldEntry.Lease) {
		v.Nodes = answerNodes(j.nodes)
	}
	for p := range v.Pipelines {
		v.Pipelines[p] = StagePipeline{StagePipelineStatus(j.pipelineStatus(p)), j.stagesOf(p)}
	}
	var room room
	with := known(j.nodes)
	for s := from; s < len(j.spec.Stages); s++ {
		stage := j.stage(s, with)
		if !room.has(stage) {
			v.Next = int64(s)
			break
		}
		v.Stages = append(v.Stages, stage)
	}
	return v
}

// attempts is how often the job was taken in vain.
func (j *job) attempts() int64 {
	if j.heldEntry != nil || j.StartTime != 0 {
		return j.Taken - 1
	}
	return j.Taken
}

// stagesOf are the indexes of a pipeline's stages.
func (j *job) stagesOf(pipeline int) []int64 {
	list := []int64{}
	for _, name := range j.spec.Pipelines[pipeline].Stages {
		list = append(list, int64(j.spec.stageOf(name)))
	}
	return list
}

// stage is one stage as it is shown, rendered with what is known of the nodes.
func (j *job) stage(s int, with *strings.Replacer) Stage {
	v := Stage{Index: int64(s), Pipeline: int64(j.spec.pipelineOf(j.spec.Stages[s].Name)), Spec: j.spec.Stages[s], Nodes: []NodeStage{}}
	v.Spec.Tasks = renderTasks(v.Spec.Tasks, with)
	if s >= len(j.run) {
		return v
	}
	run := j.run[s]
	v.StartTime, v.StopTime = run.Start, run.Stop
	for n := range run.Nodes {
		v.Nodes = append(v.Nodes, j.nodeStage(s, n))
	}
	return v
}

func (j *job) nodeStage(s, n int) NodeStage {
	run := &j.run[s].Nodes[n]
	at := j.nodes[run.Node]
	v := NodeStage{ID: at.ID, Name: at.Name, Role: at.Role, Info: at.Info, Tasks: run.Tasks}
	for _, tasks := range j.spec.Stages[s].order() {
		one := TaskPipeline{Status: TaskPipelineStatus(j.taskPipelineStatus(run, tasks))}
		for _, t := range tasks {
			one.Tasks = append(one.Tasks, int64(t))
		}
		v.Pipelines = append(v.Pipelines, one)
	}
	return v
}

// order is the indexes of the tasks of each pipeline.
func (s *StageSpec) order() [][]int {
	order := make([][]int, 0, len(s.Tasks))
	if len(s.Pipelines) == 0 {
		for t := range s.Tasks {
			order = append(order, []int{t})
		}
		return order
	}
	for _, p := range s.Pipelines {
		tasks := make([]int, len(p.Tasks))
		for i, name := range p.Tasks {
			tasks[i] = s.taskOf(name)
		}
		order = append(order, tasks)
	}
	return order
}
