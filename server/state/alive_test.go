package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard/guardtest"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

// granted makes leases of ten seconds.
func (k *stateKit) granted(owner *access.Identity, n int) (list []kv.LeaseID) {
	for range n {
		res, err := kv.Commit(k.T.(*testing.T).Context(), k.state.Store, &kv.Txn{
			Then: []kv.Op{{Kind: kv.OpGrant, TTL: 10 * time.Second}}, Actor: &access.Actor{Identity: owner},
		})
		require.NoError(k.T, err)
		list = append(list, res.Ops[0].Lease.ID)
	}
	return list
}

func (k *stateKit) left(id kv.LeaseID) time.Duration {
	l, err := k.state.Lease(id)
	require.NoError(k.T, err)
	return l.Left
}

func alive(list ...kv.LeaseID) (pairs []any) {
	for _, id := range list {
		pairs = append(pairs, protocol.KVAlive, fmt.Sprintf(`{"lease":%d}`, id))
	}
	return pairs
}

const (
	put = `{"ns":"n","key":"k","value":"v"}`
	get = `{"ns":"n","key":"k"}`
)

// What a connection has to wait for is not what its leases can wait for.
func TestAKeepAliveCountsWhenItComes(t *testing.T) {
	for name, c := range map[string]struct {
		room   int
		before []any
	}{
		"behind a write under way":             {room: 1, before: []any{protocol.KVPut, put}},
		"behind one that there is no room for": {room: 0, before: []any{protocol.KVPut, put}},
		"behind a read that waits for it":      {room: 1, before: []any{protocol.KVPut, put, protocol.KVGet, get}},
		"behind as many as may wait":           {room: 3, before: []any{protocol.KVPut, put, protocol.KVPut, put, protocol.KVPut, put, protocol.KVPut, put}},
		"behind a worker":                      {room: 1, before: []any{protocol.KVNames, `{}`}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newStateKit(t, loop.Limits{Writes: 3})
			leases := k.granted(nil, 3)
			k.Clock.Advance(6 * time.Second)
			k.state.Room = c.room
			k.Receive(gatetest.Requests(append(c.before, alive(leases[0])...)...)) // with it
			k.Receive(gatetest.Requests(alive(leases[1])...))                      // and after it, in pieces
			last := gatetest.Requests(alive(leases[2])...)
			k.Receive(last[:15])
			require.Equal(t, 4*time.Second, k.left(leases[2]))
			k.Receive(last[15:])
			require.Empty(t, gatetest.Frames(t, k.w), "the replies keep their order")
			for _, id := range leases {
				require.Equal(t, 10*time.Second, k.left(id))
			}
			k.Clock.Advance(6 * time.Second)
			for i := range leases {
				require.Equal(t, 4*time.Second, k.left(leases[i]), "each counts once when it comes")
			}
			k.Receive(gatetest.Requests(protocol.KVGet, get))
			require.Equal(t, 4*time.Second, k.left(leases[0]))

			k.state.Room = 100
			for len(k.state.Held) > 0 || k.Group.Jobs() > 0 || k.Bench.Local.Loop.Busy() || !k.Reads() {
				k.state.Finish(len(k.state.Held))
				for k.Group.Jobs() > 0 {
					k.Group.DoJob(0)
				}
				k.Bench.Local.Loop.HasRoom()
				gatetest.Sweep(k.Bench.Local)
			}
			frames := gatetest.Frames(t, k.w)
			require.Len(t, frames, len(c.before)/2+4)
			for i := range leases {
				require.Contains(t, frames[len(c.before)/2+i], `KVALIVE_RSP`)
				require.Contains(t, frames[len(c.before)/2+i], fmt.Sprintf(`"code":0,"lease":%d,`, leases[i]))
			}
		})
	}
}

// The way for what must not wait is no way around what the gate asks.
func TestAKeepAliveThatComesEarlyHasToBeAllowed(t *testing.T) {
	k := newStateKit(t, loop.Limits{})
	mine, other := &access.Identity{Name: "token:a"}, &access.Identity{Name: "token:b"}
	leases := append(k.granted(mine, 1), k.granted(other, 1)...)
	k.Rights = guardtest.Caller(t, "* kv")
	k.Clock.Advance(6 * time.Second)
	ask := append([]any{protocol.KVPut, put}, alive(leases...)...)
	ask = append(ask, protocol.KVAlive, `{"lease":`, protocol.KVAlive, `[]`, protocol.KVAlive, fmt.Sprintf(`{"lease":%d,"x":"%02000d"}`, leases[0], 1), protocol.KVAlive.Reply(), fmt.Sprintf(`{"lease":%d}`, leases[1]))
	k.Receive(gatetest.Requests(ask...))
	require.Equal(t, 10*time.Second, k.left(leases[0]))
	require.Equal(t, 4*time.Second, k.left(leases[1]))

	stranger, _ := gatetest.Connect(t, k.Bench.Local, gatetest.Unlimited)
	stranger.Receive(gatetest.Requests(alive(leases[1])...))
	require.Equal(t, 4*time.Second, k.left(leases[1]))
	k.Bench.Gate.Permits = func(*gate.Session, *gate.Route) error { return codes.Forbidden }
	k.Clock.Advance(time.Second)
	k.Receive(gatetest.Requests(alive(leases[0])...))
	require.Equal(t, 9*time.Second, k.left(leases[0]))
}
