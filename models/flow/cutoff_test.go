package flow_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/models/flow"
)

// Anyone who makes replicas, or registers a large application, dies at any moment. A repetition with the
// same token succeeds at once, though the lease of the first lasts; another request is refused.
func TestWhatWasCutOffIsTakenUpByItsToken(t *testing.T) {
	for name, do := range map[string]func(k *kit, token string) error{
		"replicate": func(k *kit, token string) error {
			_, err := k.Replicate(k.ctx, k.by, &flow.ReplicateAsk{Scope: k.scope, Key: "node.N0", Count: 30, Token: token})
			return err
		},
		"register": func(k *kit, token string) error {
			_, err := k.Register(k.ctx, k.by, &flow.RegisterAsk{Scope: k.scope, App: "B", Parts: parts("b", 30), Token: token})
			return err
		},
	} {
		inside(t, func(k *kit) {
			for moment, alive := 0, false; !alive; moment++ {
				k.scope = fmt.Sprint(name, moment)
				ask(k, k.Register, flow.RegisterAsk{Scope: k.scope, App: "A", Parts: parts("", 1)})
				left := new(atomic.Int64)
				left.Store(int64(moment/2 + 1))
				dying := *k
				dying.have(flow.Open(mortal{k.bed.Store, left, moment%2 == 1}, flow.Config{}))
				dying.InPieces(300)
				err := do(&dying, "t")
				alive = left.Load() > 0
				require.True(k.t, alive || err != nil)
				again := *k
				again.have(flow.Open(k.bed.Store, flow.Config{}))
				again.InPieces(300)
				if len(k.duties()) > 0 {
					require.Equal(k.t, codes.Conflict, codes.Of(do(&again, "other")), "%s cut off at %d", name, moment)
				}
				if err != nil && len(k.duties()) > 0 {
					require.NoError(k.t, do(&again, "t"), "%s cut off at %d", name, moment)
				}
				require.Empty(k.t, k.duties(), "%s cut off at %d", name, moment)
				if list := ask(k, k.Tasks, flow.TasksAsk{Scope: k.scope}).Tasks; len(list) > 2 {
					require.Len(k.t, list, map[string]int{"register": 2 + 31, "replicate": 2 + 30}[name], "%s cut off at %d", name, moment)
				}
			}
		})
	}
}
