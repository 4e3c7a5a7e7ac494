package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/bench"
	"confcenter/models/modeltest"
)

func TestB1RegistersANodeWithAllItsInfo(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		answer := ask(r, r.RegisterNode, bench.NodeAsk{Node: info("n1", bench.LoaderRole, bench.Label{K: "disk", V: "ssd"})})
		want := info("n1", bench.LoaderRole, bench.Label{K: "disk", V: "ssd"})
		want.Addr = bench.Addr{IP: r.ip(), BindAddr: ":6081", RemoteAddr: answer.Node.Addr.RemoteAddr}
		require.Regexp(t, "^"+r.ip()+`:\d+$`, want.Addr.RemoteAddr)
		require.Equal(t, want, answer.Node)
		n := r.node("n1")
		require.Equal(t, want, n.Info)
		require.Equal(t, bench.NodeIdle, n.State)
		require.Equal(t, []string{"registered:  > NODE_IDLE"}, r.events(r.NodeHistory, "n1"))
		require.Regexp(t, r.actor(), ask(r, r.NodeHistory, bench.HistoryAsk{ID: "n1"}).Entries[0].Actor)
	})
}

func TestB2RegistersTheSameNodeAgain(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		more := info("n1", bench.LoaderRole)
		more.Capacity.Cores = 64
		ask(r, r.RegisterNode, bench.NodeAsk{Node: more})
		require.EqualValues(t, 64, r.node("n1").Info.Capacity.Cores)
		require.Equal(t, []string{"registered:  > NODE_IDLE", "registered again: NODE_IDLE > NODE_IDLE"}, r.events(r.NodeHistory, "n1"))
		require.EqualValues(t, 1, ask(r, r.CountNodes, bench.NothingAsk{}).Count)
	})
}

func TestB3NamesTheNodeThatIsNotThere(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		refused(r, codes.NotFound, "NOT_FOUND: node nobody not found", r.FindNode, bench.NodeIDAsk{ID: "nobody"})
		refused(r, codes.NotFound, "NOT_FOUND: node nobody not found", r.UpdateNode, bench.NodeAsk{Node: info("nobody", bench.AnyRole)})
		refused(r, codes.NotFound, "NOT_FOUND: node nobody not found", r.RemoveNode, bench.NodeRemoveAsk{ID: "nobody"})
		refused(r, codes.NotFound, "NOT_FOUND: node nobody not found", r.NodeHistory, bench.HistoryAsk{ID: "nobody"})
	})
}

func TestB4AddsANodeOnlyOnce(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		ask(r, r.AddNode, bench.NodeAsk{Node: info("n1", bench.LoaderRole)})
		before := r.node("n1")
		refused(r, codes.AlreadyExists, "ALREADY_EXISTS: node n1 already exists", r.AddNode, bench.NodeAsk{Node: info("n1", bench.DatabaseRole)})
		require.Equal(t, before, r.node("n1"))
		ask(r, r.UpdateNode, bench.NodeAsk{Node: info("n1", bench.DatabaseRole)})
		require.Equal(t, bench.DatabaseRole, r.node("n1").Info.Config.Role)
		require.Equal(t, before.Info.Addr, r.node("n1").Info.Addr, "an update does not move it")
	})
}

func (r *rig) beat(id string, state bench.NodeState) *bench.UpdateAnswer {
	r.t.Helper()
	return ask(r, r.Heartbeat, bench.HeartbeatAsk{ID: id, Status: bench.NodeStatus{State: state}})
}

func TestB5AHeartbeatReplacesTheStatus(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		require.Zero(t, r.node("n1").Beat.HeartbeatTime)
		work := bench.NodeJob{ID: "7", Properties: bench.Properties{Name: "cli", Role: bench.LoaderRole}, State: bench.NodeJobRunning}
		ask(r, r.Heartbeat, bench.HeartbeatAsk{ID: "n1", Status: bench.NodeStatus{State: bench.RunningJob, Jobs: []bench.NodeJob{work}}})
		n := r.node("n1")
		require.Equal(t, []bench.NodeJob{work}, n.Beat.Jobs)
		require.Equal(t, bench.RunningJob, n.State)
		require.Equal(t, bench.RunningJob, n.Beat.State)
		require.NotZero(t, n.Beat.HeartbeatTime)
		r.beat("n1", bench.RunningJob)
		require.Empty(t, r.node("n1").Beat.Jobs)
		require.Greater(t, r.node("n1").Beat.HeartbeatTime, n.Beat.HeartbeatTime)
		require.Equal(t, []string{"registered:  > NODE_IDLE", "changed its state: NODE_IDLE > NODE_RUNNING_JOB"}, r.events(r.NodeHistory, "n1"))
	})
}

