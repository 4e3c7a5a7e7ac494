package bench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// choose finds nodes for all assignments if there is any way to do so, and gives none to two.
func TestChooseFindsAWayIfThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		role := rapid.Map(rapid.IntRange(1, 4), func(n int) Role { return Role(n) })
		nodes := make([]*nodeKeys, rapid.IntRange(0, 5).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i] = &nodeKeys{Node: Node{Info: NodeInfo{Config: NodeConfig{Role: role.Draw(t, "role")}}}}
		}
		assignments := make([]NodeAssignment, rapid.IntRange(1, 4).Draw(t, "assignments"))
		offers := make([]offer, len(assignments))
		for i := range assignments {
			a := &assignments[i]
			if a.Properties.Role = role.Draw(t, "wanted"); rapid.Bool().Draw(t, "selects") {
				a.Selectors = []Selector{{Role: role.Draw(t, "selected")}}
			}
			for _, n := range nodes {
				if fit := a.fit(&n.Info); fit != 0 {
					offers[i].free[fit] = append(offers[i].free[fit], n)
				}
			}
		}
		var possible func(i int, used []*nodeKeys) bool
		possible = func(i int, used []*nodeKeys) bool {
			return i == len(assignments) || slices.ContainsFunc(nodes, func(n *nodeKeys) bool {
				return assignments[i].fit(&n.Info) != 0 && !slices.Contains(used, n) && possible(i+1, append(slices.Clone(used), n))
			})
		}
		chosen, failed := choose(assignments, offers)
		require.Equal(t, possible(0, nil), len(failed) == 0)
		seen := map[*nodeKeys]bool{}
		for i, n := range chosen {
			if n != nil {
				require.False(t, seen[n])
				require.NotZero(t, assignments[i].fit(&n.Info))
				seen[n] = true
			}
		}
		require.Len(t, seen, len(assignments)-len(failed))
	})
}
