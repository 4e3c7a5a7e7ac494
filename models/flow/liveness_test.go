package flow_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
)

func TestC19OnlyTheOwnerUnlocks(t *testing.T) {
	wired(t, func(k *kit, c *calls.FlowCalls) {
		k.sample(1)
		a := ask(k, k.TryLock, flow.LockAsk{Key: "node.N0", Owner: "A"})
		require.True(k.t, a.Granted)
		b := ask(k, k.TryLock, flow.LockAsk{Key: "node.N0", Owner: "B"})
		require.False(k.t, b.Granted)
		require.Equal(k.t, "A", b.Owner)
		require.Equal(k.t, a.Fence, b.Fence)
		require.Equal(k.t, "A", ask(k, k.Show, flow.ShowAsk{Key: "node.N0"}).Lock.Owner)
		refused(k, codes.FenceLost, k.Unlock, flow.UnlockAsk{Key: "node.N0", Owner: "B", Fence: a.Fence})
		refused(k, codes.FenceLost, k.Unlock, flow.UnlockAsk{Key: "node.N0", Owner: "A", Fence: a.Fence + 1})
		got := make(chan *flow.LockAnswer)
		go func() {
			a, _ := c.Lock(k.ctx, &flow.LockAsk{Key: "node.N0", Owner: "B"})
			got <- a
		}()
		require.Equal(k.t, a.Fence, ask(k, k.TryLock, flow.LockAsk{Key: "node.N0", Owner: "A", Fence: a.Fence}).Fence)
		select {
		case <-got:
			require.Fail(k.t, "B must wait")
		default:
		}
		ask(k, k.Unlock, flow.UnlockAsk{Key: "node.N0", Owner: "A", Fence: a.Fence})
		next := <-got
		require.True(k.t, next.Granted)
		require.Greater(k.t, next.Fence, a.Fence)
		refused(k, codes.FenceLost, k.TryLock, flow.LockAsk{Key: "node.N0", Owner: "A", Fence: a.Fence})
		ask(k, k.Unlock, flow.UnlockAsk{Key: "node.N0", Owner: "B", Fence: next.Fence})
		require.Empty(k.t, k.keys("node.N0.lock"))
	})
}

