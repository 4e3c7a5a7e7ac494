package flow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/flow"
)

// meddle is another program, in whose store something happens before the first transaction that
// at selects.
func (k *kit) meddle(at func(*kv.Txn) bool, before func()) *kit { return k.hook(once(at, before), nil) }

func once(at func(*kv.Txn) bool, do func()) func(*kv.Txn) {
	var o sync.Once
	return func(txn *kv.Txn) {
		if at(txn) {
			o.Do(do)
		}
	}
}

// at selects transactions with such an operation on a key that begins so.
func at(kind kv.OpKind, key string) func(*kv.Txn) bool {
	return func(t *kv.Txn) bool {
		return slices.ContainsFunc(t.Then, func(o kv.Op) bool { return o.Kind == kind && strings.HasPrefix(o.Key, key) })
	}
}

// finish does what is left to be done.
func (k *kit) finish() {
	k.t.Helper()
	stop := k.again().run()
	k.settle()
	stop()
}

// complete fails the test unless each of the members has all its fields and is listed.
func (k *kit) complete(list string, n int) {
	k.t.Helper()
	members := ask(k, k.List, flow.ListAsk{List: list}).Members
	require.Len(k.t, members, n)
	for _, m := range members {
		ask(k, k.Show, flow.ShowAsk{Key: m.Key})
		require.Equal(k.t, fmt.Sprintf("%q", m.Status), k.value(m.Key+".cstat"))
	}
	require.Empty(k.t, k.duties())
	k.sound()
}

func TestAStagedMemberStaysWhereItIs(t *testing.T) {
	inside(t, func(k *kit) {
		ask(k, k.Stage, flow.StageAsk{App: "A", TTL: 600_000})
		ask(k, k.Add, flow.AddAsk{App: "A", Parts: append(parts("", 1), flow.Part{Key: "flow.G", Parent: "sess.E"})})
		message := refused(k, codes.Conflict, k.Add, flow.AddAsk{App: "A", Parts: []flow.Part{{Key: "node.N0", Parent: "flow.G"}}})
		require.Contains(k.t, message, "below flow.F already")
		ask(k, k.Add, flow.AddAsk{App: "A", Parts: []flow.Part{{Key: "node.N1", Parent: "flow.G"}}})
		ask(k, k.Publish, flow.PublishAsk{App: "A"})
		k.complete("flow.F.node", 1)
		k.complete("flow.G.node", 1)
	})
}

// A change is worked out, then the member leaves its list, then the change comes, and only then the
// fields go.
func TestAChangeDoesNotBringBackWhatIsBeingRemoved(t *testing.T) {
	worker := "wokr.W"
	for name, change := range map[string]func(k *kit) error{
		"status": func(k *kit) error {
			_, err := k.SetStatus(k.ctx, k.by, &flow.StatusAsk{Key: "node.N0", Status: "STARTING"})
			return err
		},
		"claim": func(k *kit) error {
			_, err := k.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: worker, Key: "node.N0"})
			return err
		},
		"return": func(k *kit) error {
			_, err := k.Return(k.ctx, k.by, &flow.ReturnAsk{Worker: worker, Key: "node.N0"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inside(t, func(k *kit) {
				k.sample(3)
				k.join("W")
				if name != "claim" {
					ask(k, k.Claim, flow.ClaimAsk{Worker: worker, Key: "node.N0"})
				}
				ready, goOn, removed := make(chan bool), make(chan bool), make(chan error, 1)
				remover := k.meddle(at(kv.OpDeletePrefix, "node.N0."), func() { close(ready); <-goOn })
				slow := k.meddle(at(kv.OpPut, "flow.F.node.node.N0"), func() {
					go func() {
						_, err := remover.Remove(k.ctx, k.by, &flow.RemoveAsk{Key: "node.N0", Force: true})
						removed <- err
					}()
					<-ready
				})
				require.Error(k.t, change(slow))
				close(goOn)
				require.NoError(k.t, <-removed)
				k.finish()
				k.complete("flow.F.node", 2)
				require.Empty(k.t, k.keys("node.N0."))
			})
		})
	}
}

