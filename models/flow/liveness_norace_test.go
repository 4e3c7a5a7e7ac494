//go:build !race

package flow_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
)

func TestC30TenThousandNodesAreListedByStatus(t *testing.T) {
	each(t, func(k *kit) {
		var cancel context.CancelFunc
		k.ctx, cancel = context.WithTimeout(context.Background(), 10*modeltest.Patience) // 200,000 keys
		defer cancel()
		nodes := 10_000
		if k.bed.Wire() {
			nodes = 1000
		}
		ask(k, k.Stage, flow.StageAsk{App: "A", TTL: 600_000})
		all := parts("", nodes)
		for len(all) > 0 {
			n := min(nodes/5, len(all))
			require.EqualValues(k.t, n, ask(k, k.Add, flow.AddAsk{App: "A", Parts: all[:n]}).Added)
			all = all[n:]
		}
		require.Empty(k.t, ask(k, k.List, flow.ListAsk{List: "flow.F.node"}).Members, "staged")
		refused(k, codes.NotFound, k.Show, flow.ShowAsk{Key: "node.N1"})
		ask(k, k.Publish, flow.PublishAsk{App: "A"})
		a := ask(k, k.List, flow.ListAsk{List: "flow.F.node", Status: "WAITING", Limit: flow.MaxLines})
		require.Len(k.t, a.Members, nodes)
		require.Empty(k.t, a.Next)
		refused(k, codes.BadRequest, k.List, flow.ListAsk{List: "flow.F.node", Limit: flow.MaxLines + 1})
		refused(k, codes.NotFound, k.Publish, flow.PublishAsk{App: "A"})
	})
}
