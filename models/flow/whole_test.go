package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/models/flow"
)

// Two applications with parts of the same names are registered, staged, copied, claimed and
// removed by several programs at once, in small pieces, while two sweeps run. In the end there is
// nothing but what is listed, and all of that is complete.
func TestAStormOfChangesLeavesOnlyWhatIsWhole(t *testing.T) {
	inside(t, func(k *kit) {
		k.join("W0", "W1", "W2", "W3")
		stops := []func(){k.run(), k.again().run()}
		var programs sync.WaitGroup
		for i := range 4 {
			p := k.again()
			p.InPieces(100)
			random := rand.New(rand.NewPCG(uint64(i), 14))
			programs.Go(func() {
				for range 60 {
					if err := p.anything(random, fmt.Sprintf("wokr.W%d", i)); codes.Of(err) == codes.Internal && !errors.Is(err, context.Canceled) {
						k.t.Error(err)
					}
				}
			})
		}
		programs.Wait()
		for i := range 4 {
			ask(k, k.Return, flow.ReturnAsk{Worker: fmt.Sprintf("wokr.W%d", i), Force: true})
		}
		for _, app := range []string{"A", "B"} {
			_, _ = k.Discard(k.ctx, k.by, &flow.DiscardAsk{App: app})
		}
		k.settle()
		for _, stop := range stops {
			stop()
		}
		k.sound()
		for _, key := range k.keys("") {
			parsed, err := flow.ParseKey(key)
			require.NoError(k.t, err)
			if parsed.Form == flow.Field || parsed.Form == flow.ListMember || parsed.Form == flow.LogLine {
				ask(k, k.Show, flow.ShowAsk{Key: parsed.Member.String()})
			}
		}
		for _, app := range ask(k, k.List, flow.ListAsk{List: "cfapplist"}).Members {
			ask(k, k.Remove, flow.RemoveAsk{Key: app.Key})
		}
		require.Empty(k.t, k.keys("node"))
		require.Empty(k.t, k.keys("cfapp."))
		require.Empty(k.t, k.duties())
	})
}

// anything does one thing that may be refused.
func (k *kit) anything(random *rand.Rand, worker string) (err error) {
	ctx, app, n := k.ctx, string(rune('A'+random.IntN(2))), random.IntN(8)
	node := fmt.Sprintf("node.N%d", n)
	if random.IntN(10) == 0 { // the caller goes away
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go cancel()
	}
	switch random.IntN(10) {
	case 0, 1:
		_, err = k.Register(ctx, k.by, &flow.RegisterAsk{App: app, Parts: parts("", 8)})
	case 2:
		var s *flow.StageAnswer
		if s, err = k.Stage(ctx, k.by, &flow.StageAsk{App: app, TTL: 1000}); err == nil {
			if _, err = k.Add(ctx, k.by, &flow.AddAsk{App: app, Parts: parts("", 8), Lease: s.Lease}); err == nil {
				_, err = k.Publish(ctx, k.by, &flow.PublishAsk{App: app, Lease: s.Lease})
			}
		}
	case 3:
		_, err = k.Stage(ctx, k.by, &flow.StageAsk{App: app, TTL: 1000})
	case 4:
		_, err = k.Replicate(ctx, k.by, &flow.ReplicateAsk{Key: node, Count: 6})
	case 5:
		key := []string{"cfapp." + app, "sess.E", "flow.F", node, "srvs.V", node + "-1"}[random.IntN(6)]
		_, err = k.Remove(ctx, k.by, &flow.RemoveAsk{Key: key, Force: random.IntN(2) == 0})
	case 6:
		_, err = k.Claim(ctx, k.by, &flow.ClaimAsk{Worker: worker, Key: []string{"", node, "flow.F", "cfapp." + app}[random.IntN(4)]})
	case 7:
		_, err = k.Return(ctx, k.by, &flow.ReturnAsk{Worker: worker, Key: node})
	case 8:
		_, err = k.SetStatus(ctx, k.by, &flow.StatusAsk{Key: node, Status: []string{"STARTING", "WORKING", "STOPING", "EXITED"}[random.IntN(4)]})
	case 9:
		_, err = k.Discard(ctx, k.by, &flow.DiscardAsk{App: app})
	}
	return err
}