func TestARemovalThatIsOvertakenLeavesTheNextOfThatName(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(100)
		slow := k.meddle(at(kv.OpDeletePrefix, "node."), func() {
			refused(k, codes.NotFound, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
			k.finish()
			k.sample(100)
		})
		ask(slow, slow.Remove, flow.RemoveAsk{Key: "cfapp.A"})
		k.complete("flow.F.node", 100)
	})
}

func TestWhatGoesWithASessionIsNotTheNextApplications(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(50)
		slow := k.meddle(at(kv.OpDeletePrefix, "node."), func() {
			ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
			message := refused(k, codes.Conflict, k.Register, flow.RegisterAsk{App: "A", Parts: parts("", 50)})
			require.Contains(k.t, message, "still being removed")
			other := parts("", 50)
			other[1].Key, other[2].Parent = "sess.E2", "sess.E2"
			refused(k, codes.Conflict, k.Register, flow.RegisterAsk{App: "A", Parts: other})
			ask(k, k.Register, flow.RegisterAsk{App: "A", Parts: parts("b", 50)})
		})
		ask(slow, slow.Remove, flow.RemoveAsk{Key: "sess.E"})
		require.Empty(k.t, k.keys("flow.F."))
		k.complete("flow.Fb.node", 50)
	})
}

// The slow one has listed the nodes of a flow, when all of it is already gone and another flow of
// that name is there, while the rest of the session still goes.
func TestARemovalTakesNothingThatIsYounger(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(5)
		ready, goOn := make(chan bool), make(chan bool)
		slow := k.meddle(at(kv.OpDeletePrefix, "node."), func() { close(ready); <-goOn })
		begins := once(at(kv.OpDeletePrefix, "node."), func() {
			slow.run()
			<-ready
		})
		ends := once(at(kv.OpDeletePrefix, "sess.E."), func() {
			ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
			other := parts("", 5)
			other[1].Key, other[2].Parent = "sess.E2", "sess.E2"
			ask(k, k.Register, flow.RegisterAsk{App: "A", Parts: other})
			close(goOn)
			k.settle()
		})
		first := k.hook(func(txn *kv.Txn) { begins(txn); ends(txn) }, nil)
		ask(first, first.Remove, flow.RemoveAsk{Key: "sess.E"})
		require.Empty(k.t, k.keys("sess.E."))
		k.complete("flow.F.node", 5)
	})
}

// The last transaction of a removal comes when the next of that name is being removed, too.
func TestARemovalDoesNotEndALaterOne(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(5)
		var next sync.WaitGroup
		ready, goOn := make(chan bool), make(chan bool)
		slow := k.meddle(at(kv.OpDelete, "gone."), func() {
			k.finish()
			k.sample(5)
			later := k.meddle(at(kv.OpDeletePrefix, "node."), func() { close(ready); <-goOn })
			next.Go(func() { ask(later, later.Remove, flow.RemoveAsk{Key: "cfapp.A"}) })
			<-ready
		})
		ask(slow, slow.Remove, flow.RemoveAsk{Key: "cfapp.A"})
		close(goOn)
		next.Wait()
		require.Empty(k.t, k.keys("node."))
		require.Empty(k.t, k.duties())
	})
}

func TestARemovalCountsNothingOfALaterApplication(t *testing.T) {
	inside(t, func(k *kit) {
		k.join("W")
		k.sample(5)
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N3"})
		slow := k.meddle(at(kv.OpDeletePrefix, "node."), func() {
			ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A", Force: true})
			ask(k, k.Register, flow.RegisterAsk{App: "A", Parts: parts("b", 5)})
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N3b"})
		})
		ask(slow, slow.Remove, flow.RemoveAsk{Key: "flow.F", Force: true})
		require.Equal(k.t, "1", k.value("cfapp.A.claims"))
		k.complete("flow.Fb.node", 5)
	})
}

