package bench_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/models/bench"
)

// What a node did for several large jobs is told in parts.
func TestStagesOfANodeFitIntoAnswers(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		var labels []bench.Label
		for i := range 60 {
			labels = append(labels, bench.Label{K: fmt.Sprint(i), V: strings.Repeat("v", 100)})
		}
		r.register("n1", bench.LoaderRole, labels...)
		spec := "name: x\nnodeAssignments: [{name: n, role: loader}]\nstages:\n"
		for i := range 256 {
			spec += fmt.Sprintf("  - {name: s%d, tasks: [{driver: shell, shell: {command: x}}]}\n", i)
		}
		var ids []string
		for range 2 {
			ids = append(ids, r.start(spec))
			ask(r, r.AbortJob, bench.AbortAsk{ID: ids[len(ids)-1]})
		}
		first := ask(r, r.NodeStages, bench.NodeStagesAsk{ID: "n1"})
		require.Len(t, first.Jobs, 1)
		require.Len(t, first.Jobs[0].Stages, 256)
		require.Equal(t, ids[0], first.Next)
		second := ask(r, r.NodeStages, bench.NodeStagesAsk{ID: "n1", After: first.Next})
		require.Equal(t, ids[1], second.Jobs[0].ID)
		require.Empty(t, second.Next)
		refused(r, codes.BadRequest, "from is 256: give 0 to 255", r.FindJob, bench.JobIDAsk{ID: ids[0], From: 256})
		require.EqualValues(t, 255, ask(r, r.FindJob, bench.JobIDAsk{ID: ids[0], From: 255}).Stages[0].Index)
	})
}