func TestAHeartbeatBeginsTheNodesTimeAnew(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		e := r.bed.Get(kv.BenchNamespace, "alive/n1")
		left := func() time.Duration {
			lease, err := r.bed.State.Lease(e.Lease)
			require.NoError(t, err)
			return lease.Left
		}
		r.until(func() bool {
			before := left()
			r.beat("n1", bench.NodeIdle)
			return left() > before
		})
	})
}

// Every durable write has a revision.
func TestAHeartbeatCostsOneDurableWrite(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		at := r.bed.State.Revision()
		for range 10 {
			r.beat("n1", bench.NodeIdle)
		}
		require.Equal(t, at+10, r.bed.State.Revision())
		r.beat("n1", bench.RunningJob)
		require.Equal(t, at+11, r.bed.State.Revision(), "with its entry in the history")
	})
}

// So it is over the wire, though the Go client gives every write a token that has room for one.
func TestB5AHeartbeatOverTheWireCostsOneDurableWrite(t *testing.T) {
	server := clienttest.Start(t, clienttest.Options{})
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{server.Address()}, Name: "agent"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	model := calls.Bench(c)
	_, err = model.RegisterNode(t.Context(), &bench.NodeAsk{Node: info("n1", bench.LoaderRole), TTL: time.Hour.Milliseconds()})
	require.NoError(t, err)
	at := server.State.Revision()
	_, err = model.Heartbeat(t.Context(), &bench.HeartbeatAsk{ID: "n1", Status: bench.NodeStatus{State: bench.RunningJob}})
	require.NoError(t, err)
	require.Equal(t, at+1, server.State.Revision())

	taken, err := model.TakeJob(t.Context(), &bench.TakeAsk{})
	require.NoError(t, err)
	require.True(t, taken.Empty)
	require.Equal(t, at+1, server.State.Revision(), "what changes nothing is not written")
}

func TestB6AHeartbeatOfAnUnknownNodeIsNotFound(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		refused(r, codes.NotFound, "NOT_FOUND: node n1 not found", r.Heartbeat, bench.HeartbeatAsk{ID: "n1"})
		require.Zero(t, r.bed.State.Revision())
	})
}

func TestB8ListsNodesWithTheirStatusAtOneMoment(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		for _, id := range []string{"b", "a-1", "a", "b0"} {
			r.register(id, bench.LoaderRole)
			r.beat(id, bench.RunningJob)
		}
		answer := ask(r, r.Nodes, bench.NodesAsk{})
		var ids []string
		for _, n := range answer.Nodes {
			ids = append(ids, n.ID)
			require.Equal(t, *r.node(n.ID), n)
		}
		require.Equal(t, []string{"a-1", "a", "b", "b0"}, ids)
		require.Empty(t, answer.Next)
		require.EqualValues(t, r.bed.State.Revision(), answer.Revision)

		var paged []string
		for after := ""; ; {
			page := ask(r, r.Nodes, bench.NodesAsk{After: after, Limit: 1})
			for _, n := range page.Nodes {
				paged = append(paged, n.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		require.Equal(t, ids, paged)
	})
}

func TestB9ListsTheNodesThatMatch(t *testing.T) {
	yes, no := true, false
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("db", bench.DatabaseRole, bench.Label{K: "disk", V: "ssd"}, bench.Label{K: "zone", V: "a"})
		r.register("load", bench.LoaderRole, bench.Label{K: "disk", V: "ssd"})
		r.beat("load", bench.RunningJob)
		other := info("aws", bench.LoaderRole)
		other.Config.Provider.Name = 4
		ask(r, r.RegisterNode, bench.NodeAsk{Node: other})
		for _, c := range []struct {
			q    bench.NodesAsk
			want string
		}{
			{bench.NodesAsk{}, "[aws db load]"}, {bench.NodesAsk{Role: bench.DatabaseRole}, "[db]"}, {bench.NodesAsk{State: bench.RunningJob}, "[load]"},
			{bench.NodesAsk{Provider: 4}, "[aws]"}, {bench.NodesAsk{Label: "disk=ssd"}, "[db load]"}, {bench.NodesAsk{Label: "disk=ssd,zone=a"}, "[db]"},
			{bench.NodesAsk{Label: "disk=ssd", Provider: 4}, "[]"}, {bench.NodesAsk{Lost: &yes}, "[]"}, {bench.NodesAsk{Lost: &no}, "[aws db load]"},
		} {
			ids := []string{}
			for _, n := range ask(r, r.Nodes, c.q).Nodes {
				ids = append(ids, n.ID)
			}
			require.Equal(t, c.want, fmt.Sprint(ids), "%+v", c.q)
		}
		refused(r, codes.BadRequest, "name=value", r.Nodes, bench.NodesAsk{Label: "ssd"})
	})
}

