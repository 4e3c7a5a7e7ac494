package disk

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/kv"
)

func TestSortChangesIsByNamespaceKeyAndRevision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		common := rapid.SampledFrom([]string{"", "n", "namespace"}).Draw(t, "common")
		text := rapid.Custom(func(t *rapid.T) string {
			return common + rapid.StringOfN(rapid.RuneFrom([]rune("ab/ ")), 0, 12, -1).Draw(t, "text")
		})
		changes := make([]change, rapid.IntRange(0, 30).Draw(t, "n"))
		for i := range changes {
			changes[i].event = &kv.Event{Entry: &kv.Entry{NS: text.Draw(t, "ns"), Key: text.Draw(t, "key"), Mod: kv.Revision(i)}}
		}
		sortChanges(changes)
		require.True(t, slices.IsSortedFunc(changes, func(x, y change) int {
			a, b := x.event.Entry, y.event.Entry
			if c := slices.Compare(nameKey(nil, 'c', a.NS, a.Key), nameKey(nil, 'c', b.NS, b.Key)); c != 0 {
				return c
			}
			return int(a.Mod - b.Mod)
		}))
	})
}
