//go:build !race || soak

package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Without a defect the same engine passes: it is the defects that are found.
func TestSuitePassesWithoutDefects(t *testing.T) {
	for i := range checks {
		failed, why := try(t, checks[i].name, (&defect{}).opener, patience)
		require.False(t, failed, "%s: %s", checks[i].name, why)
	}
}

// The suite is worth what it finds: each defect, by the checks that are for it.
func TestSuiteFindsPlantedDefects(t *testing.T) {
	quickly(t)
	for i := range defects {
		d := &defects[i]
		t.Run(d.name, func(t *testing.T) {
			for _, name := range d.caught {
				const patience = 300 * time.Millisecond
				failed, why := try(t, name, d.opener, patience)
				require.True(t, failed, "%s did not find it", name)
				t.Logf("%s: %s", name, why)
			}
		})
	}
}
