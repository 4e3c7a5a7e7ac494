//go:build !race

package flow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/models/flow"
)

func TestKilledWhileRegistering(t *testing.T) {
	question := func(k *kit) *flow.RegisterAsk {
		return &flow.RegisterAsk{Scope: k.scope, App: "A", Parts: parts("", 40)}
	}
	killed(t, func(k *kit) {}, func(k *kit) error {
		_, err := k.Register(k.ctx, k.by, question(k))
		return err
	}, func(k *kit, done bool) {
		tasks := ask(k, k.Tasks, flow.TasksAsk{Scope: k.scope}).Tasks
		if len(tasks) > 0 {
			require.Len(k.t, tasks, 41)
			return
		}
		require.False(k.t, done)
		require.Empty(k.t, ask(k, k.Read, flow.ReadAsk{Scope: k.scope, Prefix: "node."}).Entries)
		require.Empty(k.t, ask(k, k.Read, flow.ReadAsk{Scope: k.scope, Prefix: "cfapp."}).Entries)
		ask(k, k.Register, *question(k))
	})
}

func TestKilledWhileRemoving(t *testing.T) {
	killed(t, func(k *kit) {
		ask(k, k.Register, flow.RegisterAsk{Scope: k.scope, App: "A", Parts: parts("", 50)})
	}, func(k *kit) error {
		_, err := k.Remove(k.ctx, k.by, &flow.RemoveAsk{Scope: k.scope, Key: "cfapp.A"})
		return err
	}, func(k *kit, done bool) {
		left := ask(k, k.Read, flow.ReadAsk{Scope: k.scope, Limit: flow.MaxLines}).Entries
		if len(left) > 3 { // more than the times of the lists: it was killed before it began
			require.False(k.t, done)
			require.Len(k.t, ask(k, k.Tasks, flow.TasksAsk{Scope: k.scope}).Tasks, 51)
		}
	})
}

func TestKilledWhileReplicating(t *testing.T) {
	killed(t, func(k *kit) {
		ask(k, k.Register, flow.RegisterAsk{Scope: k.scope, App: "A", Parts: parts("", 1)})
	}, func(k *kit) error {
		_, err := k.Replicate(k.ctx, k.by, &flow.ReplicateAsk{Scope: k.scope, Key: "node.N0", Count: 30})
		return err
	}, func(k *kit, done bool) {
		n := len(ask(k, k.List, flow.ListAsk{Scope: k.scope, List: "flow.F.node"}).Members)
		require.Contains(k.t, []int{1, 31}, n)
		if n == 1 {
			require.False(k.t, done)
			require.Empty(k.t, ask(k, k.Read, flow.ReadAsk{Scope: k.scope, Prefix: "node.N0-"}).Entries)
		}
	})
}

func TestKilledWhileReturning(t *testing.T) {
	killed(t, func(k *kit) {
		ask(k, k.Register, flow.RegisterAsk{Scope: k.scope, App: "A", Parts: parts("", 70)})
		ask(k, k.Join, flow.JoinAsk{Scope: k.scope, Key: "wokr.W", TTL: 600_000})
		for range 70 {
			ask(k, k.Claim, flow.ClaimAsk{Scope: k.scope, Worker: "wokr.W"})
		}
	}, func(k *kit) error {
		_, err := k.Return(k.ctx, k.by, &flow.ReturnAsk{Scope: k.scope, Worker: "wokr.W", Force: true})
		return err
	}, func(k *kit, done bool) {
		n := len(ask(k, k.Tasks, flow.TasksAsk{Scope: k.scope, Status: "WAITING"}).Tasks)
		require.Contains(k.t, []int{1, 71}, n)
		left := ask(k, k.Assigned, flow.AssignedAsk{Scope: k.scope, Worker: "wokr.W"}).Tasks
		require.Len(k.t, left, 71-n)
		require.True(k.t, !done || n == 71)
	})
}

func TestKilledWhileJoiningAgain(t *testing.T) {
	const tasks = 70
	killed(t, func(k *kit) {
		ask(k, k.Register, flow.RegisterAsk{Scope: k.scope, App: "A", Parts: parts("", tasks)})
		ask(k, k.Join, flow.JoinAsk{Scope: k.scope, Key: "wokr.W", TTL: 600_000})
		for range tasks {
			ask(k, k.Claim, flow.ClaimAsk{Scope: k.scope, Worker: "wokr.W", From: "flow.F"})
		}
		ask(k, k.Leave, flow.LeaveAsk{Scope: k.scope, Key: "wokr.W"})
	}, func(k *kit) error {
		_, err := k.Join(k.ctx, k.by, &flow.JoinAsk{Scope: k.scope, Key: "wokr.W"})
		return err
	}, func(k *kit, done bool) {
		left := len(ask(k, k.Assigned, flow.AssignedAsk{Scope: k.scope, Worker: "wokr.W"}).Tasks)
		lives := len(ask(k, k.Workers, flow.WorkersAsk{Scope: k.scope, Status: "WORKING"}).Workers) > 0
		require.Contains(k.t, []int{0, tasks}, left)
		require.True(k.t, !done || lives)
		require.True(k.t, !lives || left == 0)
	})
}
