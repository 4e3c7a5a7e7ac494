package flow_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/flow"
)

func (k *kit) next(worker, from string) string {
	k.t.Helper()
	return ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr." + worker, From: from}).Key
}

func TestWhatIsBelowItsOwnClaimsIsGivenToAWorkerFirst(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(2)
		ask(k, k.Register, flow.RegisterAsk{App: "B", Parts: parts("b", 1)})
		ask(k, k.Register, flow.RegisterAsk{App: "C", Parts: parts("c", 1)})
		k.join("W1", "W2", "W3")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W1", Key: "flow.Fb"})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W2", Key: "cfapp.C"})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W2", Key: "flow.Fc"})

		require.Equal(k.t, "node.N0b", k.next("W1", ""))
		require.Equal(k.t, "node.N0c", k.next("W2", "cfapp.C"), "below a flow of its own, of that application")
		require.Equal(k.t, "srvs.Vc", k.next("W2", ""))
		var rest []string
		for _, w := range []string{"W1", "W2", "W3", "W1"} {
			rest = append(rest, k.next(w, ""))
		}
		require.ElementsMatch(k.t, []string{"node.N0", "node.N1", "srvs.V", "srvs.Vb"}, rest)
		for _, w := range []string{"W1", "W2", "W3"} {
			require.Empty(k.t, k.next(w, ""))
		}
		k.sound()
	})
}

// A task that no worker can claim, though its list says that it waits, is in no one's way.
func TestATaskThatIsAlwaysRefusedHoldsNobodyUp(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(3)
		k.join("W")
		_, err := k.bed.Txn(k.ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: k.ns, Key: "node.N1.worker", Value: kv.StringValue("nobody")}}})
		require.NoError(k.t, err)
		var got []string
		for range 3 {
			got = append(got, k.next("W", ""))
		}
		require.ElementsMatch(k.t, []string{"node.N0", "node.N2", "srvs.V"}, got)
		require.Empty(k.t, k.next("W", ""))
		_, err = k.bed.Txn(k.ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: k.ns, Key: "node.N1.worker"}}})
		require.NoError(k.t, err)
		require.Equal(k.t, "node.N1", k.next("W", ""), "it is not forgotten")
	})
}

func TestATaskIsNotForgottenByAClaimThatFails(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(2)
		k.join("W", "W2")
		require.Equal(k.t, "srvs.V", ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "srvs.V"}).Key)
		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W", Key: "srvs.V"})
		refused(k, codes.LeaseGone, k.Claim, flow.ClaimAsk{Worker: "wokr.dead"})
		refused(k, codes.LeaseGone, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Lease: 1})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W2", Key: "flow.F"})
		for range 3 {
			refused(k, codes.Conflict, k.Claim, flow.ClaimAsk{Worker: "wokr.W", From: "flow.F"})
		}
		require.ElementsMatch(k.t, []string{"node.N0", "node.N1"}, []string{k.next("W2", "flow.F"), k.next("W2", "flow.F")})
		require.Equal(k.t, "srvs.V", k.next("W", ""))
		require.Empty(k.t, k.next("W", ""))
		require.Empty(k.t, k.next("W2", ""))
		k.sound()
	})
}

// news tells of each look for what has come to wait.
type news struct {
	hooked
	looked chan struct{}
}

func (n *news) Get(ns, key string) *kv.Entry {
	e := n.Store.Get(ns, key)
	if key == "news.cl" {
		n.looked <- struct{}{}
	}
	return e
}

// As long as it is not clear that a task was claimed, others are not told that nothing waits.
func TestATaskWhoseClaimMayFailStillWaits(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		k.join("W1", "W2")
		other := *k
		got, once := make(chan string, 1), false
		store := &news{hooked{Store: k.bed.Store}, make(chan struct{}, 100)}
		store.before = func(txn *kv.Txn) {
			if once || !does(txn, kv.OpPut, "node.N0.worker") {
				return
			}
			once = true
			<-store.looked // W1, which takes the task
			go func() {
				a, _ := other.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: "wokr.W2", From: "flow.F"})
				got <- a.Key
			}()
			<-store.looked // W2, which finds none
			ask(k, k.Leave, flow.LeaveAsk{Key: "wokr.W1"})
		}
		other.have(flow.Open(store, flow.Config{}))
		refused(&other, codes.LeaseGone, other.Claim, flow.ClaimAsk{Worker: "wokr.W1", From: "flow.F"})
		require.Equal(k.t, "node.N0", <-got)
		k.sound()
	})
}

