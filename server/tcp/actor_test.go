package tcp

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/kv"
	"confcenter/kv/lock"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/config"
	"confcenter/server/tcp/gate/gatetest"
)

// named is a store that remembers who asked it, and refuses unless it is to pass on
// what it gets.
type named struct {
	kv.Store
	pass bool
	mu   sync.Mutex
	by   []*access.Actor // guarded by mu
}

func (n *named) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	n.remember(txn.Actor)
	if !n.pass {
		done(nil, codes.Conflict)
		return nil
	}
	return n.Store.Commit(txn, done)
}

func (n *named) CommitEach(caller kv.Caller, writes []*kv.Write) (taken int, err error) {
	for _, w := range writes {
		n.remember(w.Txn.Actor)
	}
	if !n.pass {
		for _, w := range writes {
			w.Err = codes.Conflict
		}
		caller.Committed(slices.Clone(writes))
		return len(writes), nil
	}
	return n.Store.CommitEach(caller, writes)
}

func (n *named) remember(actor *access.Actor) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.by = append(n.by, actor)
}

type namedFiles struct {
	config.Store
	state *named
}

func (n namedFiles) Set(req confstore.SetRequest, done func(confstore.SetResult, error)) error {
	n.state.remember(req.Actor)
	done(confstore.SetResult{}, codes.Conflict)
	return nil
}

func TestWritersAreNamed(t *testing.T) {
	state := &named{Store: memory.New(memory.Config{})}
	s, _ := identifiedWire(t, Stores{Config: namedFiles{gatetest.Documents(t, nil), state}, State: state})
	write := func() *access.Actor {
		state.by = nil
		s.Receive(gatetest.Requests(
			protocol.KVPut, `{"ns":"n","key":"k","value":"1"}`, protocol.KVTxn, `{"then":[{"op":"delete","ns":"n","key":"k"}]}`, protocol.KVLease, `{"ttl":60000}`,
			protocol.SetConfig, `{"filename":"a.json","contents":1}`,
		))
		s.Loop.Wake()
		require.Len(t, state.by, 4)
		for _, actor := range state.by {
			require.Same(t, state.by[0], actor, "one for all of them")
		}
		return state.by[0]
	}
	require.Equal(t, access.Actor{Name: "2001-0@x", Origin: access.OverTCP, Address: s.Peer.String()}, *write())

	s.Receive(gatetest.Requests(protocol.SetArgs, `{"svrname":"y","clitype":20}`))
	require.Equal(t, "2001-20@y", write().Name, "as it calls itself now")
}

// A lock is taken by the client that asks for it, and given back by the one that does that.
func TestLockersAreNamed(t *testing.T) {
	state := &named{Store: memory.New(memory.Config{}), pass: true}
	locks := lock.New(state, lock.Config{})
	t.Cleanup(locks.Close)
	s, _ := identifiedWire(t, Stores{Config: gatetest.Documents(t, nil), State: state, Locks: locks})
	granted := make(chan kv.LeaseID, 1)
	require.NoError(t, state.Store.Commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: kv.MaxLease}}}, func(res *kv.Result, _ error) { granted <- res.Ops[0].Lease.ID }))
	lease := <-granted
	s.Receive(gatetest.Requests(protocol.KVLock, fmt.Sprintf(`{"ns":"n","key":"k","lease":%d}`, lease), protocol.KVUnlock, `{"ns":"n","key":"k","fence":1}`,
		protocol.KVUnlock, fmt.Sprintf(`{"ns":"n","key":"k","lease":%d}`, lease)))
	locks.Close()
	require.GreaterOrEqual(t, len(state.by), 3)
	for _, actor := range state.by {
		require.Same(t, s.Actor(), actor)
	}
}
