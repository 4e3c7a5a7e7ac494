package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/server"
)

func TestASystemWithoutServerIsNamed(t *testing.T) {
	require.NoError(t, server.RunsOn("linux"))
	for _, system := range []string{"darwin", "windows", "freebsd"} {
		require.ErrorContains(t, server.RunsOn(system), "needs Linux, and this is "+system)
	}
}
