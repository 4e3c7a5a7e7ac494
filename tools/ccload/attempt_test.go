package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAttemptReturnsTheFailureAfterTheEnd(t *testing.T) {
	why := errors.New("why")
	for _, want := range []error{nil, why} {
		ended := 0
		err := attempt(func() { ended++ }, func() {
			must(0, want)
			require.NoError(t, want, "a script goes no further than its failure")
		})
		require.Equal(t, want, err)
		require.Equal(t, 1, ended)
	}
	ended := false
	require.PanicsWithValue(t, "a bug", func() { _ = attempt(func() { ended = true }, func() { panic("a bug") }) })
	require.True(t, ended)
}
