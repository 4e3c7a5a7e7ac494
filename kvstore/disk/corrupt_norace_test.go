//go:build !race

package disk

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// A file of the store that is damaged, in whatever way, makes the store refuse, or
// leaves it complete: it is never opened with something missing.
func TestDamage(t *testing.T) {
	for _, how := range []string{"closed", "killed", "flushed"} {
		t.Run(how, func(t *testing.T) {
			s := newStore(t, smallConfig)
			random := rand.New(rand.NewPCG(5, 5))
			for i := range 400 {
				s.put(someOps(random)...)
				if i == 200 {
					s.reopen()
				}
			}
			if how == "closed" {
				require.NoError(t, s.disk.Close())
			}
			if how == "flushed" {
				require.NoError(t, s.disk.db.Flush())
			}
			fs := s.cfg.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: random})
			if how != "closed" {
				require.NoError(t, s.disk.Close())
			}
			s.disk = nil
			complete, refused := 0, map[string]int{}
			for _, path := range files(t, fs) {
				for _, text := range s.damage(t, fs, path, random) {
					if text == "" {
						complete++
					} else {
						refused[text]++
					}
				}
			}
			t.Logf("%d complete, refused: %v", complete, refused)
			require.NotZero(t, complete)
			require.NotEmpty(t, refused)
		})
	}
}