func TestC20LocksNeverOverlap(t *testing.T) {
	wired(t, func(k *kit, _ *calls.FlowCalls) {
		var inside, cycles atomic.Int64
		var wg sync.WaitGroup
		for c := range 8 {
			client, owner := calls.Flow(k.bed.Dial(k.t)), fmt.Sprint("client ", c)
			wg.Go(func() {
				for range 50 {
					a, err := client.Lock(k.ctx, &flow.LockAsk{Key: "some.key", Owner: owner, Time: 60})
					if err != nil || inside.Add(1) != 1 {
						k.t.Errorf("%s: overlap, or %v", owner, err)
						return
					}
					cycles.Add(1)
					inside.Add(-1)
					if _, err := client.Unlock(k.ctx, &flow.UnlockAsk{Key: "some.key", Owner: owner, Fence: a.Fence}); err != nil {
						k.t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(k.t, 400, cycles.Load())
	})
}

// counted counts how often locks are asked for.
type counted struct{ asked atomic.Int64 }

func (c *counted) Begin(ctx context.Context, op string) (context.Context, func(error)) {
	if op == "FLLOCK" {
		c.asked.Add(1)
	}
	return ctx, func(error) {}
}

func TestC21ADeadHoldersLockIsGivenToAWaiter(t *testing.T) {
	wired(t, func(k *kit, c *calls.FlowCalls) {
		held := ask(k, k.TryLock, flow.LockAsk{Key: "some.key", Owner: "dead", Time: 1})
		next, err := c.Lock(k.ctx, &flow.LockAsk{Key: "some.key", Owner: "next"})
		require.NoError(k.t, err)
		require.Greater(k.t, next.Fence, held.Fence)
		refused(k, codes.FenceLost, k.Unlock, flow.UnlockAsk{Key: "some.key", Owner: "dead", Fence: held.Fence})
	})
}

func TestC22WaitersDoNotPoll(t *testing.T) {
	wired(t, func(k *kit, _ *calls.FlowCalls) {
		held := ask(k, k.TryLock, flow.LockAsk{Key: "some.key", Owner: "busy", Time: 600})
		const waiters = 100
		count := &counted{}
		c, err := client.Dial(k.ctx, client.Config{Addrs: []string{k.bed.Server.Address()}, Name: "waiters", Observer: count})
		require.NoError(k.t, err)
		defer c.Close()
		waiting := calls.Flow(c)
		got := make(chan *flow.LockAnswer, waiters)
		ctx, cancel := context.WithCancel(k.ctx)
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				if a, err := waiting.Lock(ctx, &flow.LockAsk{Key: "some.key", Owner: fmt.Sprint(i), Time: 600}); err == nil {
					got <- a
				}
			})
		}
		require.Eventually(k.t, func() bool {
			watches := 0
			list, _ := k.bed.Server.TCP().Clients(0, 10)
			for i := range list {
				watches += list[i].Watches
			}
			return watches == waiters
		}, modeltest.Patience, 10*time.Millisecond)
		require.EqualValues(k.t, waiters, count.asked.Load(), "each looks once")
		for range 50 {
			ask(k, k.TryLock, flow.LockAsk{Key: "some.key", Owner: "busy", Time: 600, Fence: held.Fence})
			ask(k, k.Set, flow.SetAsk{Key: "other.key", Value: raw("1")})
		}
		require.EqualValues(k.t, waiters, count.asked.Load(), "and then only listens")
		ask(k, k.Unlock, flow.UnlockAsk{Key: "some.key", Owner: "busy", Fence: held.Fence})
		first := <-got
		cancel()
		wg.Wait()
		require.Greater(k.t, first.Fence, held.Fence)
		require.Empty(k.t, got)
	})
}

// until waits until a member of a list has another status.
func (k *kit) until(list, member string, status flow.Status) {
	k.t.Helper()
	w := k.watch(list+"."+member, 0)
	defer w.Stop()
	for {
		c, err := w.Next(k.ctx)
		require.NoError(k.t, err)
		for i := range c.List {
			if c.List[i].Key.String() == list+"."+member && c.List[i].Is() == status {
				return
			}
		}
	}
}

func TestC23AndC24ADeadWorkersTasksWaitAgain(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(200)
		k.run()
		k.join("alive")
		short := ask(k, k.Join, flow.JoinAsk{Key: "wokr.dead", TTL: 5000, Fields: map[string]flow.Raw{"name": raw(`"the dead"`)}})
		refused(k, codes.Conflict, k.Join, flow.JoinAsk{Key: "wokr.dead"})
		for i := range 150 {
			ask(k, k.Heartbeat, flow.HeartbeatAsk{Key: "wokr.dead", Lease: short.Lease})
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.dead", Lease: short.Lease, Key: fmt.Sprintf("node.N%d", i)})
		}
		kept := ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.alive", Key: "node.N199"})
		for i, statuses := range [][]string{{"STARTING"}, {"STARTING", "WORKING"}, {"STOPING"}, {"STOPING", "EXITED"}} {
			for _, s := range statuses {
				ask(k, k.SetStatus, flow.StatusAsk{Key: fmt.Sprintf("node.N%d", i), Status: s, Worker: "wokr.dead"})
			}
		}
		refused(k, codes.Conflict, k.Return, flow.ReturnAsk{Worker: "wokr.alive"})
		k.until("cfworkers", "wokr.dead", flow.Exited)
		refused(k, codes.LeaseGone, k.Claim, flow.ClaimAsk{Worker: "wokr.dead", Key: "node.N180"})
		refused(k, codes.LeaseGone, k.Heartbeat, flow.HeartbeatAsk{Key: "wokr.dead"})
		workers := ask(k, k.Workers, flow.WorkersAsk{Status: "EXITED"}).Workers
		require.Len(k.t, workers, 1)
		require.Equal(k.t, "the dead", workers[0].Name)
		require.EqualValues(k.t, 149, workers[0].Tasks)
		require.Len(k.t, ask(k, k.Assigned, flow.AssignedAsk{Worker: "wokr.dead"}).Tasks, 149)

		require.EqualValues(k.t, 149, ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.dead"}).Returned)
		require.Empty(k.t, ask(k, k.Assigned, flow.AssignedAsk{Worker: "wokr.dead"}).Tasks)
		require.Len(k.t, ask(k, k.List, flow.ListAsk{List: "flow.F.node", Status: "WAITING"}).Members, 197)
		require.Equal(k.t, `"EXITED"`, k.value("node.N2.cstat"), "it was STOPING")
		require.Equal(k.t, `"EXITED"`, k.value("node.N3.cstat"), "it had EXITED")
		require.Equal(k.t, "node.N199", kept.Key)
		require.Equal(k.t, `"PENDDING"`, k.value("node.N199.cstat"))
		refused(k, codes.FenceLost, k.SetStatus, flow.StatusAsk{Key: "node.N199", Status: "STARTING", Worker: "wokr.dead"})
		require.EqualValues(k.t, 0, ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.dead"}).Returned)
		ask(k, k.Join, flow.JoinAsk{Key: "wokr.dead"})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.dead", Key: "node.N0"})
		k.sound()
	})
}

func TestC25WorkersAreWatchedInOrder(t *testing.T) {
	each(t, func(k *kit) {
		ask(k, k.Set, flow.SetAsk{Key: "some.key", Value: raw("1")}) // before it there is no revision to watch after
		w := k.watch("cfworkers.wokr.", 0)
		defer w.Stop()
		c, err := w.Next(k.ctx)
		require.NoError(k.t, err)
		require.Equal(k.t, kv.Synced, c.Kind)
		from := c.Revision
		k.join("W1", "W2")
		ask(k, k.Leave, flow.LeaveAsk{Key: "wokr.W1"})
		want := []string{"wokr.W1:  -> WORKING", "wokr.W2:  -> WORKING", "wokr.W1: WORKING -> EXITED"}
		require.Equal(k.t, want, k.told(w, len(want)))
		again := k.watch("cfworkers.", int64(from))
		defer again.Stop()
		require.Equal(k.t, want, k.told(again, len(want)))
	})
}

// told takes n changes of statuses from a watch.
func (k *kit) told(w *flow.Watch, n int) (list []string) {
	k.t.Helper()
	for len(list) < n {
		c, err := w.Next(k.ctx)
		require.NoError(k.t, err)
		for i := range c.List {
			if one := &c.List[i]; one.Key.Form == flow.ListMember {
				list = append(list, fmt.Sprintf("%s: %s -> %s", one.Key.Member, one.Was(), one.Is()))
			}
		}
	}
	return list
}

func TestC26RemovalLeavesNothing(t *testing.T) {
	each(t, func(k *kit) {
		k.run()
		k.sample(300)
		ask(k, k.Register, flow.RegisterAsk{App: "B", Parts: parts("b", 1)})
		k.join("W")
		for i := range 20 {
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: fmt.Sprintf("node.N%d", i)})
		}
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N50", Count: 3})
		require.Contains(k.t, refused(k, codes.Conflict, k.Remove, flow.RemoveAsk{Key: "cfapp.A"}), "claimed")
		for i := range 20 {
			for _, s := range []string{"STOPING", "EXITED"} {
				ask(k, k.SetStatus, flow.StatusAsk{Key: fmt.Sprintf("node.N%d", i), Status: s})
			}
		}
		ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
		left := k.keys("")
		for _, key := range left {
			require.NotRegexp(k.t, `node\.N\d+(-\d+)?(\.|$)|^cfapp\.A\.|cfapp\.A$|\.F(\.|$)|\.E(\.|$)|\.V(\.|$)`, key)
		}
		require.Contains(k.t, left, "node.N0b.cstat")
		require.Empty(k.t, k.duties())
		refused(k, codes.NotFound, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
		k.sample(1) // once more
		k.sound()
	})
}

func TestC27AllKeysBelowAPrefixSorted(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(3)
		var got []flow.Entry
		for after := ""; ; {
			a := ask(k, k.Read, flow.ReadAsk{Prefix: "node.", After: after, Limit: 7})
			got = append(got, a.Entries...)
			if after = a.Next; after == "" {
				break
			}
		}
		for i := range got {
			require.NotEmpty(k.t, got[i].Value)
			if i > 0 {
				require.Less(k.t, got[i-1].Key, got[i].Key)
			}
		}
		require.Len(k.t, got, len(k.keys("node.")))
	})
}

