package bench_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/state"
	"confcenter/state/bench"
)

// answer asks as the edges do, and reads the answer, which is not too long.
func (r *rig) answer(name string, q, into any) {
	r.t.Helper()
	m := &state.Model{Name: "bench", Operations: bench.Operations, Asked: r.model}
	for i := range m.Operations {
		if o := &m.Operations[i]; o.Name == name {
			text, err := m.Answer(r.ctx, o, agent, q)
			require.NoError(r.t, err)
			require.NoError(r.t, json.Unmarshal(text, into))
			return
		}
	}
	require.FailNow(r.t, "no such operation", name)
}

// stout registers nodes that say of themselves as much as they may.
func (r *rig) stout(nodes int) {
	r.t.Helper()
	var labels []bench.Label
	for i := range 53 {
		labels = append(labels, bench.Label{K: fmt.Sprint(i), V: strings.Repeat("v", 118)})
	}
	for i := range nodes {
		n := info(fmt.Sprintf("n%02d", i), bench.LoaderRole, labels...)
		n.Property.Host = strings.Repeat(`"`, 255)
		ask(r, r.RegisterNode, bench.NodeAsk{Node: n})
	}
}

// Whatever a job is like, it can be read.
func TestAnswersAboutLargeJobsFit(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		const nodes, stages, many = 8, 80, 256
		r.stout(nodes)
		var wanted, all []string
		for i := range nodes {
			wanted = append(wanted, fmt.Sprintf("{name: m%d, role: loader}", i))
		}
		const head = "name: x\nnodeAssignments: [%s]\nstages:\n  - {name: s0, tasks: [{driver: shell, shell: {command: %q}}]}\n"
		wide := fmt.Sprintf(head, strings.Join(wanted, ", "), strings.Repeat("{{.Nodes.m0.Host}}", 500))
		for i := range many - 1 {
			all = append(all, fmt.Sprintf("  - {name: s%d, tasks: [{driver: shell, shell: {command: x}}]}\n", i+1))
		}
		id := r.start(wide + strings.Join(all[:stages-1], ""))
		var stage bench.Stage
		r.answer("job-stage", &bench.StageAsk{ID: id, Stage: "s0"}, &stage)
		require.Len(t, stage.Nodes, nodes)
		var seen []int64
		answers := 0
		for from := int64(0); ; {
			var j bench.Job
			r.answer("job", &bench.JobIDAsk{ID: id, From: from}, &j)
			answers++
			require.Len(t, j.Pipelines, stages, "all but the stages is there each time")
			for _, s := range j.Stages {
				seen = append(seen, s.Index)
			}
			if from = j.Next; from == 0 {
				break
			}
		}
		require.Greater(t, answers, 1)
		require.Len(t, seen, stages)
		for i, s := range seen {
			require.EqualValues(t, i, s)
		}
		refused(r, codes.BadRequest, "from is 99: give 0 to 79", r.FindJob, bench.JobIDAsk{ID: id, From: 99})
		ask(r, r.AbortJob, bench.AbortAsk{ID: id})

		ids := []string{id}
		for range 2 {
			ids = append(ids, r.start(fmt.Sprintf(head, wanted[0], "x")+strings.Join(all, "")))
			ask(r, r.AbortJob, bench.AbortAsk{ID: ids[len(ids)-1]})
		}
		var jobs []string
		answers = 0
		for q := (bench.NodeStagesAsk{ID: "n00"}); ; {
			var page bench.NodeStagesAnswer
			r.answer("node-stages", &q, &page)
			answers++
			for _, j := range page.Jobs {
				jobs = append(jobs, j.ID)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		require.Equal(t, ids, jobs)
		require.Greater(t, answers, 1)
		require.Len(t, r.job(ids[1]).Stages, many, "a job of one node is told at once")
	})
}
