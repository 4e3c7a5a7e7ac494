package gate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesOfClientsAreAllOfThemInOrder(t *testing.T) {
	var r Registry
	r.init(1)
	var ids []int32
	for _, id := range rand.Perm(3000) {
		ids = append(ids, int32(id)+1)
		r.byID[int32(id)+1] = &Client{ID: int32(id) + 1}
	}
	slices.Sort(ids)
	for _, most := range []int{1, 7, 256, 2999, 3000, 5000} {
		var all []int32
		for after, more := int32(0), true; more; after = all[len(all)-1] {
			var page []*Client
			page, more = r.Behind(after, most)
			require.True(t, len(page) == most || !more)
			for _, c := range page {
				all = append(all, c.ID)
			}
		}
		require.Equal(t, ids, all, most)
	}
}

// Ten thousand clients are listed in forty pages.
func BenchmarkPageOfClients(b *testing.B) {
	var r Registry
	r.init(1)
	for id := range int32(10_000) {
		r.byID[id+1] = &Client{ID: id + 1}
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Behind(0, 256)
	}
}
