//go:build soak

package siege

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// 3 million tiny keys counted as 24 MB and took 946 MB.
func TestTinyKeys(t *testing.T) {
	b := besiege(t, 512)
	g := tinyKeys(b.Process, 3_000_000).over()
	t.Logf("%d accepted, %d refused", g.accepted.Load()*tinyBatch, g.refused.Load()*tinyBatch)
	require.Positive(t, g.accepted.Load())
	require.Positive(t, g.refused.Load(), "the limit was not met")
	b.over(func() {
		g.disperse()
		c, err := enter(b.Addr, "witness")
		require.NoError(t, err)
		defer c.Close()
		dropTiny(t, c)
	})
}