// removeAndDie removes a member, but nothing below it.
func (k *kit) removeAndDie(key string) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.ctx)
	dying := k.hook(nil, once(at(kv.OpPut, "gone."), cancel))
	_, err := dying.Remove(ctx, k.by, &flow.RemoveAsk{Key: key})
	require.NoError(k.t, err)
	require.NotEmpty(k.t, k.duties())
}

func TestNothingIsCopiedBelowSomethingRemoved(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		meddled := k.meddle(at(kv.OpPut, "flow.F.node.node.N0-"), func() { k.removeAndDie("flow.F") })
		refused(k, codes.NotFound, meddled.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 2})
		k.finish()
		require.Empty(k.t, k.keys("node."))
		k.sound()
	})
}

// expire ends the lease of a stage, a copy or a worker.
func (k *kit) expire(m string) {
	k.t.Helper()
	live := k.bed.Get(kv.FlowPrefix+".index", "live.cl."+m)
	_, err := k.bed.Txn(k.ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: live.Lease}}})
	require.NoError(k.t, err)
}

// A copy loses its lease, and before it removes what it wrote, the sweep has done so and another
// client copies again.
func TestReplicasLoseNothingToAnEarlierCopyThatIsDropped(t *testing.T) {
	const n = 90
	question := flow.ReplicateAsk{Key: "node.N0", Count: n}
	publishes := at(kv.OpPut, "flow.F.node.node.N0-")
	inside(t, func(k *kit) {
		k.sample(1)
		var next sync.WaitGroup
		ready, goOn := make(chan bool), make(chan bool)
		drops := once(at(kv.OpDeletePrefix, "node.N0-"), func() {
			k.finish()
			last := k.meddle(publishes, func() { ready <- true; <-goOn })
			next.Go(func() { ask(last, last.Replicate, question) })
			<-ready
		})
		expires := once(publishes, func() { k.expire("node.N0") })
		late := k.hook(func(txn *kv.Txn) { expires(txn); drops(txn) }, nil)
		refused(late, codes.LeaseGone, late.Replicate, question)
		close(goOn)
		next.Wait()
		k.complete("flow.F.node", n+1)
	})
}

func TestReplicasTakeNobodysPlace(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		meddled := k.meddle(at(kv.OpPut, "node.N0-1."), func() {
			ask(k, k.Register, flow.RegisterAsk{App: "B", Parts: []flow.Part{{Key: "sess.Eb"}, {Key: "flow.Fb", Parent: "sess.Eb"}, {Key: "node.N0-1", Parent: "flow.Fb"}}})
		})
		message := refused(k, codes.Conflict, meddled.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 2})
		require.Contains(k.t, message, "node.N0-1 is there already")
		k.complete("flow.Fb.node", 1)
		k.complete("flow.F.node", 1)
		require.Empty(k.t, k.keys("node.N0-2"))
	})
}

func TestReplicasAreOfTheNodeThatWasCopied(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		meddled := k.meddle(at(kv.OpPut, "flow.F.node.node.N0-"), func() {
			ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
			k.sample(1)
		})
		refused(k, codes.NotFound, meddled.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 2})
		k.complete("flow.F.node", 1)
		require.Empty(k.t, k.keys("node.N0-"))
	})
}

