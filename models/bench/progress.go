package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"confcenter/codes"
)

// The rules by which a job goes from stage to stage. They touch no store: an update reads the
// job, applies one of them, and writes it.

// mayFollow has, for each status of a task, those that an agent can report next.
var mayFollow = map[TaskStatus][]TaskStatus{
	TaskQueued:     {TaskRunning, TaskAborted},
	TaskRunning:    {TaskBackground, TaskFinished, TaskAborted},
	TaskBackground: {TaskFinished, TaskAborted},
}

// begin starts a job on the nodes that it was assigned.
func (j *job) begin(now int64) {
	j.Status, j.StartTime = JobRunning, now
	j.run = make([]stageRun, len(j.spec.Stages))
	for s := range j.run {
		spec := &j.spec.Stages[s]
		for n, at := range j.nodes {
			if !spec.on(&at) {
				continue
			}
			run := nodeRun{Node: n, Tasks: make([]Task, len(spec.Tasks))}
			for t := range run.Tasks {
				run.Tasks[t].Status = TaskQueued
			}
			j.run[s].Nodes = append(j.run[s].Nodes, run)
		}
	}
	j.enter(0, now)
	j.advance(now)
}

// enter starts the stages of a pipeline.
func (j *job) enter(pipeline int64, now int64) {
	j.Current = pipeline
	for _, s := range j.stagesOf(int(pipeline)) {
		j.run[s].Start = now
		j.Foreground = append(j.Foreground, s)
		j.note(fmt.Sprintf("stage %d", s), "QUEUED", "RUNNING")
	}
}

// note adds to what the entry in the history lists.
func (j *job) note(of, from, to string) { j.parts = append(j.parts, Part{of, from, to}) }

// advance moves on whatever can move, until nothing can.
func (j *job) advance(now int64) {
	for j.Status == JobRunning && (j.moveStages(now) || j.movePipeline(now)) {
	}
}

// moveStages takes stages out of the foreground that are in the background now or have ended,
// and those out of the background that have ended.
func (j *job) moveStages(now int64) (moved bool) {
	for _, s := range slices.Clone(j.Foreground) {
		switch ended, ready := j.stageProgress(int(s)); {
		case ended:
			j.leave(&j.Foreground, s, now)
			moved = true
		case ready:
			j.Foreground = without(j.Foreground, s)
			j.Background = append(j.Background, s)
			j.note(fmt.Sprintf("stage %d", s), "RUNNING", "BACKGROUND")
			moved = true
		}
	}
	for _, s := range slices.Clone(j.Background) {
		if ended, _ := j.stageProgress(int(s)); ended {
			j.leave(&j.Background, s, now)
			moved = true
		}
	}
	return moved
}

// stageStatus is what the history calls the status of a stage that runs.
func (j *job) stageStatus(s int64) string {
	if slices.Contains(j.Background, s) {
		return "BACKGROUND"
	}
	return "RUNNING"
}

// leave takes an ended stage out of a list, and stops what its stoppers name.
func (j *job) leave(list *[]int64, s, now int64) {
	j.note(fmt.Sprintf("stage %d", s), j.stageStatus(s), "FINISHED")
	*list = without(*list, s)
	j.Finished = append(j.Finished, s)
	j.run[s].Stop = now
	for i := range j.spec.Stages[s].Tasks {
		if stop := j.spec.Stages[s].Tasks[i].Stopper; stop != nil {
			target := j.spec.stageOf(stop.Stage)
			only := -1
			if stop.Task != "" {
				only = j.spec.Stages[target].taskOf(stop.Task)
			}
			j.endTasks(target, only, TaskFinished, "", now)
		}
	}
}

// movePipeline goes on to the next pipeline, or ends the job, when no stage is in the
// foreground any more. What is still in the background then is stopped.
func (j *job) movePipeline(now int64) bool {
	if len(j.Foreground) > 0 {
		return false
	}
	if next := j.Current + 1; int(next) < len(j.spec.Pipelines) {
		j.enter(next, now)
		return true
	}
	for _, s := range slices.Clone(j.Background) {
		j.endTasks(int(s), -1, TaskFinished, "", now)
		j.leave(&j.Background, s, now)
	}
	j.Status, j.StopTime = JobFinished, now
	return false
}

