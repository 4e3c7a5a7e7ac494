//go:build !race || soak

package suite

import "testing"

// TestEngines has each engine pass each check.
func TestEngines(t *testing.T) {
	for name, open := range engines {
		for _, c := range checks {
			t.Run(name+"/"+c.name, func(t *testing.T) { c.on(t, open, patience) })
		}
	}
}
