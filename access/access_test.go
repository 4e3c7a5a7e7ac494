package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
)

func TestActorsAreNamedAsTheOperationLogDoes(t *testing.T) {
	for want, actor := range map[string]*access.Actor{
		"":                         nil,
		"disk":                     {Origin: access.OnDisk},
		"http 10.0.0.1:5":          {Origin: access.OverHTTP, Address: "10.0.0.1:5"},
		"10.0.0.1:5@2001-20@fleet": {Name: "2001-20@fleet", Origin: access.OverTCP, Address: "10.0.0.1:5", Comment: "why"},
	} {
		require.Equal(t, want, actor.String())
	}
}

func TestEveryRightHasANameOfItsOwn(t *testing.T) {
	require.False(t, access.Right(0).Known())
	require.Equal(t, "right 0", access.Right(0).String())
	seen := map[string]bool{}
	for r := access.Anyone; r <= access.StatusRead; r++ {
		require.True(t, r.Known(), r)
		require.False(t, seen[r.String()], r)
		seen[r.String()] = true
	}
	require.False(t, (access.StatusRead + 1).Known())
	require.Equal(t, "right 255", access.Right(255).String())
}
