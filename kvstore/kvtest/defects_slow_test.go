//go:build !race || soak

package kvtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a defect the same engine passes: it is the defects that are found.
func TestSuitePassesWithoutDefects(t *testing.T) {
	for i := range checks {
		failed, why := try(t, checks[i].name, (&defect{}).opener, patience)
		require.False(t, failed, "%s: %s", checks[i].name, why)
	}
}
