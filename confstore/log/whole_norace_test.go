//go:build !race

package log_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/kvstore/disk"
)

// A store that is restored as of any revision has the documents that there were then, all of them.
func TestRestoredAsOfEachRevisionDocumentsAreWhole(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 7))
		e := openEngine(t, disk.Config{Dir: "data", FS: vfs.NewMem()})
		versions, err := log.Open(t.Context(), e, "")
		require.NoError(t, err)
		now, was := map[string]string{}, map[kv.Revision]map[string]string{}
		for range 8 {
			is := draw(random)
			revs, err := versions.Commit(t.Context(), []log.Change{several(is)})
			require.NoError(t, err)
			for name, text := range is {
				if now[name] = text; text == "-" {
					delete(now, name)
				}
			}
			was[revs[0]] = maps.Clone(now)
			for name := range is { // which is told of the documents later, and changes none
				d, err := versions.Document(name)
				require.NoError(t, err)
				by := log.By{Author: "ada", Origin: access.OnDisk, Commit: fmt.Sprint("commit", d.N)}
				require.NoError(t, versions.Complete(t.Context(), []log.Completion{{Name: name, N: d.N, By: by}}))
				break
			}
		}
		rows, began := e.copied()
		newest := e.Revision()
		require.NoError(t, e.Close())
		want := map[string]string{}
		for rev := kv.Revision(1); rev <= newest; rev++ { // also those that chunks were written by
			if is := was[rev]; is != nil {
				want = is
			}
			cfg := disk.Config{Dir: "restored", FS: vfs.NewMem()}
			_, err := disk.Restore(cfg, rows, began, disk.Point{Revision: rev, Stays: log.Stays})
			require.NoError(t, err, "revision %d of seed %d", rev, seed)
			checker := log.NewChecker()
			_, err = disk.Verify(cfg, func(e *kv.Entry) error { checker.Entry(e); return nil })
			require.NoError(t, err)
			faults, _, _ := checker.End()
			require.Empty(t, faults, "revision %d of seed %d", rev, seed)
			other := openEngine(t, cfg)
			restored, err := log.Open(t.Context(), other, "")
			require.NoError(t, err)
			require.Equal(t, want, texts(t, restored), "revision %d of seed %d", rev, seed)
			require.NoError(t, other.Close())
		}
	}
}