func TestC29AStallIsSurvived(t *testing.T) {
	wired(t, func(k *kit, _ *calls.FlowCalls) {
		k.sample(1)
		k.join("W")
		k.bed.Server.Freeze()
		got := make(chan error, 1)
		go func() {
			_, err := k.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
			got <- err
		}()
		short, cancel := context.WithCancel(k.ctx)
		cancel()
		_, err := k.Heartbeat(short, k.by, &flow.HeartbeatAsk{Key: "wokr.W"})
		require.ErrorIs(k.t, err, context.Canceled)
		k.bed.Server.Thaw()
		require.NoError(k.t, <-got)
		require.Equal(k.t, `"PENDDING"`, k.value("flow.F.node.node.N0"))
	})
}

func TestC31AcknowledgedIsThereAfterARestart(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(300)
		k.join("W")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N7"})
		want := k.keys("")
		k.bed.Restart(k.t)
		k = k.again()
		require.Equal(k.t, want, k.keys(""))
		ask(k, k.Heartbeat, flow.HeartbeatAsk{Key: "wokr.W"})
		require.Equal(k.t, "node.N7", ask(k, k.Assigned, flow.AssignedAsk{Worker: "wokr.W"}).Tasks[0].Key)
		k.sound()
	})
}

func TestC32KeysWithABarAreRefused(t *testing.T) {
	each(t, func(k *kit) {
		refused(k, codes.BadRequest, k.Set, flow.SetAsk{Key: "a|b", Value: raw("1")})
		refused(k, codes.BadKey, k.Delete, flow.DeleteAsk{Key: "a|b"})
		refused(k, codes.BadKey, k.TryLock, flow.LockAsk{Key: "a|b", Owner: "me"})
		refused(k, codes.BadName, k.Set, flow.SetAsk{Scope: "a|b", Key: "a", Value: raw("1")})
		refused(k, codes.BadRequest, k.Register, flow.RegisterAsk{App: "A", Parts: []flow.Part{{Key: "srvs.a|b"}}})
		refused(k, codes.BadKey, k.Register, flow.RegisterAsk{App: "a|b"})
		require.Empty(k.t, k.keys("a"))
	})
}

