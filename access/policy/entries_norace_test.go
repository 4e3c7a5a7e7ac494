//go:build !race

package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLargeRolesAreComparedWhole(t *testing.T) {
	for kind, of := range samples {
		for _, names := range []int{5, 45, 500} {
			old, next, less := largeRoles(t, names, of)
			_, _, lifts := old.Lifts(next, lead(t))
			require.False(t, lifts, "%s, %d", kind, names)
			_, _, lifts = old.Lifts(less, lead(t))
			require.True(t, lifts, "%s, %d", kind, names)
		}
		var quotas strings.Builder
		for i := range 450 {
			fmt.Fprintf(&quotas, `,{"what":[%s],"keys":5}`, patterns(100, i, of))
		}
		text := `{"quotas": [` + quotas.String()[1:] + `]}`
		_, loosens := role(t, text).Loosens(role(t, text))
		require.False(t, loosens, kind)
		_, loosens = role(t, text).Loosens(role(t, strings.ReplaceAll(text, `"kv:98",`, "")))
		require.True(t, loosens, kind)
	}
}