// walked counts how often a store is asked for the applications of a scope, or for the nodes of
// a flow.
type walked struct {
	embedded.Store
	lists *atomic.Int64
}

func (w walked) List(l kv.List) (kv.Page, error) {
	if l.Prefix == "cfapplist." || strings.HasPrefix(l.Prefix, "flow.") {
		w.lists.Add(1)
	}
	return w.Store.List(l)
}

// While nothing comes to wait, workers that find nothing do not look for it again.
func TestAnIdleClaimDoesNotLookEverywhere(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(50)
		k.join("W")
		store := walked{k.bed.Store, new(atomic.Int64)}
		k.have(flow.Open(store, flow.Config{}))
		refused(k, codes.LeaseGone, k.Claim, flow.ClaimAsk{Worker: "wokr.dead"})
		require.Zero(k.t, store.lists.Load(), "for one that is dead nobody looks")
		for range 51 {
			require.NotEmpty(k.t, k.next("W", ""))
		}
		for range 20 {
			require.Empty(k.t, k.next("W", ""))
			require.Empty(k.t, k.next("W", "flow.F"))
		}
		require.LessOrEqual(k.t, store.lists.Load(), int64(2+1), "the scope with its flow, and the flow")
		refused(k, codes.LeaseGone, k.Claim, flow.ClaimAsk{Worker: "wokr.dead"})
		refused(k, codes.NotFound, k.Claim, flow.ClaimAsk{Worker: "wokr.W", From: "flow.absent"})
	})
}

// Whatever makes a task wait, or lets it be claimed, also in another process: who found nothing
// before is given it.
func TestWhatComesToWaitIsFoundByThoseWhoFoundNothing(t *testing.T) {
	each(t, func(k *kit) {
		k.run()
		k.join("W", "idle")
		idle := k.again()
		empty := func() {
			k.t.Helper()
			for idle.next("idle", "") != "" {
			}
		}
		found := func(want string) {
			k.t.Helper()
			require.Equal(k.t, want, idle.next("idle", ""))
			empty()
		}
		empty()
		single := func(id string) []flow.Part {
			return []flow.Part{{Key: "sess." + id}, {Key: "flow." + id, Parent: "sess." + id}, {Key: "node." + id, Parent: "flow." + id}}
		}
		ask(k, k.Register, flow.RegisterAsk{App: "A", Parts: single("a")})
		found("node.a")

		ask(k, k.Stage, flow.StageAsk{App: "B"})
		ask(k, k.Add, flow.AddAsk{App: "B", Parts: single("b")})
		require.Empty(k.t, idle.next("idle", ""))
		ask(k, k.Publish, flow.PublishAsk{App: "B"})
		found("node.b")

		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.b", Count: 1})
		found("node.b-1")

		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.idle", Key: "node.a"})
		require.Equal(k.t, "node.a", k.next("W", ""))
		require.Empty(k.t, idle.next("idle", ""))
		ask(k, k.Leave, flow.LeaveAsk{Key: "wokr.W"})
		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W"})
		found("node.a")

		k.join("W")
		ask(k, k.Register, flow.RegisterAsk{App: "C", Parts: single("c")})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "flow.c"})
		require.Empty(k.t, idle.next("idle", ""))
		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W", Key: "flow.c"})
		found("node.c")

		ask(k, k.Register, flow.RegisterAsk{App: "D", Parts: single("d")})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "cfapp.D"})
		require.Empty(k.t, idle.next("idle", ""))
		for _, s := range []string{"STOPING", "EXITED"} {
			ask(k, k.SetStatus, flow.StatusAsk{Key: "cfapp.D", Status: s})
		}
		found("node.d")
		k.sound()
	})
}

func TestTooManyMembersInOneQuestion(t *testing.T) {
	each(t, func(k *kit) {
		require.Contains(k.t, refused(k, codes.TooManyOps, k.Register, flow.RegisterAsk{App: "A", Parts: parts("", flow.MaxParts)}), fmt.Sprint(flow.MaxParts))
	})
}
