package flow_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/flow"
)

// The tests named after a number are the points of the checklist for cloudflow's state.

func TestC1SetOfAListMemberIsReadByItsPrefix(t *testing.T) {
	each(t, func(k *kit) {
		ask(k, k.Set, flow.SetAsk{Key: "cfapplist.cfapp.A", Value: raw(`"WAITING"`)})
		a := ask(k, k.Read, flow.ReadAsk{Prefix: "cfapplist."})
		require.Len(k.t, a.Entries, 2)
		require.Equal(k.t, "cfapplist.cfapp.A", a.Entries[0].Key)
		require.Equal(k.t, `"WAITING"`, string(a.Entries[0].Value))
		require.Equal(k.t, "cfapplist.ctime", a.Entries[1].Key)
		list := ask(k, k.List, flow.ListAsk{List: "cfapplist"})
		require.Equal(k.t, []flow.ListLine{{Key: "cfapp.A", Status: flow.Waiting}}, list.Members)
		k.sound()
	})
}

func TestC2ScopesNeverCross(t *testing.T) {
	each(t, func(k *kit) {
		for _, scope := range []string{"one", "two"} {
			ask(k, k.Set, flow.SetAsk{Scope: scope, Key: "a.b", Value: raw(`"` + scope + `"`)})
		}
		require.Equal(k.t, []string{"one", "two"}, ask(k, k.Scopes, flow.ScopesAsk{}).Scopes)
		ask(k, k.Delete, flow.DeleteAsk{Scope: "one", Key: "a", Below: true})
		require.Empty(k.t, ask(k, k.Read, flow.ReadAsk{Scope: "one", Prefix: "a"}).Entries)
		left := ask(k, k.Read, flow.ReadAsk{Scope: "two", Prefix: "a"}).Entries
		require.Len(k.t, left, 1)
		require.Equal(k.t, `"two"`, string(left[0].Value))
	})
}

func TestC3AbsentIsNoError(t *testing.T) {
	each(t, func(k *kit) {
		require.Empty(k.t, k.value("absent"))
		require.Empty(k.t, k.keys("absent."))
		require.Empty(k.t, ask(k, k.List, flow.ListAsk{List: "flow.F.node"}).Members)
	})
}

func TestC4ValuesKeepTheirTypes(t *testing.T) {
	each(t, func(k *kit) {
		for i, v := range []string{`"text \u0000\"é"`, `1`, `-7`, `1.50`, `1e3`, `true`, `false`, `null`, `{"a":[1,{"b":null}]}`, `[1,2,3]`, `""`} {
			key := fmt.Sprintf("types.%d", i)
			ask(k, k.Set, flow.SetAsk{Key: key, Value: raw(v)})
			got := k.value(key)
			if v[0] == '"' {
				require.JSONEq(k.t, v, got)
			} else {
				require.Equal(k.t, v, got)
			}
		}
		for _, v := range []string{`{`, `1e999`} { // over the wire it is the whole body that is none
			_, err := k.Set(k.ctx, k.by, &flow.SetAsk{Key: "types.x", Value: raw(v)})
			require.Contains(k.t, []codes.Code{codes.BadRequest, codes.BadJSON}, codes.Of(err), "%v", err)
		}
	})
}

func TestC5NanosecondsAreExact(t *testing.T) {
	each(t, func(k *kit) {
		ask(k, k.Set, flow.SetAsk{Key: "stamp", Value: raw("1795248812184839171")})
		require.Equal(k.t, "1795248812184839171", k.value("stamp"))
	})
}

func TestC6FieldsOfANodeAreNotItsReplicas(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 2})
		for _, key := range k.keys("node.N0.") {
			require.Regexp(k.t, `^node\.N0\.`, key)
		}
	})
}

func TestC7PrefixWithoutADotHasReplicas(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 2})
		require.Contains(k.t, k.keys("node.N0"), "node.N0-2.cstat")
	})
}

func TestC8DeleteIsExactOrOfASubtree(t *testing.T) {
	each(t, func(k *kit) {
		set := func() {
			ask(k, k.Set, flow.SetAsk{Entries: []flow.SetEntry{{"del.a", raw("1")}, {"del.ab", raw("2")}, {"del.a.b", raw("3")}}})
		}
		set()
		require.EqualValues(k.t, 1, ask(k, k.Delete, flow.DeleteAsk{Key: "del.a"}).Deleted)
		require.Equal(k.t, []string{"del.a.b", "del.ab"}, k.keys("del."))
		set()
		require.EqualValues(k.t, 2, ask(k, k.Delete, flow.DeleteAsk{Key: "del.a", Below: true}).Deleted)
		require.Equal(k.t, []string{"del.ab"}, k.keys("del."))
	})
}

func TestC10BatchIsAllOrNothing(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		var list []flow.SetEntry
		for i := range 500 {
			list = append(list, flow.SetEntry{Key: fmt.Sprintf("batch.%03d", i), Value: raw("1")})
		}
		refused(k, codes.NotFound, k.Set, flow.SetAsk{Entries: append(list, flow.SetEntry{Key: "node.absent.x", Value: raw("1")})})
		require.Empty(k.t, k.keys("batch."))
		ask(k, k.Set, flow.SetAsk{Entries: list})
		require.Len(k.t, k.keys("batch."), 500)
	})
}

