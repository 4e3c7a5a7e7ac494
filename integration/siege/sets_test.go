//go:build soak

package siege

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// 300 documents took 1.6 GB.
func TestHugeSets(t *testing.T) {
	b := besiege(t, 512)
	g := hugeSets(b.Process, 300).over()
	t.Logf("%d accepted, %d refused", g.accepted.Load(), g.refused.Load())
	require.Positive(t, g.accepted.Load())
	require.Positive(t, g.refused.Load())
	b.over(func() {
		g.disperse()
		c, err := enter(b.Addr, "witness")
		require.NoError(t, err)
		defer c.Close()
		for i := range 300 {
			deleteSet(t, c, i)
		}
	})
}
