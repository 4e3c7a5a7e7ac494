package bench

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A few bytes of YAML must not become many, whatever the decoder does with them.
func TestSyntaxThatCostsTooMuchIsRefused(t *testing.T) {
	const head = "name: n\nnodeAssignments: [{name: a, role: any}]\nstages: [{name: s, tasks: [{name: t, driver: exec, exec: {command: x"
	for what, raw := range map[string]string{
		"one key many times": "{" + strings.Repeat("a: 1, ", 8_000) + "}",
		"aliases":            head + ", args: [&a " + strings.Repeat("x", 16<<10) + strings.Repeat(", *a", 9_000) + "]}}]}]\n",
		"unknown long key":   strings.Repeat("k", 60<<10) + ": 1\n",
		"merge keys":         "a: &a {b: 1}\n<<: *a\n",
		"deep":               strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"many signs":         strings.Repeat("[],", 20_000),
		"long names":         head + "}}]}, {name: " + strings.Repeat("x", 40<<10) + ", tasks: [" + strings.Repeat("{},", 3_000) + "]}]\n",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseSpec(raw)
		runtime.ReadMemStats(&after)
		require.Error(t, err, what)
		require.Less(t, len(err.Error()), (maxProblems+1)*(maxProblem+10), what)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), what)
	}
}

func TestReasonOfATaskIsBrief(t *testing.T) {
	got := reason("\x00\n<é>" + strings.Repeat("ü", 100))
	require.LessOrEqual(t, len(got), maxReason+len("…"))
	require.True(t, strings.HasPrefix(got, "  <é>ü"), got)
}