// The sweep begins before anything is written, as in a new server.
func TestAWorkerIsMissedInANewStore(t *testing.T) {
	each(t, func(k *kit) {
		k.run()
		ask(k, k.Join, flow.JoinAsk{Key: "wokr.W", TTL: 200})
		k.until("cfworkers", "wokr.W", flow.Exited)
	})
}

func TestWhatALivingWorkerRunsIsReturnedByForceOnly(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(3)
		k.join("W")
		statuses := [][]string{{"STARTING"}, {"STARTING", "WORKING"}, {"STOPING"}}
		for i, list := range statuses {
			node := fmt.Sprintf("node.N%d", i)
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: node})
			for _, s := range list {
				ask(k, k.SetStatus, flow.StatusAsk{Key: node, Status: s})
			}
		}
		one := func(i int) flow.ReturnAsk {
			return flow.ReturnAsk{Worker: "wokr.W", Key: fmt.Sprintf("node.N%d", i)}
		}
		require.Contains(k.t, refused(k, codes.Conflict, k.Return, one(1)), "node.N1 is WORKING, and wokr.W is alive")
		refused(k, codes.Conflict, k.Return, one(2))
		ask(k, k.Return, one(0))
		forced := one(1)
		forced.Force = true
		ask(k, k.Return, forced)
		require.Equal(k.t, `"WAITING"`, k.value("node.N1.cstat"))
		ask(k, k.Leave, flow.LeaveAsk{Key: "wokr.W"})
		ask(k, k.Return, one(2))
		require.Equal(k.t, `"EXITED"`, k.value("node.N2.cstat"))
		k.sound()
	})
}