// abort ends a job, whatever it does.
func (j *job) abort(why string, now int64) {
	for s := range j.run {
		j.endTasks(s, -1, TaskAborted, "", now)
		if j.run[s].Start != 0 && j.run[s].Stop == 0 {
			j.run[s].Stop = now
			j.note(fmt.Sprintf("stage %d", s), j.stageStatus(int64(s)), "ABORTED")
		}
	}
	j.Foreground, j.Background = []int64{}, []int64{}
	j.Status, j.StopTime, j.Error = JobAborted, now, why
}

// endTasks ends the tasks of a stage, on all its nodes, or only one of them.
func (j *job) endTasks(s, only int, status TaskStatus, why string, now int64) {
	for n := range j.run[s].Nodes {
		for t := range j.run[s].Nodes[n].Tasks {
			if task := &j.run[s].Nodes[n].Tasks[t]; (only < 0 || only == t) && !task.ended() {
				j.setTask(s, n, t, status, now)
				task.Error = why
			}
		}
	}
}

func (j *job) setTask(s, n, t int, status TaskStatus, now int64) {
	task := &j.run[s].Nodes[n].Tasks[t]
	j.note(fmt.Sprintf("stage %d node %s task %d", s, j.nodes[j.run[s].Nodes[n].Node].ID, t), task.Status.String(), status.String())
	task.Status = status
	switch status {
	case TaskRunning:
		task.StartTime = now
	case TaskBackground:
		task.ReadyTime = now
	case TaskFinished, TaskAborted:
		task.StopTime = now
	}
}

// report is what an agent says of a task.
func (j *job) report(s, n, t int, status TaskStatus, why string, now int64) error {
	task, spec := &j.run[s].Nodes[n].Tasks[t], &j.spec.Stages[s].Tasks[t]
	where := fmt.Sprintf("task %d of stage %d on node %s", t, s, j.nodes[j.run[s].Nodes[n].Node].ID)
	if !slices.Contains(mayFollow[task.Status], status) {
		return codes.Errorf(codes.Conflict, "%s is %s and cannot become %s", where, task.Status, status)
	}
	if status == TaskBackground && !spec.Background {
		return codes.Errorf(codes.Conflict, "%s cannot become %s: it is not a background task", where, status)
	}
	if err := j.active(s); err != nil {
		return err
	}
	if status == TaskRunning && !j.turn(s, n, t) {
		return codes.Errorf(codes.Conflict, "%s cannot become %s: tasks of an earlier pipeline have not ended", where, status)
	}
	j.setTask(s, n, t, status, now)
	task.Error = reason(why)
	if status == TaskAborted {
		j.abort(fmt.Sprintf("%s was aborted: %s", where, why), now)
		return nil
	}
	j.advance(now)
	return nil
}

// reason is what the record of a job keeps of why a task has ended. All tasks of a job are
// in one value, which must never be too large to be written: the job could not even be
// aborted. The log of the task has room for more.
func reason(why string) string {
	why = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\u2028' || r == '\u2029' {
			return ' ' // each would be six bytes of JSON
		}
		return r
	}, why)
	return brief(why, maxReason)
}

// kill ends one task of a running stage, on one node or, with -1, on all; the job goes on.
func (j *job) kill(s, node, t int, why string, now int64) error {
	if err := j.active(s); err != nil {
		return err
	}
	killed := false
	for n := range j.run[s].Nodes {
		if task := &j.run[s].Nodes[n].Tasks[t]; (node < 0 || node == n) && !task.ended() {
			j.setTask(s, n, t, TaskAborted, now)
			task.Error, killed = reason(why), true
		}
	}
	if !killed {
		return codes.Errorf(codes.Conflict, "task %d of stage %d has ended already", t, s)
	}
	j.advance(now)
	return nil
}

// active refuses what concerns a stage that does not run.
func (j *job) active(s int) error {
	if j.Status != JobRunning {
		return codes.Errorf(codes.Conflict, "job %s is %s: start it first", j.ID, j.Status)
	}
	if at := int64(s); !slices.Contains(j.Foreground, at) && !slices.Contains(j.Background, at) {
		state := "not been started"
		if slices.Contains(j.Finished, at) {
			state = "ended"
		}
		return codes.Errorf(codes.Conflict, "stage %d of job %s has %s", s, j.ID, state)
	}
	return nil
}