func TestB10RemovesANodeAndKeepsItsHistory(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		r.register("n2", bench.LoaderRole)
		r.beat("n1", bench.RunningJob)
		ask(r, r.RemoveNode, bench.NodeRemoveAsk{ID: "n1"})
		refused(r, codes.NotFound, "n1", r.FindNode, bench.NodeIDAsk{ID: "n1"})
		refused(r, codes.NotFound, "n1", r.Heartbeat, bench.HeartbeatAsk{ID: "n1"})
		require.EqualValues(t, 1, ask(r, r.CountNodes, bench.NothingAsk{}).Count)
		require.Len(t, ask(r, r.Nodes, bench.NodesAsk{}).Nodes, 1)
		page, err := r.bed.List(kv.List{NS: kv.BenchNamespace, Prefix: "node/n1/"})
		require.NoError(t, err)
		require.Empty(t, page.Entries)
		want := []string{"registered:  > NODE_IDLE", "changed its state: NODE_IDLE > NODE_RUNNING_JOB", "removed: NODE_RUNNING_JOB > REMOVED"}
		require.Equal(t, want, r.events(r.NodeHistory, "n1"))
		r.register("n1", bench.LoaderRole)
		require.Equal(t, append(want, "registered:  > NODE_IDLE"), r.events(r.NodeHistory, "n1"))
	})
}

func TestTheNumberOfNodesHasALimit(t *testing.T) {
	each(t, bench.Config{MaxNodes: 2}, func(t *testing.T, r *rig) {
		r.register("n1", bench.LoaderRole)
		r.register("n2", bench.LoaderRole)
		r.register("n2", bench.LoaderRole)
		refused(r, codes.Limit, "there are 2 nodes, which is the limit: remove", r.RegisterNode, bench.NodeAsk{Node: info("n3", 0)})
		ask(r, r.RemoveNode, bench.NodeRemoveAsk{ID: "n1"})
		late := bench.Open(&hooked{Store: r.bed.Store, before: func() { r.register("n4", bench.LoaderRole) }}, bench.Config{MaxNodes: 2})
		refused(r, codes.Limit, "there are 2 nodes", late.RegisterNode, bench.NodeAsk{Node: info("n3", 0)})
	})
}

// A client that registers a node does not write over the history of one that others have registered
// and removed meanwhile.
func TestB10TheHistoryOfARemovedNodeIsNotWrittenOver(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		late := r.after(func() {
			r.register("n1", bench.LoaderRole)
			ask(r, r.RemoveNode, bench.NodeRemoveAsk{ID: "n1"})
		})
		ask(r, late.RegisterNode, bench.NodeAsk{Node: info("n1", bench.LoaderRole)})
		require.Equal(t, []string{"registered:  > NODE_IDLE", "removed: NODE_IDLE > REMOVED", "registered:  > NODE_IDLE"}, r.events(r.NodeHistory, "n1"))
	})
}

func TestTheHistoriesOfRemovedNodesAreBounded(t *testing.T) {
	each(t, bench.Config{MaxRemoved: 2}, func(t *testing.T, r *rig) {
		remove := func(ids ...string) {
			for _, id := range ids {
				r.register(id, bench.LoaderRole)
				ask(r, r.RemoveNode, bench.NodeRemoveAsk{ID: id})
			}
		}
		kept := func(id string, entries int) {
			t.Helper()
			if entries == 0 {
				refused(r, codes.NotFound, "node "+id+" not found", r.NodeHistory, bench.HistoryAsk{ID: id})
			} else {
				require.Len(t, r.events(r.NodeHistory, id), entries)
			}
		}
		remove("n1", "n2", "n3")
		kept("n1", 0)
		kept("n2", 2)
		kept("n3", 2)
		r.register("n2", bench.LoaderRole)
		remove("n4")
		kept("n3", 2)
		kept("n2", 3)
		remove("n2") // its place is behind that of n4 now
		kept("n3", 0)
		kept("n4", 2)
		remove("n5")
		kept("n4", 0)
		kept("n2", 5)
		page, err := r.bed.List(kv.List{NS: kv.BenchNamespace, Prefix: "removed/"})
		require.NoError(t, err)
		require.Len(t, page.Entries, 2)
	})
}

