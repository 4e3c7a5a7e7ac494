package flow_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
)

// mortal is a store as a process has it that is killed when it asks for its last transaction:
// before that is applied, or after.
type mortal struct {
	embedded.Store
	left  *atomic.Int64 // transactions
	after bool
}

func (m mortal) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	left := m.left.Add(-1)
	if left > 0 || left == 0 && m.after {
		res, err := m.Store.Txn(ctx, txn)
		if left > 0 {
			return res, err
		}
	}
	return nil, errKilled
}

func (m mortal) KeepLease(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	if m.left.Load() <= 0 {
		return kv.Lease{}, errKilled
	}
	return m.Store.KeepLease(ctx, id)
}

var errKilled = codes.Errorf(codes.Closed, "killed")

// settle waits until nothing is left to finish.
func (k *kit) settle() {
	k.t.Helper()
	w, err := k.bed.Watch(k.ctx, kv.Filter{NS: kv.FlowPrefix + ".index"}, 0)
	require.NoError(k.t, err)
	defer w.Stop()
	open, synced := map[string]bool{}, false
	for !synced || len(open) > 0 {
		n, err := w.Next(k.ctx)
		require.NoError(k.t, err, "left: %v", open)
		synced = synced || n.Kind == kv.Synced
		for _, e := range n.Events {
			if what, _, _ := strings.Cut(e.Entry.Key, "."); what == "scope" || what == "news" || what == "duty" || what == "live" {
				continue
			}
			if delete(open, e.Entry.Key); e.Kind == kv.Put {
				open[e.Entry.Key] = true
			}
		}
	}
}

// killed runs what a process does until it is killed, for every moment at which it may be, until
// it comes through; then the sweep of another process finishes, and check looks at the result.
func killed(t *testing.T, prepare func(k *kit), do func(k *kit) error, check func(k *kit, done bool)) {
	inside(t, func(k *kit) {
		for moment := 0; ; moment++ {
			one := *k
			one.ctx = modeltest.Context(k.t) // each moment has its own patience
			scope := fmt.Sprintf("s%d", moment)
			one.scope = scope
			prepare(&one)
			dying := one
			left := new(atomic.Int64)
			left.Store(int64(moment/2 + 1))
			dying.have(flow.Open(mortal{k.bed.Store, left, moment%2 == 1}, flow.Config{Stage: 500 * time.Millisecond}))
			dying.InPieces(300)
			err := do(&dying)
			done := err == nil
			require.True(k.t, done || left.Load() <= 0 || codes.Of(err) != codes.Internal, "%v", err)
			stop := one.run()
			one.settle()
			check(&one, done)
			stop()
			if left.Load() > 0 { // it was not killed
				require.True(k.t, done)
				return
			}
		}
	})
}

// forsaken removes an application in a process that dies at once.
func (k *kit) forsaken(nodes int) {
	k.t.Helper()
	k.sample(nodes)
	left := new(atomic.Int64)
	left.Store(1)
	dying := flow.Open(mortal{k.bed.Store, left, true}, flow.Config{})
	_, err := dying.Remove(k.ctx, k.by, &flow.RemoveAsk{Key: "cfapp.A"})
	require.ErrorIs(k.t, err, errKilled)
	require.Equal(k.t, []string{"gone.cl.cfapp.A"}, k.duties())
}

func TestALongRemovalDelaysNoNoticeOfADeadWorker(t *testing.T) {
	inside(t, func(k *kit) {
		k.forsaken(10)
		began, goOn := make(chan struct{}), make(chan struct{})
		sweeping := k.hook(func(txn *kv.Txn) {
			if does(txn, kv.OpDeletePrefix, "node.N0.") {
				close(began)
				<-goOn
			}
		}, nil)
		stop := sweeping.run()
		<-began
		ask(k, k.Join, flow.JoinAsk{Key: "wokr.W", TTL: 200})
		k.until("cfworkers", "wokr.W", flow.Exited)
		close(goOn)
		k.settle()
		stop()
		require.Empty(k.t, k.keys("node."))
	})
}

func TestWhatCannotBeFinishedIsTold(t *testing.T) {
	inside(t, func(k *kit) {
		k.forsaken(1)
		told := make(chan string, 10)
		dead := flow.Open(mortal{k.bed.Store, new(atomic.Int64), false}, flow.Config{
			Failed: func(what string, err error) { told <- what + ": " + err.Error() },
		})
		ctx, cancel := context.WithCancel(k.ctx)
		ended := make(chan error)
		go func() { ended <- dead.Run(ctx) }()
		require.Equal(k.t, "gone.cl.cfapp.A: killed", <-told)
		cancel()
		require.ErrorIs(k.t, <-ended, context.Canceled)
		require.Empty(k.t, told, "once")
	})
}
