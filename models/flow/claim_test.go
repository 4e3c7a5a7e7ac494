package flow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/flow"
)

func TestOverlappingClaimsAreRefused(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(3)
		k.join("W1", "W2")
		claim := func(worker, key string) flow.ClaimAsk { return flow.ClaimAsk{Worker: "wokr." + worker, Key: key} }
		ask(k, k.Claim, claim("W1", "node.N0"))
		require.Contains(k.t, refused(k, codes.Conflict, k.Claim, claim("W2", "flow.F")), "claimed already")
		refused(k, codes.Conflict, k.Claim, claim("W2", "cfapp.A"))
		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W1", Key: "node.N0"})

		whole := ask(k, k.Claim, claim("W2", "flow.F"))
		require.Equal(k.t, "sess.E.flow", whole.List)
		require.Contains(k.t, refused(k, codes.Conflict, k.Claim, claim("W1", "node.N0")), "wokr.W2")
		refused(k, codes.Conflict, k.Claim, flow.ClaimAsk{Worker: "wokr.W1", From: "flow.F"})
		refused(k, codes.Conflict, k.Claim, claim("W1", "cfapp.A"))
		require.Equal(k.t, "srvs.V", ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W1"}).Key, "nodes of the flow are for W2")
		require.Empty(k.t, ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W1"}).Key)
		for i := range 3 {
			require.Equal(k.t, fmt.Sprintf("node.N%d", i), ask(k, k.Claim, claim("W2", fmt.Sprintf("node.N%d", i))).Key)
		}
		k.sound()
		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W1", Key: "srvs.V"})
		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W2", Force: true})
		k.sound()

		app := ask(k, k.Claim, claim("W1", "cfapp.A"))
		require.Equal(k.t, "cfapplist", app.List)
		require.Equal(k.t, `"PENDDING"`, k.value("cfapplist.cfapp.A"))
		ask(k, k.Join, flow.JoinAsk{Key: "wokr.W2"})
		for _, key := range []string{"node.N0", "srvs.V", "flow.F"} {
			refused(k, codes.Conflict, k.Claim, claim("W2", key))
		}
		require.Empty(k.t, ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W2"}).Key)
		refused(k, codes.Conflict, k.Claim, flow.ClaimAsk{Worker: "wokr.W2", From: "cfapp.A"})
		require.NotEmpty(k.t, ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W1", From: "cfapp.A"}).Key)
		refused(k, codes.BadRequest, k.Claim, claim("W1", "sess.E"))
		refused(k, codes.NotFound, k.Claim, claim("W1", "node.absent"))
		refused(k, codes.LeaseGone, k.Claim, claim("absent", "node.N0"))
		refused(k, codes.LeaseGone, k.Claim, flow.ClaimAsk{Worker: "wokr.W1", Lease: 1, Key: "node.N1"})
		k.sound()
	})
}

func TestManyWorkersClaimEachTaskOnce(t *testing.T) {
	each(t, func(k *kit) {
		const tasks, workers = 300, 8
		k.sample(tasks)
		var mu sync.Mutex
		claims := map[string]string{}
		var wg sync.WaitGroup
		for w := range workers {
			id, worker := fmt.Sprint("W", w), k
			if w%2 == 1 {
				worker = k.again()
			}
			k.join(id)
			wg.Go(func() {
				for {
					a, err := worker.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: "wokr." + id, From: "flow.F"})
					if err != nil {
						k.t.Error(err)
						return
					}
					if a.Key == "" {
						return
					}
					mu.Lock()
					if claims[a.Key] != "" {
						k.t.Errorf("%s was claimed twice", a.Key)
					}
					claims[a.Key] = id
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(k.t, claims, tasks)
		require.Equal(k.t, fmt.Sprint(tasks), k.value("flow.F.claims"))
		k.sound()
	})
}

func TestAFenceTellsClaimsApart(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		k.join("W")
		first := ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W", Key: "node.N0"})
		second := ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		require.Greater(k.t, second.Fence, first.Fence)
		refused(k, codes.FenceLost, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "STARTING", Worker: "wokr.W", Fence: first.Fence})
		ask(k, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "STARTING", Worker: "wokr.W", Fence: second.Fence})
		require.Equal(k.t, second.Fence, ask(k, k.Assigned, flow.AssignedAsk{Worker: "wokr.W"}).Tasks[0].Fence)
		k.sound()
	})
}