func TestAStageIsToldFromALaterOneOfThatName(t *testing.T) {
	inside(t, func(k *kit) {
		first := ask(k, k.Stage, flow.StageAsk{App: "A", TTL: 600_000}).Lease
		k.expire("cfapp.A")
		k.finish()
		second := ask(k, k.Stage, flow.StageAsk{App: "A", TTL: 600_000}).Lease
		for _, lease := range []int64{first, -1, 1 << 62} {
			refused(k, codes.NotFound, k.Add, flow.AddAsk{App: "A", Parts: parts("", 1), Lease: lease})
			refused(k, codes.NotFound, k.Add, flow.AddAsk{App: "A", Lease: lease})
			refused(k, codes.NotFound, k.Publish, flow.PublishAsk{App: "A", Lease: lease})
			refused(k, codes.NotFound, k.Discard, flow.DiscardAsk{App: "A", Lease: lease})
		}
		ask(k, k.Add, flow.AddAsk{App: "A", Parts: parts("", 1), Lease: second})
		ask(k, k.Publish, flow.PublishAsk{App: "A", Lease: second})
		k.complete("flow.F.node", 1)
	})
}

// The sweep has seen that a stage lost its lease, but is slower than another sweep, and than the
// client that stages again.
func TestTheSweepSparesAStageThatLives(t *testing.T) {
	inside(t, func(k *kit) {
		ask(k, k.Stage, flow.StageAsk{App: "A", TTL: 600_000})
		ask(k, k.Add, flow.AddAsk{App: "A", Parts: parts("", 1)})
		swept := make(chan bool)
		slow := k.meddle(at(kv.OpDelete, "stage."), func() {
			defer close(swept)
			k.finish()
			ask(k, k.Stage, flow.StageAsk{App: "A", TTL: 600_000})
		})
		stop := slow.run()
		k.expire("cfapp.A")
		<-swept
		stop() // waits until it has done what it was at
		ask(k, k.Add, flow.AddAsk{App: "A", Parts: parts("", 1)})
		ask(k, k.Publish, flow.PublishAsk{App: "A"})
		k.complete("flow.F.node", 1)
	})
}

func TestWhatIsBelowSomethingRemovedCannotBeClaimed(t *testing.T) {
	inside(t, func(k *kit) {
		k.join("W")
		for _, key := range []string{"flow.F", "sess.E"} {
			k.sample(3)
			slow := k.meddle(at(kv.OpDeletePrefix, "node."), func() {
				refused(k, codes.NotFound, k.Show, flow.ShowAsk{Key: "node.N0"})
				refused(k, codes.NotFound, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
				require.Equal(k.t, "srvs.V", ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W"}).Key)
				require.Empty(k.t, ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W"}).Key)
			})
			ask(slow, slow.Remove, flow.RemoveAsk{Key: key})
			require.Equal(k.t, "1", k.value("cfapp.A.claims"))
			k.sound()

			// The claim is under way when the removal begins.
			ask(k, k.Register, flow.RegisterAsk{App: "B", Parts: parts("b", 1)})
			meddled := k.meddle(at(kv.OpPut, "wokr.W.task.node."), func() { k.removeAndDie(key + "b") })
			refused(k, codes.NotFound, meddled.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0b"})
			k.finish()
			k.sound()
			ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A", Force: true})
			ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.B"})
		}
	})
}

func TestASessionWithAClaimIsNotRemoved(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		k.join("W")
		for _, key := range []string{"flow.F", "node.N0"} {
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: key})
			require.Contains(k.t, refused(k, codes.Conflict, k.Remove, flow.RemoveAsk{Key: "sess.E"}), "is claimed")
			ask(k, k.Return, flow.ReturnAsk{Worker: "wokr.W", Key: key})
		}
		meddled := k.meddle(at(kv.OpDelete, "cfapp.A.sess."), func() {
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		})
		refused(k, codes.Conflict, meddled.Remove, flow.RemoveAsk{Key: "sess.E"})
		k.sound()
	})
}

// What cannot be deleted at once is left to the sweep: the member is removed.
func TestARemovalThatIsNotFinishedIsOne(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(5)
		k.removeAndDie("cfapp.A")
		k.finish()
		require.Empty(k.t, k.keys("node."))
	})
}

