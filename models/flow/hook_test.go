package flow_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/flow"
)

// hooked is a store in which something happens before and after transactions: what others do at
// the worst moment.
type hooked struct {
	embedded.Store
	before, after func(*kv.Txn) // may be nil
}

func (h *hooked) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if h.before != nil {
		h.before(txn)
	}
	res, err := h.Store.Txn(ctx, txn)
	if h.after != nil {
		h.after(txn)
	}
	return res, err
}

// hook is another program with the same layout, on such a store.
func (k *kit) hook(before, after func(*kv.Txn)) *kit {
	other := *k
	other.have(flow.Open(&hooked{k.bed.Store, before, after}, flow.Config{}))
	return &other
}

// does reports whether a transaction has such an operation on that key.
func does(txn *kv.Txn, kind kv.OpKind, key string) bool {
	return slices.ContainsFunc(txn.Then, func(op kv.Op) bool { return op.Kind == kind && op.Key == key })
}

// leases counts the leases that are granted while do asks, and those that are ended.
func (k *kit) leases(before func(*kv.Txn), do func(k *kit)) (granted, revoked int) {
	do(k.hook(func(txn *kv.Txn) {
		before(txn)
		for _, op := range txn.Then {
			switch op.Kind {
			case kv.OpGrant:
				granted++
			case kv.OpRevoke:
				revoked++
			}
		}
	}, nil))
	return granted, revoked
}

func TestARepetitionWhileTheFirstIsUnderWayIsAnswered(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(3)
		k.join("W")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		// each is asked by two programs at once, of which the other is always faster
		twice := func(name string, do func(k *kit) (any, error)) {
			var first any
			other := k.hook(func(*kv.Txn) {
				if first == nil {
					var err error
					first, err = do(k)
					require.NoError(k.t, err, name)
				}
			}, nil)
			again, err := do(other)
			require.NoError(k.t, err, name)
			require.Equal(k.t, first, again, name)
		}
		twice("status", func(k *kit) (any, error) {
			return k.SetStatus(k.ctx, k.by, &flow.StatusAsk{Key: "node.N0", Status: "STARTING", Token: "status"})
		})
		twice("claim", func(k *kit) (any, error) {
			return k.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: "wokr.W", Key: "node.N1", Token: "claim"})
		})
		twice("next", func(k *kit) (any, error) {
			return k.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: "wokr.W", Token: "next"})
		})
		require.Len(k.t, ask(k, k.Assigned, flow.AssignedAsk{Worker: "wokr.W"}).Tasks, 3)
		twice("join", func(k *kit) (any, error) {
			return k.Join(k.ctx, k.by, &flow.JoinAsk{Key: "wokr.W2", Token: "join"})
		})
		twice("lock", func(k *kit) (any, error) {
			return k.TryLock(k.ctx, k.by, &flow.LockAsk{Key: "x", Owner: "me", Token: "lock"})
		})
		k.sound()
		require.Equal(k.t, "srvs.V", ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W2"}).Key)
		twice("register", func(k *kit) (any, error) {
			return k.Register(k.ctx, k.by, &flow.RegisterAsk{App: "B", Parts: parts("b", 2), Token: "register"})
		})
		twice("replicate", func(k *kit) (any, error) {
			return k.Replicate(k.ctx, k.by, &flow.ReplicateAsk{Key: "node.N0b", Count: 2, Token: "replicate"})
		})
		twice("remove", func(k *kit) (any, error) {
			return k.Remove(k.ctx, k.by, &flow.RemoveAsk{Key: "node.N0b", Token: "remove"})
		})
	})
}

func TestALockThatIsWaitedForIsTheTokensToo(t *testing.T) {
	wired(t, func(k *kit, c *calls.FlowCalls) {
		q := &flow.LockAsk{Key: "x", Owner: "me", Token: "t"}
		first, err := c.Lock(k.ctx, q)
		require.NoError(k.t, err)
		again, err := c.Lock(k.ctx, q)
		require.NoError(k.t, err)
		require.Equal(k.t, first, again, "a repetition does not wait for itself")
	})
}

func TestRefusalsLeaveNoLeases(t *testing.T) {
	each(t, func(k *kit) {
		ask(k, k.TryLock, flow.LockAsk{Key: "x", Owner: "another"})
		k.join("W")
		granted, _ := k.leases(func(*kv.Txn) {}, func(k *kit) {
			require.False(k.t, ask(k, k.TryLock, flow.LockAsk{Key: "x", Owner: "me"}).Granted)
			refused(k, codes.Conflict, k.Join, flow.JoinAsk{Key: "wokr.W"})
		})
		require.Zero(k.t, granted, "they look first")

		faster := map[string]func(){
			"y.lock.owner":      func() { ask(k, k.TryLock, flow.LockAsk{Key: "y", Owner: "another"}) },
			"cfworkers.wokr.W2": func() { k.join("W2") },
		}
		granted, revoked := k.leases(func(txn *kv.Txn) {
			for key, others := range faster {
				if does(txn, kv.OpPut, key) {
					delete(faster, key)
					others()
				}
			}
		}, func(k *kit) {
			require.False(k.t, ask(k, k.TryLock, flow.LockAsk{Key: "y", Owner: "me"}).Granted)
			refused(k, codes.Conflict, k.Join, flow.JoinAsk{Key: "wokr.W2"})
		})
		require.Equal(k.t, 2, granted, "somebody is faster once they have looked")
		require.Equal(k.t, granted, revoked)
	})
}

func TestALeaseEndsInTheTransactionThatEndsItsUse(t *testing.T) {
	inside(t, func(k *kit) {
		lock := ask(k, k.TryLock, flow.LockAsk{Key: "x", Owner: "me"})
		k.join("W1", "W2")
		writes := 0
		granted, revoked := k.leases(func(*kv.Txn) { writes++ }, func(k *kit) {
			ask(k, k.Unlock, flow.UnlockAsk{Key: "x", Owner: "me", Fence: lock.Fence})
			ask(k, k.Leave, flow.LeaveAsk{Key: "wokr.W1"})
			require.Equal(k.t, 2, writes)
			ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W2", Force: true})
		})
		require.Zero(k.t, granted)
		require.Equal(k.t, 3, revoked)
		require.Empty(k.t, k.keys("x.lock"))
		refused(k, codes.LeaseGone, k.Heartbeat, flow.HeartbeatAsk{Key: "wokr.W2"})
	})
}