func TestARepeatedRequestHasNoFurtherEffect(t *testing.T) {
	each(t, func(k *kit) {
		twice := func(name string, do func() (any, error)) {
			first, err := do()
			require.NoError(k.t, err, name)
			again, err := do()
			require.NoError(k.t, err, name)
			require.Equal(k.t, first, again, name)
		}
		by := k.by
		twice("register", func() (any, error) {
			return k.Register(k.ctx, by, &flow.RegisterAsk{App: "A", Parts: parts("", 2), Token: "1"})
		})
		twice("register in pieces", func() (any, error) {
			return k.Register(k.ctx, by, &flow.RegisterAsk{App: "B", Parts: parts("b", 300), Token: "2"})
		})
		twice("join", func() (any, error) { return k.Join(k.ctx, by, &flow.JoinAsk{Key: "wokr.W", Token: "3"}) })
		twice("claim", func() (any, error) { return k.Claim(k.ctx, by, &flow.ClaimAsk{Worker: "wokr.W", Token: "4"}) })
		require.Len(k.t, ask(k, k.Assigned, flow.AssignedAsk{Worker: "wokr.W"}).Tasks, 1)
		twice("status", func() (any, error) {
			return k.SetStatus(k.ctx, by, &flow.StatusAsk{Key: "node.N0", Status: "STARTING", Token: "5"})
		})
		twice("count", func() (any, error) {
			return k.Count(k.ctx, by, &flow.CountAsk{Key: "node.N0", Count: 1, Size: 10, Token: "6"})
		})
		require.Equal(k.t, "10", k.value("node.N0.dsize"))
		twice("replicate", func() (any, error) {
			return k.Replicate(k.ctx, by, &flow.ReplicateAsk{Key: "node.N1", Count: 2, Token: "7"})
		})
		twice("lock", func() (any, error) {
			return k.TryLock(k.ctx, by, &flow.LockAsk{Key: "x", Owner: "me", Token: "8"})
		})
		twice("set", func() (any, error) { return k.Set(k.ctx, by, &flow.SetAsk{Key: "x", Value: raw("1"), Token: "9"}) })
		twice("delete", func() (any, error) { return k.Delete(k.ctx, by, &flow.DeleteAsk{Key: "x", Below: true, Token: "10"}) })
		twice("return", func() (any, error) {
			return k.Return(k.ctx, by, &flow.ReturnAsk{Worker: "wokr.W", Force: true, Token: "11"})
		})
		twice("remove", func() (any, error) { return k.Remove(k.ctx, by, &flow.RemoveAsk{Key: "cfapp.B", Token: "12"}) })
		refused(k, codes.TokenReused, k.Remove, flow.RemoveAsk{Key: "cfapp.A", Token: "12"})
		k.sound()
	})
}

func TestCountersAreAddedAtomically(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 25 {
					if _, err := k.Count(k.ctx, k.by, &flow.CountAsk{Key: "node.N0", Count: 1, Size: 3}); err != nil {
						k.t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(k.t, &flow.CountAnswer{Count: 200, Size: 600}, ask(k, k.Count, flow.CountAsk{Key: "node.N0"}))
		refused(k, codes.NotFound, k.Count, flow.CountAsk{Key: "node.absent", Count: 1})
		refused(k, codes.Overflow, k.Count, flow.CountAsk{Key: "node.N0", Count: 1<<63 - 1})
	})
}

func TestTheOperationLogIsBounded(t *testing.T) {
	inside(t, func(k *kit) {
		k.have(flow.Open(k.bed.Store, flow.Config{Lines: 5}))
		k.sample(1)
		for i := range 12 {
			ask(k, k.Set, flow.SetAsk{Key: "node.N0.descr", Value: raw(fmt.Sprintf(`"%d"`, i))})
		}
		log := ask(k, k.Oplog, flow.LogAsk{Key: "node.N0"}).Lines
		require.Len(k.t, log, 5)
		require.EqualValues(k.t, 9, log[0].Line)
		require.Equal(k.t, "set descr", log[4].What)
		refused(k, codes.NotFound, k.Oplog, flow.LogAsk{Key: "node.absent"})
	})
}