func TestNoLeaseIsLeftBehind(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		before := r.leases()
		late := r.after(func() { r.register("n1", bench.LoaderRole) })
		refused(r, codes.AlreadyExists, "n1", late.AddNode, bench.NodeAsk{Node: info("n1", 0)})
		require.Equal(t, before, r.leases())
		ask(r, r.RegisterNode, bench.NodeAsk{Node: info("n1", 0), TTL: 3_000_000})
		require.Equal(t, before, r.leases(), "the lease of its time before")
		r.submit(small)
		late = r.after(func() { ask(r, r.TakeJob, bench.TakeAsk{}) })
		require.True(t, ask(r, late.TakeJob, bench.TakeAsk{}).Empty)
		require.Equal(t, before, r.leases())
	})
}

// Those who wait for their turn keep the server's workers from others.
func TestNotTooManyWaitForTheSame(t *testing.T) {
	modeltest.Each(t, func(t *testing.T, bed *modeltest.Bed) {
		entered, wait := make(chan struct{}), make(chan struct{})
		slow := &hooked{Store: bed.Store, before: func() { close(entered); <-wait }}
		b := bench.Open(slow, bench.Config{MaxWaiting: 2})
		ctx := modeltest.Context(t)
		results := make(chan error, 4)
		register := func() {
			_, err := b.RegisterNode(ctx, agent, &bench.NodeAsk{Node: info("n1", 0)})
			results <- err
		}
		go register()
		<-entered
		for range 3 {
			go register()
		}
		err := <-results
		require.ErrorIs(t, err, codes.Busy)
		require.NotZero(t, codes.RetryAfter(err), "so the Go client tries it again")
		close(wait)
		for range 3 {
			require.NoError(t, <-results)
		}
	})
}

func TestARepeatedRequestIsAnsweredAsBefore(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		q := bench.NodeAsk{Node: info("n1", bench.LoaderRole), Token: "t1"}
		first := ask(r, r.AddNode, q)
		require.Equal(t, first, ask(r, r.AddNode, q))
		require.Len(t, r.events(r.NodeHistory, "n1"), 1)
		q.Node.Capacity.Cores++
		refused(r, codes.TokenReused, "t1", r.AddNode, q)
	})
}

func TestNodesThatAreRefused(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		refused(r, codes.BadRequest, "id of the node", r.RegisterNode, bench.NodeAsk{Node: info("a/b", 0)})
		refused(r, codes.BadRequest, "id of the node", r.RegisterNode, bench.NodeAsk{})
		refused(r, codes.Limit, "64", r.RegisterNode, bench.NodeAsk{Node: info("n", 0, make([]bench.Label, 65)...)})
		refused(r, codes.BadTTL, "24h", r.RegisterNode, bench.NodeAsk{Node: info("n", 0), TTL: 1 << 62})
		refused(r, codes.BadTTL, "100ms", r.RegisterNode, bench.NodeAsk{Node: info("n", 0), TTL: 1})
		refused(r, codes.BadRequest, "limit", r.Nodes, bench.NodesAsk{Limit: -1})
		lines := info("n", 0)
		lines.Property.Host = "a\nb"
		refused(r, codes.BadRequest, "host of node n is no line", r.RegisterNode, bench.NodeAsk{Node: lines})
		long := info("n", 0)
		long.Property.Host = string(make([]byte, 65<<10))
		refused(r, codes.TooLarge, "the limit is 255", r.RegisterNode, bench.NodeAsk{Node: long})
		refused(r, codes.TooLarge, "8192", r.RegisterNode, bench.NodeAsk{Node: info("n", 0, bench.Label{K: "k", V: string(make([]byte, 65<<10))})})
		refused(r, codes.Limit, "the limit is 8", r.Heartbeat, bench.HeartbeatAsk{ID: "n", Status: bench.NodeStatus{Jobs: make([]bench.NodeJob, 65)}})
	})
}
