//go:build !race || soak

package tcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/server/tcp"
	"confcenter/server/tcp/loop"
)

// A client may pipeline any number of requests before it reads: it is not read either
// meanwhile, and then gets every reply, in order.
func TestAPipelineOfAnyLengthIsAnsweredInOrder(t *testing.T) {
	const limit = 1 << 20
	srv := servertest.Start(t, servertest.Options{
		Files:  map[string]string{"a.json": `{"k":"` + strings.Repeat("x", 500) + `"}`},
		Server: tcp.Config{Limits: loop.Limits{Input: limit}},
	})
	p := pipeline(srv, 32<<20)
	var before int64
	require.Eventually(t, func() bool {
		wrote := p.wrote.Load()
		still := wrote == before
		before = wrote
		return still && srv.Stats().Get("server_limits_met_total", "input") > 0
	}, servertest.Patience, 50*time.Millisecond, "the server stops to read")
	require.Less(t, p.wrote.Load(), int64(16<<20), "what the kernels hold is not that much")
	require.Less(t, srv.Stats().Get("server_memory_bytes"), int64(2*limit))
	other := srv.Peer("other")
	other.Quiet()
	var most int64
	for i, cmd := range p.frames {
		f := p.Next()
		if f.Command != cmd.Reply() || f.Seq != uint16(i) || strings.Contains(f.Body, `"code":4`) {
			t.Fatalf("reply %d of %d is %s", i, len(p.frames), f)
		}
		if i%500 == 0 {
			other.Quiet()
			most = max(most, srv.Stats().Get("server_memory_bytes"))
		}
	}
	require.NoError(t, <-p.sent)
	require.Less(t, most, int64(3*limit))
	p.Quiet()
}