// A worker that comes back knows nothing of what it had.
func TestWhatAWorkerHadBeforeItJoinsAgainWaits(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(3)
		k.join("W")
		for i := range 3 {
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: fmt.Sprintf("node.N%d", i)})
		}
		for _, s := range []string{"STARTING", "WORKING"} {
			ask(k, k.SetStatus, flow.StatusAsk{Key: "node.N1", Status: s})
		}
		ask(k, k.Leave, flow.LeaveAsk{Key: "wokr.W"})
		k.join("W")
		require.Empty(k.t, ask(k, k.Assigned, flow.AssignedAsk{Worker: "wokr.W"}).Tasks)
		require.Equal(k.t, "0", k.value("wokr.W.tasks"))
		for i := range 3 {
			require.Equal(k.t, `"WAITING"`, k.value(fmt.Sprintf("node.N%d.state", i)))
		}
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N1"})
		k.sound()
	})
}

func TestASchedulerIsNoWorker(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		k.join("W")
		ask(k, k.Join, flow.JoinAsk{Key: "sche.W"})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		const want = "sche.W is no worker: write wokr.ID"
		require.Equal(k.t, want, refused(k, codes.BadRequest, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "STARTING", Worker: "sche.W"}))
		require.Equal(k.t, want, refused(k, codes.BadRequest, k.Return, flow.ReturnAsk{Worker: "sche.W"}))
		require.Equal(k.t, want, refused(k, codes.BadRequest, k.Claim, flow.ClaimAsk{Worker: "sche.W"}))
		require.Equal(k.t, want, refused(k, codes.BadRequest, k.Assigned, flow.AssignedAsk{Worker: "sche.W"}))
		refused(k, codes.BadRequest, k.Join, flow.JoinAsk{Key: "node.N0"})
	})
}

// A list below something that is not there is empty, as of a revision from which what comes can be
// watched.
func TestAListOfNobodySaysItsRevision(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		for _, list := range []string{"cfapp.B.srvs", "cfapp.B.sess", "sess.Eb.flow", "flow.Fb.node"} {
			a := ask(k, k.List, flow.ListAsk{List: list})
			require.Empty(k.t, a.Members)
			require.Positive(k.t, a.Revision, list)
			require.Equal(k.t, ask(k, k.Read, flow.ReadAsk{Prefix: list}).Revision, a.Revision)
		}
		ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
		require.Positive(k.t, ask(k, k.List, flow.ListAsk{List: "flow.F.node"}).Revision)
	})
}

func TestATreeOfNobodyIsRefused(t *testing.T) {
	each(t, func(k *kit) {
		refused(k, codes.NotFound, k.Tree, flow.TreeAsk{App: "NOPE"})
		refused(k, codes.NotFound, k.Tree, flow.TreeAsk{App: "cfapp.NOPE"})
		refused(k, codes.BadKey, k.Tree, flow.TreeAsk{App: "a.b"})
		k.sample(1)
		refused(k, codes.NotFound, k.Tree, flow.TreeAsk{App: "NOPE"})
		require.Len(k.t, ask(k, k.Tree, flow.TreeAsk{App: "cfapp.A"}).Lines, 5)
		ask(k, k.Stage, flow.StageAsk{App: "B"})
		refused(k, codes.NotFound, k.Tree, flow.TreeAsk{App: "B"})
	})
}

