//go:build soak

package siege

import "testing"

// 1,000 streams held writers up for seconds, because their work was done on a writer's time.
func TestUnreadStreams(t *testing.T) {
	b := besiege(t, 512)
	g := unreadStreams(b.Process, 1000).over()
	b.putLarge(200)
	b.over(g.disperse)
}