func TestAMemberIsShownAsOfOneMoment(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		k.join("W")
		ctx, stop := context.WithCancel(k.ctx)
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = k.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
				_, _ = k.Return(k.ctx, k.by, &flow.ReturnAsk{Worker: "wokr.W", Key: "node.N0"})
			}
		})
		for range 100 {
			a, err := k.Show(k.ctx, k.by, &flow.ShowAsk{Key: "node.N0"})
			if err != nil {
				k.t.Error(err)
				break
			}
			worker := ""
			for _, e := range a.Fields {
				if e.Key == "cstat" && string(e.Value) != fmt.Sprintf("%q", a.Status) {
					k.t.Errorf("status %s and cstat %s", a.Status, e.Value)
				}
				if e.Key == "worker" {
					worker = text(string(e.Value))
				}
			}
			if worker != a.Worker {
				k.t.Errorf("worker %q and %q", a.Worker, worker)
			}
		}
		stop()
		wg.Wait()
	})
}

func TestAMemberHasSoManyFieldsAtMost(t *testing.T) {
	inside(t, func(k *kit) {
		k.sample(1)
		has := len(ask(k, k.Show, flow.ShowAsk{Key: "node.N0"}).Fields)
		var list []flow.SetEntry
		for i := range flow.MaxOwn - has + 1 {
			list = append(list, flow.SetEntry{Key: fmt.Sprintf("node.N0.p%d", i), Value: raw("1")})
		}
		ask(k, k.Set, flow.SetAsk{Entries: list[1:]})
		require.Contains(k.t, refused(k, codes.Limit, k.Set, flow.SetAsk{Entries: list[:1]}), "1001 fields")
		ask(k, k.Set, flow.SetAsk{Entries: list[1:3]}) // that are there
		require.Len(k.t, ask(k, k.Show, flow.ShowAsk{Key: "node.N0"}).Fields, flow.MaxOwn)
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 3})
		k.complete("flow.F.node", 4)
		ask(k, k.Remove, flow.RemoveAsk{Key: "cfapp.A"})
		require.Empty(k.t, k.keys("node."))
	})
}

// The pieces of a copy are cut by their bytes, too.
func TestALargeNodeIsReplicated(t *testing.T) {
	inside(t, func(k *kit) {
		own := map[string]flow.Raw{}
		for i := range 3 {
			own[fmt.Sprint("f", i)] = raw(`"` + strings.Repeat("x", 50_000) + `"`)
		}
		ask(k, k.Register, flow.RegisterAsk{App: "A", Parts: []flow.Part{{Key: "sess.E"}, {Key: "flow.F", Parent: "sess.E"}, {Key: "node.N", Parent: "flow.F", Fields: own}}})
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N", Count: 60}) // of 8 MiB a transaction
		k.complete("flow.F.node", 61)

		for i := range 5 {
			ask(k, k.Set, flow.SetAsk{Key: fmt.Sprint("node.N.g", i), Value: raw(`"` + strings.Repeat("x", 1_000_000) + `"`)})
		}
		refused(k, codes.TooLarge, k.Show, flow.ShowAsk{Key: "node.N"})
		refused(k, codes.TooLarge, k.Replicate, flow.ReplicateAsk{Key: "node.N", Count: 1})
		require.Empty(k.t, k.duties())
	})
}

func TestDeleteSparesLocks(t *testing.T) {
	inside(t, func(k *kit) {
		var list []flow.SetEntry
		for i := range 30 {
			list = append(list, flow.SetEntry{Key: fmt.Sprintf("own.%d", i), Value: raw("1")})
		}
		ask(k, k.Set, flow.SetAsk{Entries: list})
		lock := flow.LockAsk{Key: "own", Owner: "me", Time: 600}
		lock.Fence = ask(k, k.TryLock, lock).Fence
		a := ask(k, k.Delete, flow.DeleteAsk{Key: "own", Below: true})
		require.EqualValues(k.t, 30, a.Deleted)
		require.Equal(k.t, []string{"own.lock.ctime", "own.lock.ltime", "own.lock.owner"}, k.keys("own"))
		require.True(k.t, ask(k, k.TryLock, lock).Granted)
	})
}