func TestC11NoTaskIsListedBeforeItIsComplete(t *testing.T) {
	each(t, func(k *kit) {
		const nodes = 700 // more than one transaction
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := k.Register(k.ctx, k.by, &flow.RegisterAsk{App: "A", Parts: parts("", nodes)}); err != nil {
				k.t.Error(err)
			}
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			tasks := ask(k, k.Tasks, flow.TasksAsk{Status: "WAITING", Limit: flow.MaxLines}).Tasks
			require.Contains(k.t, []int{0, nodes + 1}, len(tasks), "all or none")
			require.Contains(k.t, []int{0, nodes}, len(ask(k, k.List, flow.ListAsk{List: "flow.F.node", Limit: flow.MaxLines}).Members))
			for i, task := range tasks {
				if i%97 == 0 {
					require.Equal(k.t, `"WAITING"`, k.value(task.Key+".cstat"))
				}
			}
		}
		require.Empty(k.t, k.duties())
		k.sound()
	})
}

// published is a store on which others publish an application between two reads.
type published struct {
	embedded.Store
	publish func()
}

func (p *published) GetMany(ns string, keys ...string) []*kv.Entry {
	p.publish()
	return p.Store.GetMany(ns, keys...)
}

func TestAListIsNotOfTheMomentBeforeItsApplicationIsPublished(t *testing.T) {
	inside(t, func(k *kit) {
		list := parts("", 20)
		staged := ask(k, k.Stage, flow.StageAsk{App: "A"})
		ask(k, k.Add, flow.AddAsk{App: "A", Lease: staged.Lease, Parts: list[:13]})
		other := *k
		other.have(flow.Open(&published{k.bed.Store, sync.OnceFunc(func() {
			ask(k, k.Add, flow.AddAsk{App: "A", Lease: staged.Lease, Parts: list[13:]})
			ask(k, k.Publish, flow.PublishAsk{App: "A", Lease: staged.Lease})
		})}, flow.Config{}))
		for range 2 {
			n := len(ask(&other, other.List, flow.ListAsk{List: "flow.F.node"}).Members)
			require.Contains(k.t, []int{0, 20}, n, "all or none")
		}
	})
}

func TestC12ListByStatus(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(10)
		k.join("W")
		for _, n := range []int{2, 5, 7} {
			ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: fmt.Sprintf("node.N%d", n)})
		}
		a := ask(k, k.List, flow.ListAsk{List: "flow.F.node", Status: "PENDDING"})
		require.Equal(k.t, []flow.ListLine{{"node.N2", flow.Pending}, {"node.N5", flow.Pending}, {"node.N7", flow.Pending}}, a.Members)
		var all []flow.ListLine
		for after := ""; ; {
			a := ask(k, k.List, flow.ListAsk{List: "flow.F.node", Status: "WAITING", After: after, Limit: 3})
			require.LessOrEqual(k.t, len(a.Members), 3)
			all = append(all, a.Members...)
			if after = a.Next; after == "" {
				break
			}
		}
		require.Len(k.t, all, 7)
		k.sound()
	})
}

func TestC13AllTasksOfAnApplication(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(2)
		want := []flow.Task{
			{"flow.F.node", "node.N0", flow.Waiting}, {"flow.F.node", "node.N1", flow.Waiting}, {"cfapp.A.srvs", "srvs.V", flow.Waiting},
		}
		require.Equal(k.t, want, ask(k, k.Tasks, flow.TasksAsk{Status: "WAITING"}).Tasks)
		require.Empty(k.t, ask(k, k.Tasks, flow.TasksAsk{Status: "EXITED"}).Tasks)
		var paged []flow.Task
		for after := ""; ; {
			a := ask(k, k.Tasks, flow.TasksAsk{After: after, Limit: 1})
			paged = append(paged, a.Tasks...)
			if after = a.Next; after == "" {
				break
			}
		}
		require.Equal(k.t, want, paged)
	})
}

func TestC14ReplicasOfANode(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(2)
		k.join("W")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		ask(k, k.Set, flow.SetAsk{Key: "node.N0.intype", Value: raw(`"int"`)})
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 2})
		list := ask(k, k.List, flow.ListAsk{List: "flow.F.node", Status: "WAITING"}).Members
		require.Equal(k.t, []flow.ListLine{{"node.N0-1", flow.Waiting}, {"node.N0-2", flow.Waiting}, {"node.N1", flow.Waiting}}, list)
		for i := 1; i <= 2; i++ {
			n := fmt.Sprintf("node.N0-%d.", i)
			require.Equal(k.t, fmt.Sprint(i), k.value(n+"subidx"))
			require.Equal(k.t, `"N0"`, k.value(n+"uuid"))
			require.Equal(k.t, `"int"`, k.value(n+"intype"))
			require.Equal(k.t, `"count"`, k.value(n+"func"))
			require.Empty(k.t, k.value(n+"worker"))
		}
		for _, n := range []string{"node.N0", "node.N0-1", "node.N0-2"} {
			require.Equal(k.t, "3", k.value(n+".inscount"))
		}
		refused(k, codes.Conflict, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: 1})
		refused(k, codes.BadRequest, k.Replicate, flow.ReplicateAsk{Key: "node.N0", Count: flow.MaxReplicas + 1})
		ask(k, k.Replicate, flow.ReplicateAsk{Key: "node.N1", Count: 400})
		require.Len(k.t, ask(k, k.List, flow.ListAsk{List: "flow.F.node"}).Members, 404)
		require.Equal(k.t, "401", k.value("node.N1-7.inscount"))
		require.Empty(k.t, k.duties())
		k.sound()
	})
}

