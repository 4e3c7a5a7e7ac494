//go:build soak

package siege

import (
	"testing"

	"confcenter/protocol"
)

// Large answers are not built: 1,000 clients of 16 KB each made one of 16 MB, for
// everyone who asked.
func TestAListOfManyWideClients(t *testing.T) {
	b := besiege(t, 512)
	wide := wideClients(b.Process, 1000).over()
	g := gatherMembers(b.Process, 500, func(g *crowd, c *caller, _ int) {
		for range 20 {
			if c.send(protocol.GetCli, `{"svrid":0}`) != nil {
				return
			}
		}
		if f, err := c.next(); err == nil {
			g.judge(f.Body)
		}
	}).over()
	t.Logf("%d answered, %d refused", g.accepted.Load(), g.refused.Load())
	b.over(func() { g.disperse(); wide.disperse() }, "peers")
}
