//go:build !race || soak

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/confstore/history"
)

func TestApplyOfALargeDirectoryOutlivesARestart(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	files := map[string][]byte{}
	for i := range 5 {
		files[fmt.Sprintf("%d.json", i)] = fmt.Appendf(nil, `"%s"`, strings.Repeat("x", 1<<20))
	}
	p := applyingTo(t, s, &history.ApplyAsk{DryRun: true}, files)
	wanted, err := p.wanted(t.Context())
	require.NoError(t, err)
	_, err = p.send(t.Context(), wanted)
	require.NoError(t, err)
	require.EqualValues(t, len(files), p.ask.Staged)
	s.Restart()
	p.ask.DryRun = false
	require.Eventually(t, func() bool {
		_, err = p.calls.Apply(t.Context(), p.ask)
		return codes.Of(err) != codes.Unreachable
	}, time.Minute, time.Millisecond)
	require.True(t, p.lost(err), err)
	made, err := p.send(t.Context(), wanted)
	require.NoError(t, err)
	require.EqualValues(t, len(files), made.Count)
}