func TestC15TwoSchedulersClaimOneTask(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(50)
		k.join("W1", "W2")
		other := k.again()
		won := make(chan string)
		for i := range 50 {
			for w, scheduler := range map[string]*kit{"wokr.W1": k, "wokr.W2": other} {
				go func() {
					_, err := scheduler.Claim(k.ctx, k.by, &flow.ClaimAsk{Worker: w, Key: fmt.Sprintf("node.N%d", i)})
					if err != nil {
						w = codes.Of(err).Name()
					}
					won <- w
				}()
			}
			one, two := <-won, <-won
			if one == codes.Conflict.Name() {
				one, two = two, one
			}
			require.Contains(k.t, one, "wokr.")
			require.Equal(k.t, codes.Conflict.Name(), two)
			require.Equal(k.t, `"`+one[len("wokr."):]+`"`, k.value(fmt.Sprintf("node.N%d.worker", i)))
		}
		k.sound()
	})
}

func TestC16ListAndRecordNeverDisagree(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		k.join("W")
		w := k.watch("", int64(ask(k, k.Read, flow.ReadAsk{Limit: 1}).Revision))
		defer w.Stop()
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		for _, s := range []string{"STARTING", "WORKING", "STOPING", "EXITED"} {
			ask(k, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: s})
		}
		seen := map[string]string{}
		for seen["node.N0.cstat"] != "EXITED" {
			c, err := w.Next(k.ctx)
			require.NoError(k.t, err)
			for _, one := range c.List {
				if one.New != nil {
					seen[one.Key.String()] = string(one.New.Value.Data)
				}
			}
			if !c.More {
				require.Equal(k.t, seen["flow.F.node.node.N0"], seen["node.N0.cstat"])
				require.Equal(k.t, seen["flow.F.node.node.N0"], seen["node.N0.state"])
			}
		}
	})
}

func TestC17AChangeSaysWhoAndWhen(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		k.join("W")
		before := k.value("node.N0.atime")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0", Who: "sche.S"})
		require.Greater(k.t, k.value("node.N0.atime"), before)
		require.Equal(k.t, `"sche.S"`, k.value("node.N0.whoac"))
		ask(k, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "STARTING", Why: "at last"})
		require.Regexp(k.t, k.whoami(), k.value("node.N0.whoac"))
		log := ask(k, k.Oplog, flow.LogAsk{Key: "node.N0"}).Lines
		require.Len(k.t, log, 3)
		require.Equal(k.t, "registered", log[0].What)
		require.Equal(k.t, "WAITING -> PENDDING: claimed by wokr.W", log[1].What)
		require.Equal(k.t, "sche.S", log[1].Who)
		require.Equal(k.t, "PENDDING -> STARTING: at last", log[2].What)
		require.Equal(k.t, k.value("node.N0.atime"), fmt.Sprint(log[2].Time))
		require.EqualValues(k.t, 3, log[2].Line)
		paged := ask(k, k.Oplog, flow.LogAsk{Key: "node.N0", After: 1, Limit: 1})
		require.Equal(k.t, log[1:2], paged.Lines)
		require.True(k.t, paged.More)
	})
}

func TestC18IllegalTransitionsAreRefused(t *testing.T) {
	each(t, func(k *kit) {
		k.sample(1)
		k.join("W")
		require.Contains(k.t, refused(k, codes.Conflict, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "WORKING"}), "WAITING cannot become WORKING")
		require.Contains(k.t, refused(k, codes.Conflict, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "PENDDING"}), "claim")
		ask(k, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"})
		for _, s := range []string{"STARTING", "WORKING", "EXITED"} {
			ask(k, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: s})
		}
		require.Contains(k.t, refused(k, codes.Conflict, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "PENDDING"}), "EXITED cannot become PENDDING")
		require.Contains(k.t, refused(k, codes.Conflict, k.Claim, flow.ClaimAsk{Worker: "wokr.W", Key: "node.N0"}), "EXITED cannot become PENDDING")
		refused(k, codes.BadRequest, k.SetStatus, flow.StatusAsk{Key: "node.N0", Status: "exited"})
		refused(k, codes.BadRequest, k.SetStatus, flow.StatusAsk{Key: "sess.E", Status: "WORKING"})
		k.sound()
	})
}
