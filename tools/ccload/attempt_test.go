package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAttemptReturnsTheFailure(t *testing.T) {
	why := errors.New("why")
	for _, want := range []error{nil, why} {
		ended := 0
		err := attempt(func() {
			defer func() { ended++ }()
			must(0, want)
			require.NoError(t, want, "a script goes no further than its failure")
		})
		require.Equal(t, want, err)
		require.Equal(t, 1, ended)
	}
	require.PanicsWithValue(t, "a bug", func() { _ = attempt(func() { panic("a bug") }) })
}