func TestTheTree(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(3)
		ask(k, k.Register, flow.RegisterAsk{App: "B", Parts: parts("b", 1), Fields: map[string]flow.Raw{"name": raw(`"second"`)}})
		k.join("W")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N1"})
		var lines []string
		print := func(a *flow.TreeAnswer) {
			for _, l := range a.Lines {
				line := fmt.Sprintf("%*s%s %s %s %s", l.Depth*2, "", l.Key, l.Name, l.Status, l.Worker)
				if l.Tasks != nil {
					line += fmt.Sprintf(" %s %v", l.Rolled, l.Tasks)
				}
				lines = append(lines, line)
			}
		}
		a := ask(k, k.Tree, flow.TreeAsk{})
		print(a)
		want := []string{
			"cfapp.A  WAITING  PENDDING map[PENDDING:1 WAITING:3]", "  sess.E   ", "    flow.F   ",
			"      node.N0 count WAITING ", "      node.N1 count PENDDING W", "      node.N2 count WAITING ", "  srvs.V  WAITING ",
			"cfapp.B second WAITING  WAITING map[WAITING:2]", "  sess.Eb   ", "    flow.Fb   ", "      node.N0b count WAITING ", "  srvs.Vb  WAITING ",
		}
		require.Equal(k.t, want, lines)
		require.Empty(k.t, a.Next)
		for limit := int64(1); limit <= int64(len(want)); limit++ {
			lines = nil
			for after := ""; ; {
				a := ask(k, k.Tree, flow.TreeAsk{After: after, Limit: limit})
				print(a)
				if after = a.Next; after == "" {
					break
				}
			}
			require.Equal(k.t, want, lines, "%d a page", limit)
		}
		lines = nil
		print(ask(k, k.Tree, flow.TreeAsk{App: "B"}))
		require.Equal(k.t, want[7:], lines)
	})
}

// A tree of an application that others change all the time is of one moment.
func TestATreeIsOfOneMoment(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(60)
		k.join("W")
		ctx, stop := context.WithCancel(k.ctx)
		var wg sync.WaitGroup
		wg.Go(func() { // always one more is claimed, in their order, and then all go back
			for ctx.Err() == nil {
				for i := range 60 {
					_, _ = k.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: "wokr.W", Key: fmt.Sprintf("node.N%d", i)})
				}
				for i := range 60 {
					_, _ = k.Return(k.ctx, k.by, &flow.ReturnAsk{Worker: "wokr.W", Key: fmt.Sprintf("node.N%d", 59-i)})
				}
			}
		})
		for range 200 {
			a, err := k.Tree(k.ctx, k.by, &flow.TreeAsk{})
			if err != nil {
				k.t.Error(err)
				break
			}
			status := map[string]flow.Status{}
			for _, l := range a.Lines {
				status[l.Key] = l.Status
			}
			for i := range 59 {
				if status[fmt.Sprintf("node.N%d", i)] == flow.Waiting && status[fmt.Sprintf("node.N%d", i+1)] != flow.Waiting {
					k.t.Errorf("N%d waits and N%d does not", i, i+1)
				}
			}
		}
		stop()
		wg.Wait()
	})
}

func TestRegistrationsTellAllTheirFaults(t *testing.T) {
	each(t, func(k *kit) {
		faults := []string{"claims cannot be given", "node.N cannot be below sess.E", "index must be of type int", `"a.b" is no name`, "srvs.V is there twice", "wokr.W cannot be below"}
		fields := map[string]flow.Raw{"index": raw(`"one"`), "a.b": raw("1")}
		if !k.bed.Wire() { // where a question with that in it is no JSON either
			fields["x"], faults = raw("{"), append(faults, "srvs.V.x")
		}
		message := refused(k, codes.BadRequest, k.Register, flow.RegisterAsk{App: "A", Fields: map[string]flow.Raw{"claims": raw("1")}, Parts: []flow.Part{
			{Key: "node.N", Parent: "sess.E"}, {Key: "srvs.V", Fields: fields}, {Key: "srvs.V"}, {Key: "wokr.W"},
		}})
		for _, fault := range faults {
			require.Contains(k.t, message, fault)
		}
		many := map[string]flow.Raw{}
		for i := range flow.MaxFields + 1 {
			many[fmt.Sprint("f", i)] = raw("1")
		}
		refused(k, codes.BadRequest, k.Register, flow.RegisterAsk{App: "A", Fields: many})
		refused(k, codes.TooManyOps, k.Register, flow.RegisterAsk{App: "A", Parts: make([]flow.Part, flow.MaxParts+1)})
		refused(k, codes.Conflict, k.Register, flow.RegisterAsk{App: "A", Parts: []flow.Part{{Key: "flow.F", Parent: "sess.absent"}}})
		require.Empty(k.t, k.keys("cfapp."))

		k.sample(1)
		require.Contains(k.t, refused(k, codes.Conflict, k.Register, flow.RegisterAsk{App: "B", Parts: parts("", 1)}), "node.N0 belongs to cfapp.A already")
		refused(k, codes.AlreadyExists, k.Register, flow.RegisterAsk{App: "A"})
		require.Empty(k.t, k.keys("cfapp.B"))
		for _, key := range []string{"node.N0.cstat", "flow.F.node.node.N0", "wokr.W.task.node.N0", "node.N0.lock.owner", "cfapplist.ctime", "node.N0.oplog.1", "cfworkers.wokr.W"} {
			refused(k, codes.BadRequest, k.Set, flow.SetAsk{Key: key, Value: raw(`"WAITING"`)})
			refused(k, codes.BadRequest, k.Delete, flow.DeleteAsk{Key: key, Below: true})
		}
		refused(k, codes.BadRequest, k.Delete, flow.DeleteAsk{Key: "node.N0.descr"})
		ask(k, k.Set, flow.SetAsk{Key: "node.N0.own", Value: raw("1")})
		require.EqualValues(k.t, 1, ask(k, k.Delete, flow.DeleteAsk{Key: "node.N0.own"}).Deleted)
		k.sound()
	})
}

