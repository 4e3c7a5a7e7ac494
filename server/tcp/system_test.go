package tcp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/server/tcp"
)

func TestASystemWithoutServerIsNamed(t *testing.T) {
	require.NoError(t, tcp.RunsOn("linux"))
	for _, system := range []string{"darwin", "windows", "freebsd"} {
		require.ErrorContains(t, tcp.RunsOn(system), "needs Linux, and this is "+system)
	}
}
