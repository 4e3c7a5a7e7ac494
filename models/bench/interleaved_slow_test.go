//go:build !race || soak

package bench

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
)

// Whatever happens just before a write, what is stored agrees with itself.
func TestWhateverHappensInBetween(t *testing.T) {
	for seed := range uint64(20) {
		mem := memory.New(memory.Config{})
		near := embedded.New(mem, nil)
		w := &crowd{Store: near, t: t, mem: mem, rand: rand.New(rand.NewPCG(seed, 0))}
		t.Cleanup(func() {
			if t.Failed() && w != nil {
				t.Log("seed ", seed, "\n", strings.Join(w.log, "\n"))
			}
			near.Close()
			require.NoError(t, mem.Close())
		})
		for range 3 {
			w.benches = append(w.benches, Open(w, Config{MaxRemoved: 2}))
		}
		for range 100 {
			w.act()
			w.check()
		}
		w = nil
	}
}
