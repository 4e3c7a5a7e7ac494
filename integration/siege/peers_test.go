//go:build soak

package siege

import (
	"testing"
)

func TestUnreadPeers(t *testing.T) {
	b := besiege(t, 512)
	b.putLarge(10)
	g := unreadPeers(b.Process, 2000).over()
	b.putLarge(200)
	b.over(g.disperse, "peers")
}
