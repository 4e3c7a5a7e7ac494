package siege

import (
	"testing"
)

func TestUnreadPeers(t *testing.T) {
	b := besiege(t, 512)
	b.putLarge(10)
	g := unreadPeers(b.Process, full(2000, 500)).over()
	b.putLarge(full(200, 50))
	b.over(g.disperse, "peers")
}