func TestPartsOfAnApplicationAreRemoved(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(5)
		k.join("W")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N1"})
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "srvs.V"})
		refused(k, codes.Conflict, k.Remove, flow.RemoveAsk{Key: "node.N1"})
		refused(k, codes.Conflict, k.Remove, flow.RemoveAsk{Key: "sess.E"})
		refused(k, codes.Conflict, k.Remove, flow.RemoveAsk{Key: "wokr.W"})
		ask(k, k.Remove, flow.RemoveAsk{Key: "node.N0"})
		ask(k, k.Remove, flow.RemoveAsk{Key: "node.N1", Force: true})
		require.Empty(k.t, k.keys("node.N1"))
		k.sound()
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N2"})
		ask(k, k.Remove, flow.RemoveAsk{Key: "flow.F", Force: true})
		require.Empty(k.t, k.keys("node."))
		require.Equal(k.t, "1", k.value("cfapp.A.claims"))
		k.sound()
		ask(k, k.Remove, flow.RemoveAsk{Key: "sess.E"})
		ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A", Force: true})
		ask(k, k.Leave, flow.LeaveAsk{Key: "wokr.W"})
		refused(k, codes.LeaseGone, k.Leave, flow.LeaveAsk{Key: "wokr.W"})
		ask(k, k.Remove, flow.RemoveAsk{Key: "wokr.W"})
		require.Equal(k.t, []string{"cfapplist.ctime", "cfschedus.ctime", "cfworkers.ctime"}, k.keys(""))
	})
}

func TestADiscardedStageLeavesNothing(t *testing.T) {
	each(t, func(k *kit) {
		ask(k, k.Stage, flow.StageAsk{App: "A", TTL: 600_000})
		ask(k, k.Add, flow.AddAsk{App: "A", Parts: parts("", 10)})
		ask(k, k.Add, flow.AddAsk{App: "A", Parts: parts("", 10)}) // again
		refused(k, codes.Conflict, k.Stage, flow.StageAsk{App: "A"})
		refused(k, codes.Conflict, k.Register, flow.RegisterAsk{App: "A"})
		refused(k, codes.Conflict, k.Add, flow.AddAsk{App: "A", Parts: []flow.Part{{Key: "node.M", Parent: "flow.absent"}}})
		refused(k, codes.BadTTL, k.Stage, flow.StageAsk{App: "B", TTL: 1})
		ask(k, k.Discard, flow.DiscardAsk{App: "A"})
		require.Empty(k.t, k.keys("node."))
		require.Empty(k.t, k.keys("cfapp."))
		refused(k, codes.NotFound, k.Add, flow.AddAsk{App: "A", Parts: parts("", 1)})
		k.sample(1)
		k.sound()
	})
}

func TestEveryOperationIsInTheTable(t *testing.T) {
	names := map[string]bool{}
	for i := range flow.Operations {
		o := &flow.Operations[i]
		require.False(t, names[o.Name])
		names[o.Name] = true
		require.True(t, o.Right == access.FlowRead || o.Right == access.FlowWrite)
		require.NotEmpty(t, o.Doc)
	}
	require.Len(t, names, 28)
	require.Equal(t, "@flow/", kv.FlowPrefix)
}

// The caller may give any name; the log also has that of the connection.
func TestTheOperationLogNamesTheConnectionToo(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		k.by = &access.Actor{Name: "program", Address: "10.0.0.1:2"}
		ask(k, k.Set, flow.SetAsk{Key: "node.N0.descr", Value: raw(`"1"`), Who: "boss"})
		ask(k, k.Set, flow.SetAsk{Key: "node.N0.descr", Value: raw(`"2"`)})
		log := ask(k, k.Oplog, flow.LogAsk{Key: "node.N0", After: 1}).Lines
		require.Equal(k.t, []string{"boss", "10.0.0.1:2@program"}, []string{log[0].Who, log[0].By})
		require.Equal(k.t, []string{"10.0.0.1:2@program", ""}, []string{log[1].Who, log[1].By})
	})
}
