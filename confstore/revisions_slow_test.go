//go:build !race || soak

package confstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/revisions"
	"confcenter/kv"
)

func TestTheNewestChangesAreKeptWithinTheirLimit(t *testing.T) {
	m := newMemKit(t, nil)
	begin, told := m.Revisions().Revision(), m.followAll()
	long := strings.Repeat("x", revisions.MaxRecent/16)
	for i := range 24 {
		m.mustSet("a.json", fmt.Sprintf(`{"n":%d,"long":%q}`, i, long))
		told()
		require.LessOrEqual(t, m.Stats().Recent, int64(revisions.MaxRecent))
	}
	require.Greater(t, m.Stats().Recent, int64(revisions.MaxRecent/4))
	require.Equal(t, revisionTexts(told()), revisionTexts(m.readBack(begin, 1<<20, everything...)), "the others are read back")
	m.mustSet("a.json", fmt.Sprintf("%q", strings.Repeat("y", revisions.MaxRecent)))
	newest := told()[24]
	require.EqualValues(t, revisions.MaxRecent, m.Stats().Recent, "what is long by itself is counted with what all may have")
	kept, err := m.Revisions().ChangesOf(t.Context(), everything, newest.Revision-1, 0) // bytes, so that none are read back
	require.NoError(t, err)
	require.Equal(t, []kv.Change{newest}, kept)
}

// TestWhatIsNotToldYetHasALimit has a follower that does not come back, and checks that what
// changes meanwhile is not kept for it, and yet not lost.
func TestWhatIsNotToldYetHasALimit(t *testing.T) {
	m := newMemKit(t, nil)
	begin := m.Revisions().Revision()
	busy, back := make(chan struct{}, 1000), make(chan struct{})
	m.t.Cleanup(m.Revisions().Follow(func(*kv.Batch) { busy <- struct{}{}; <-back }))
	told := m.followAll()
	long := strings.Repeat("x", revisions.MaxUntold/6)
	set := func(i int) { m.mustSet("a.json", fmt.Sprintf(`{"n":%d,"long":%q}`, i, long)) }
	set(0)
	<-busy
	most := int64(0)
	for i := range 10 {
		set(i + 1)
		most = max(most, m.Stats().Untold)
		require.LessOrEqual(t, most, int64(revisions.MaxUntold))
	}
	require.Greater(t, most, int64(revisions.MaxUntold/2))
	require.Positive(t, m.Stats().Lapses)
	close(back)
	require.Equal(t, revisionTexts(m.readBack(begin, 1<<20, everything...)), revisionTexts(told()))
	m.await("all is told", func() bool { return m.Stats().Untold == 0 })
}