// turn reports whether all tasks of earlier pipelines have ended or are in the background.
func (j *job) turn(s, n, t int) bool {
	for _, tasks := range j.spec.Stages[s].order() {
		if slices.Contains(tasks, t) {
			return true
		}
		if status := j.taskPipelineStatus(&j.run[s].Nodes[n], tasks); status != pipelineFinished && status != pipelineBackground {
			return false
		}
	}
	return true
}

// stageProgress reports whether all tasks of a stage have ended, and whether those that have
// not are in the background.
func (j *job) stageProgress(s int) (ended, ready bool) {
	ended, ready = true, true
	for n := range j.run[s].Nodes {
		for t := range j.run[s].Nodes[n].Tasks {
			task := &j.run[s].Nodes[n].Tasks[t]
			ended = ended && task.ended()
			ready = ready && (task.ended() || task.Status == TaskBackground)
		}
	}
	return ended, ready
}

// taskPipelineStatus follows from the tasks.
func (j *job) taskPipelineStatus(run *nodeRun, tasks []int) int {
	count := map[TaskStatus]int{}
	for _, t := range tasks {
		count[run.Tasks[t].Status]++
	}
	switch all := len(tasks); {
	case j.Status == JobAborted && count[TaskFinished] < all:
		return pipelineAborted
	case count[TaskFinished]+count[TaskAborted] == all:
		return pipelineFinished
	case count[TaskFinished]+count[TaskAborted]+count[TaskBackground] == all:
		return pipelineBackground
	case count[TaskQueued] == all:
		return pipelineQueued
	}
	return pipelineRunning
}

// pipelineStatus follows from the stages.
func (j *job) pipelineStatus(p int) int {
	stages := j.stagesOf(p)
	in := func(list []int64) (n int) {
		for _, s := range stages {
			if slices.Contains(list, s) {
				n++
			}
		}
		return n
	}
	switch all := len(stages); {
	case in(j.Finished) == all:
		return pipelineFinished
	case j.Status == JobAborted:
		return pipelineAborted
	case in(j.Foreground) > 0:
		return pipelineRunning
	case in(j.Background) > 0:
		return pipelineBackground
	}
	return pipelineQueued
}

func without(list []int64, one int64) []int64 {
	return slices.DeleteFunc(list, func(n int64) bool { return n == one })
}

// find returns the indexes of a stage, of a task, and of a node in that stage, which are
// named by name or by index; -1 for what is not named.
func (j *job) find(stage, task, node string) (s, t, n int, err error) {
	t, n = -1, -1
	if s = indexOf(stage, j.spec.stageOf(stage), len(j.spec.Stages)); s < 0 {
		return 0, 0, 0, refuse(NotFound, "job %s has no stage %.40q", j.ID, stage)
	}
	spec := &j.spec.Stages[s]
	if task != "" {
		if t = indexOf(task, spec.taskOf(task), len(spec.Tasks)); t < 0 {
			return 0, 0, 0, refuse(NotFound, "stage %s of job %s has no task %.40q", spec.Name, j.ID, task)
		}
	}
	if node != "" && s < len(j.run) {
		at := slices.IndexFunc(j.nodes, func(at assigned) bool { return at.ID == node })
		if at < 0 { // the id of a node may be the name of another
			at = slices.IndexFunc(j.nodes, func(at assigned) bool { return at.Name == node })
		}
		n = slices.IndexFunc(j.run[s].Nodes, func(run nodeRun) bool { return run.Node == at })
	}
	if node != "" && n < 0 {
		return 0, 0, 0, refuse(NotFound, "stage %s of job %s is not on node %.40q", spec.Name, j.ID, node)
	}
	return s, t, n, nil
}

// indexOf is the index of what is named, or that which the text itself is, of n.
func indexOf(text string, named, n int) int {
	if i, err := strconv.Atoi(text); named < 0 && err == nil && i >= 0 && i < n {
		return i
	}
	return named
}

// findTask is find for a task on a node.
func (j *job) findTask(stage, task, node string) (s, t, n int, err error) {
	s, t, n, err = j.find(stage, task, node)
	if err == nil && (t < 0 || n < 0) {
		err = codes.Errorf(codes.BadRequest, "name the task and the node")
	}
	return s, t, n, err
}