// A change in pieces is asked for again before each of its transactions: there is one answer, or
// the repetition is told that the first is under way.
func TestARepetitionOfAChangeInPieces(t *testing.T) {
	for name, do := range map[string]func(k *kit) (any, error){
		"register": func(k *kit) (any, error) {
			return k.Register(k.ctx, k.by, &flow.RegisterAsk{Scope: k.scope, App: "B", Parts: parts("b", 30), Token: "t"})
		},
		"replicate": func(k *kit) (any, error) {
			return k.Replicate(k.ctx, k.by, &flow.ReplicateAsk{Scope: k.scope, Key: "node.N0", Count: 30, Token: "t"})
		},
	} {
		inside(t, func(k *kit) {
			for moment, reached := 1, true; reached; moment++ {
				k.scope = fmt.Sprint(name, moment)
				ask(k, k.Register, flow.RegisterAsk{Scope: k.scope, App: "A", Parts: parts("", 1)})
				var first any
				var refusal error
				left := moment
				other := k.hook(func(*kv.Txn) {
					if left--; left == 0 {
						first, refusal = do(k)
					}
				}, nil)
				other.InPieces(300)
				again, err := do(other)
				require.NoError(k.t, err, "%s before transaction %d", name, moment)
				if reached = left <= 0; reached && refusal == nil {
					require.Equal(k.t, first, again, "%s before transaction %d", name, moment)
				} else if reached {
					require.Equal(k.t, codes.Conflict, codes.Of(refusal))
				}
				require.Empty(k.t, k.duties(), "%s before transaction %d", name, moment)
				require.Len(k.t, ask(k, k.Tasks, flow.TasksAsk{Scope: k.scope}).Tasks, map[string]int{"register": 2 + 31, "replicate": 2 + 30}[name])
			}
		})
	}
}

// Names of fields around those that lists and logs begin with.
func TestFieldsBesideTheLogAreShownAndCopied(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		names := []string{"oplog!", "oplog-", "oplog/", "oplog/x", "oplog0", "oplogé", "\U0010FFFF"}
		for _, name := range names {
			ask(k, k.Set, flow.SetAsk{Key: "node.N0." + name, Value: raw("1")})
		}
		for range 250 { // more than a page
			ask(k, k.Set, flow.SetAsk{Key: "node.N0.descr", Value: raw(`"x"`)})
		}
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 1})
		for _, key := range []string{"node.N0", "node.N0-1"} {
			var got []string
			for _, e := range ask(k, k.Show, flow.ShowAsk{Key: key}).Fields {
				if slices.Contains(names, e.Key) {
					got = append(got, e.Key)
				}
			}
			require.Equal(k.t, names, got, key)
		}
	})
}

func TestDeleteOfVeryMuchIsContinued(t *testing.T) {
	inside(t, func(k *kit) {
		ask(k, k.Set, flow.SetAsk{Key: "much", Value: raw("1")})
		for i := range 5 {
			var list []flow.SetEntry
			for j := range 1000 {
				list = append(list, flow.SetEntry{Key: fmt.Sprintf("much.%d.%d", i, j), Value: raw("1")})
			}
			ask(k, k.Set, flow.SetAsk{Entries: list})
		}
		first := ask(k, k.Delete, flow.DeleteAsk{Key: "much", Below: true, Token: "1"})
		require.True(k.t, first.More)
		require.Equal(k.t, first, ask(k, k.Delete, flow.DeleteAsk{Key: "much", Below: true, Token: "1"}))
		second := ask(k, k.Delete, flow.DeleteAsk{Key: "much", Below: true})
		require.False(k.t, second.More)
		require.EqualValues(k.t, 5001, first.Deleted+second.Deleted)
		require.Empty(k.t, k.keys("much"))
	})
}
