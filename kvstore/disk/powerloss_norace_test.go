//go:build !race

package disk

import "testing"

// TestPowerLoss loses power at random moments of a store at work: each time all
// that was acknowledged is there, and nothing of a transaction without the rest.
func TestPowerLoss(t *testing.T) {
	points := inFull(1000, 20)
	tested := 0
	for seed := uint64(1); tested < points; seed++ {
		for _, o := range losePower(t, seed, min(10, points-tested)) {
			tested++
			o.check(t, seed)
		}
	}
	t.Logf("%d power losses", tested)
}