func TestAReplicaHasNoReplicas(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 1})
		for _, again := range []int64{1, 2, 900} {
			require.Contains(k.t, refused(k, codes.BadRequest, k.Replicate, flow.ReplicateAsk{Key: "node.N0-1", Count: again}), "node.N0-1 is a replica")
		}
		require.Empty(k.t, k.keys("node.N0-1-"))
		ask(k, k.Register, flow.RegisterAsk{App: "B", Parts: []flow.Part{{Key: "sess.Eb"}, {Key: "flow.Fb", Parent: "sess.Eb"},
			{Key: "node.Nb", Parent: "flow.Fb", Fields: map[string]flow.Raw{"subidx": raw("1")}}, {Key: "node.Nb-1", Parent: "flow.Fb"}}})
		refused(k, codes.BadRequest, k.Replicate, flow.ReplicateAsk{Key: "node.Nb", Count: 2})
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.Nb-1", Count: 2}) // which is only called like one
	})
}

// The machine's clock is put back, by an hour: what a member's log and its atime say never is.
func TestTimesOfALogNeverStepBack(t *testing.T) {
	inside(t, func(k *kit) {
		at := func(hour int64) *kit {
			other := *k
			other.have(flow.Open(k.bed.Store, flow.Config{Clock: clocktest.NewFake(time.Unix(3600*hour, 0))}))
			return &other
		}
		noon, before := at(12), at(11)
		noon.sample(1)
		noon.join("W")
		ask(before, before.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		for _, s := range []string{"STARTING", "WORKING", "EXITED"} {
			ask(before, before.SetStatus, flow.StatusAsk{Key: "node.N0", Status: s})
		}
		ask(before, before.Set, flow.SetAsk{Key: "node.N0.x", Value: raw("1")})
		ask(before, before.Leave, flow.LeaveAsk{Key: "wokr.W"})
		before.join("W")
		for _, m := range []string{"node.N0", "wokr.W"} {
			lines := ask(k, k.Oplog, flow.LogAsk{Key: m}).Lines
			require.Greater(k.t, len(lines), 2)
			for _, line := range lines {
				require.Equal(k.t, 12*time.Hour.Nanoseconds(), line.Time, "%s %d %s", m, line.Line, line.What)
			}
			require.Equal(k.t, fmt.Sprint(12*time.Hour.Nanoseconds()), k.value(m+".atime"))
		}
	})
}

// A tree shows what nodes and services are called that have no func.
func TestATreeShowsWhatEachIsCalled(t *testing.T) {
	each(t, func(k *kit) {
		called := func(name string, more ...string) map[string]flow.Raw {
			fields := map[string]flow.Raw{"name": raw(`"` + name + `"`)}
			for _, f := range more {
				fields["func"] = raw(`"` + f + `"`)
			}
			return fields
		}
		ask(k, k.Register, flow.RegisterAsk{App: "A", Fields: called("app"), Parts: []flow.Part{
			{Key: "srvs.V", Fields: called("service")}, {Key: "sess.E", Fields: called("session")}, {Key: "flow.F", Parent: "sess.E", Fields: called("flow")},
			{Key: "node.N0", Parent: "flow.F", Fields: called("node")}, {Key: "node.N1", Parent: "flow.F", Fields: called("node", "count")}, {Key: "node.N2", Parent: "flow.F"},
		}})
		var names []string
		for _, line := range ask(k, k.Tree, flow.TreeAsk{}).Lines {
			names = append(names, line.Name)
		}
		require.Equal(k.t, []string{"app", "session", "flow", "node", "count", "", "service"}, names)
	})
}
