package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/models/bench"
	"confcenter/server/host"
)

// Both hosts notice that nodes are silent. One of them says so.
func TestTwoHostsLoseANodeOnce(t *testing.T) {
	p := two(t, host.Config{})
	at := p.a.Models()[1].Asked.(*bench.Bench)
	role := bench.NodeConfig{Role: bench.LoaderRole, Provider: bench.NodeProvider{Name: 1, Region: "r", Instance: "i"}}
	for i := range 50 {
		_, err := at.RegisterNode(t.Context(), by("ann"), &bench.NodeAsk{TTL: 100, State: bench.RunningJob, Node: bench.NodeInfo{
			ID: fmt.Sprint("n", i), Addr: bench.Addr{BindAddr: ":6081", RemoteAddr: "1.2.3.4:5"}, Config: role, Property: bench.NodeProperty{Host: "h"},
		}})
		require.NoError(t, err)
	}
	ended := func(b *bench.Bench, i int) bool {
		list, err := b.NodeHistory(t.Context(), nil, &bench.HistoryAsk{ID: fmt.Sprint("n", i)})
		require.NoError(t, err)
		require.LessOrEqual(t, len(list.Entries), 2, "registered, and lost once")
		return len(list.Entries) == 2
	}
	for i := range 50 {
		require.Eventually(t, func() bool { return ended(at, i) }, 10*time.Second, time.Millisecond)
	}
	p.a.Close() // what it was about to do is done
	p.b.Close()
	for i := range 50 {
		require.True(t, ended(at, i))
	}
}
