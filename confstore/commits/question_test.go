package commits

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
	"confcenter/confstore/place"
	"confcenter/internal/clock"
	"confcenter/internal/git"
	"confcenter/kvstore/memory"
)

// What was the newest commit before a version may not be known, as when a start is slow: then only a
// commit from before the start can have been there already.
func TestACommitMadeSinceTheStartWasNotThereBefore(t *testing.T) {
	versions, err := log.Open(t.Context(), memory.ForTest(t), "")
	require.NoError(t, err)
	_, err = versions.Commit(t.Context(), []log.Change{{Seq: 1, Versions: []log.Version{{Name: "a.json", File: []byte(`{"v":1}`), Served: 1}}}})
	require.NoError(t, err)
	c := New(Config{Dir: t.TempDir(), Log: versions, Clock: clock.Real(), Report: zerolog.Nop()})
	q := &question{Finder: c, atHead: map[*found]bool{}}
	for after, back := range map[time.Duration]bool{-time.Hour: true, time.Second: false} {
		got, err := q.back(t.Context(), &found{File: place.File{Name: "a.json"}, n: 9}, &git.Commit{Hash: "none", Time: c.opened.Add(after)})
		require.NoError(t, err)
		require.Equal(t, back, got, after)
	}
}
