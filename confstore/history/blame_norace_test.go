//go:build !race

package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/history"
)

func TestBlamingSaysHowFarItLooked(t *testing.T) {
	k := near(t, nil)
	const versions = 2010
	for i := range versions {
		k.write("a.json", fmt.Sprintf(`{"old":1,"n":%d}`, i))
	}
	answer, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "a"})
	require.NoError(t, err)
	require.Equal(t, []history.Looked{{File: "a.json", Versions: 2001, Oldest: versions - 2000, Stopped: "the limit of versions for a question is reached"}}, answer.Looked)
	require.True(t, answer.Keys[0].Earlier)
	require.EqualValues(t, versions-2000, answer.Keys[0].Version)
	require.False(t, answer.Keys[1].Earlier)
	answer, err = k.Blame(k.ctx, nil, &history.BlameAsk{Name: "a", Path: "/n"})
	require.NoError(t, err)
	require.Equal(t, []history.Looked{{File: "a.json", Versions: 2, Oldest: versions - 1}}, answer.Looked)

	long := strings.Repeat("x", 15<<20)
	for i := range 6 {
		k.write("long.json", fmt.Sprintf(`{"s":"%s","n":%d}`, long, i))
	}
	large, pool := k.limited(1 << 30)
	answer, err = large.Blame(k.ctx, nil, &history.BlameAsk{Name: "long", Path: "/s"})
	require.NoError(t, err)
	require.Equal(t, []history.Looked{{File: "long.json", Versions: 5, Oldest: 2, Stopped: "the limit of bytes for a question is reached"}}, answer.Looked)
	require.Zero(t, pool.Held())
}
