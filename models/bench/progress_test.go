package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/op"
)

// begun is a job that was started on two nodes. Stage 0 is in the background, stage 1 not, and
// stage 2 follows them and stops stage 0.
func begun(t require.TestingT) *job {
	const raw = `name: x
nodeAssignments: [{name: a, role: any}, {name: b, role: any}]
pipelines: [{stages: [back, front]}, {stages: [stop]}, {stages: [late]}]
stages:
  - name: back
    background: true
    pipelines: [{tasks: [prepare]}, {tasks: [serve, other]}]
    tasks:
      - {name: prepare, driver: shell, shell: {command: x}}
      - {name: serve, background: true, driver: shell, shell: {command: x}}
      - {name: other, background: true, driver: shell, shell: {command: x}}
  - {name: front, selectors: [{name: a}], tasks: [{name: t, driver: shell, shell: {command: x}}]}
  - {name: stop, selectors: [{name: b}], tasks: [{driver: stopper, stopper: {stage: back, task: serve}}]}
  - {name: late, tasks: [{driver: shell, shell: {command: x}}]}
`
	spec, err := ParseSpec(raw)
	require.NoError(t, err)
	j := &job{JobHead: JobHead{ID: "1", Status: JobQueued}, spec: *spec, nodes: []assigned{{ID: "a", Name: "a"}, {ID: "b", Name: "b"}}}
	j.begin(1)
	return j
}

func TestTaskTransitions(t *testing.T) {
	legal := map[string]bool{
		"QUEUED>RUNNING": true, "QUEUED>ABORTED": true, "RUNNING>BACKGROUND": true, "RUNNING>FINISHED": true, "RUNNING>ABORTED": true,
		"BACKGROUND>FINISHED": true, "BACKGROUND>ABORTED": true,
	}
	names := TaskQueued.names().list
	for _, task := range []struct{ stage, index int }{{0, 1}, {1, 0}} {
		background := task.stage == 0
		for from := TaskQueued; from <= TaskAborted; from++ {
			for to := TaskStatus(0); to <= TaskAborted; to++ {
				j := begun(t)
				j.setTask(0, 0, 0, TaskFinished, 2) // it is the others' turn
				j.setTask(task.stage, 0, task.index, from, 3)
				err := j.report(task.stage, 0, task.index, to, "", 4)
				step := names[from] + ">" + names[to]
				if legal[step] && (background || to != TaskBackground) {
					require.NoError(t, err, step)
					require.Equal(t, to, j.run[task.stage].Nodes[0].Tasks[task.index].Status)
					require.Equal(t, to == TaskAborted, j.Status == JobAborted)
					continue
				}
				require.Equal(t, codes.Conflict, codes.Of(err), step)
				require.Equal(t, from, j.run[task.stage].Nodes[0].Tasks[task.index].Status)
			}
		}
	}
}

// A stopper of one task leaves the others of its stage running; they end with the job.
func TestAStopperOfOneTaskLeavesTheOthers(t *testing.T) {
	j := begun(t)
	step := func(s, n, task int, statuses ...TaskStatus) {
		t.Helper()
		for _, status := range statuses {
			require.NoError(t, j.report(s, n, task, status, "", 5))
		}
	}
	for n := range 2 {
		step(0, n, 0, TaskRunning, TaskFinished)
		step(0, n, 1, TaskRunning, TaskBackground)
		step(0, n, 2, TaskRunning, TaskBackground)
	}
	step(1, 0, 0, TaskRunning, TaskFinished)
	step(2, 0, 0, TaskRunning, TaskFinished)
	require.Equal(t, TaskFinished, j.run[0].Nodes[1].Tasks[1].Status, "on every node of its stage")
	require.Equal(t, TaskBackground, j.run[0].Nodes[1].Tasks[2].Status)
	require.Equal(t, []int64{0}, j.Background)
	step(3, 0, 0, TaskRunning, TaskFinished)
	require.Equal(t, JobRunning, j.Status)
	step(3, 1, 0, TaskRunning, TaskFinished)
	require.Equal(t, JobFinished, j.Status)
	require.Equal(t, TaskFinished, j.run[0].Nodes[1].Tasks[2].Status)
	require.Equal(t, []int64{1, 2, 3, 0}, j.Finished)
}

