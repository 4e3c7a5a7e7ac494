package search

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
)

func TestNothingIsKeptOfWhoHasSearched(t *testing.T) {
	l := New(clock.Real(), nil)
	for _, who := range []string{"a", "b", "a", ""} {
		_, done, err := l.Begin(t.Context(), who, "x")
		require.NoError(t, err)
		done()
	}
	require.Empty(t, l.all)
	require.Empty(t, l.places)
}
