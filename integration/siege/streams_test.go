package siege

import (
	"testing"
	"time"
)

// 1,000 streams held writers up for seconds, because their work was done on a writer's time.
func TestUnreadStreams(t *testing.T) {
	b := besiege(t, 512)
	g := unreadStreams(b.Process, 1000).over()
	slowest := b.putLarge(full(200, 50))
	t.Logf("a put took %v at most", slowest.Round(time.Millisecond))
	b.over(g.disperse, "streams")
}
