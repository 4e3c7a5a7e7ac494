package siege

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// 3 million tiny keys counted as 24 MB and took 946 MB.
func TestTinyKeys(t *testing.T) {
	b := besiege(t, 512)
	g := tinyKeys(b.Process, full(3_000_000, 800_000)).over()
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

// dropTiny deletes all tiny keys.
func dropTiny(t *testing.T, c *caller) {
	t.Helper()
	for more := true; more; {
		reply, err := c.call(protocol.KVDrop, fmt.Sprintf(`{"ns":%q,"confirm":%q}`, tinyNS, tinyNS))
		require.NoError(t, err)
		require.Contains(t, reply, `"code":0`)
		more = strings.Contains(reply, `"more":1`)
	}
}