// Whatever agents and people do, in whatever order, the parts of a job agree.
func TestAJobAgreesWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := begun(t)
		for now := int64(2); now < 60; now++ {
			s := rapid.IntRange(0, len(j.run)-1).Draw(t, "stage")
			n := rapid.IntRange(0, len(j.run[s].Nodes)-1).Draw(t, "node")
			task := rapid.IntRange(0, len(j.spec.Stages[s].Tasks)-1).Draw(t, "task")
			status := TaskStatus(rapid.IntRange(2, 4).Draw(t, "status"))
			switch what := rapid.IntRange(0, 99).Draw(t, "what"); {
			case j.Status != JobRunning:
				require.Error(t, j.report(s, n, task, status, "", now))
			case what == 0:
				j.abort("", now)
			case what < 5:
				_ = j.kill(s, n, task, "", now)
			default:
				_ = j.report(s, n, task, status, "", now)
			}
			agrees(t, j)
		}
	})
}

func agrees(t require.TestingT, j *job) {
	for s := range j.run {
		places := 0
		for _, list := range [][]int64{j.Foreground, j.Background, j.Finished} {
			if slices.Contains(list, int64(s)) {
				places++
			}
		}
		ended, ready := j.stageProgress(s)
		started := j.run[s].Start != 0
		finished := slices.Contains(j.Finished, int64(s))
		what := fmt.Sprintf("stage %d of %+v", s, j.JobHead)
		if j.Status == JobAborted {
			require.True(t, ended, what)
			continue
		}
		require.Equal(t, started, places == 1, what)
		require.Equal(t, started && ended, finished, what)
		require.Equal(t, finished, j.run[s].Stop != 0, what)
		require.Equal(t, started && int64(j.spec.pipelineOf(j.spec.Stages[s].Name)) > j.Current, false, what)
		if slices.Contains(j.Foreground, int64(s)) {
			require.False(t, ready, what)
			require.EqualValues(t, j.Current, j.spec.pipelineOf(j.spec.Stages[s].Name), what)
		}
	}
	require.Equal(t, j.Status == JobFinished || j.Status == JobAborted, j.StopTime != 0)
	for p := range j.spec.Pipelines {
		status := j.pipelineStatus(p)
		switch {
		case j.Status == JobFinished:
			require.Equal(t, pipelineFinished, status)
		case j.Status == JobRunning && int64(p) > j.Current:
			require.Equal(t, pipelineQueued, status)
		case j.Status == JobRunning && int64(p) == j.Current:
			require.Equal(t, pipelineRunning, status)
		}
	}
}

// A job whose stages are too long for one answer is told in parts.
func TestAJobFitsIntoAnswers(t *testing.T) {
	const nodes, stages = 8, 80
	raw := "name: x\nnodeAssignments: ["
	for n := range nodes {
		raw += fmt.Sprintf("{name: m%d, role: any}, ", n)
	}
	raw += "]\nstages:\n"
	for s := range stages {
		raw += fmt.Sprintf("  - {name: s%d, tasks: [{driver: shell, shell: {command: %q}}]}\n", s, strings.Repeat("{{.Nodes.m0.Host}}", 40))
	}
	spec, err := ParseSpec(raw)
	require.NoError(t, err)
	j := &job{JobHead: JobHead{ID: "1"}, raw: raw, spec: *spec}
	for n := range nodes {
		at := assigned{ID: fmt.Sprint(n), Name: fmt.Sprint("m", n)}
		at.Info.Property.Host = strings.Repeat(`"`, maxText)
		at.Info.Config.Labels = []Label{{K: "k", V: strings.Repeat("v", maxInfo)}}
		j.nodes = append(j.nodes, at)
	}
	j.begin(1)
	var seen []int64
	for from := 0; ; {
		v := j.view(from)
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), op.MaxAnswer)
		require.Len(t, v.Pipelines, stages, "all but the stages is there each time")
		for _, s := range v.Stages {
			require.EqualValues(t, len(seen), s.Index)
			seen = append(seen, s.Index)
		}
		if from = int(v.Next); from == 0 {
			break
		}
		require.Less(t, len(seen), stages)
	}
	require.Len(t, seen, stages)
	require.NotZero(t, j.view(0).Next)
}
