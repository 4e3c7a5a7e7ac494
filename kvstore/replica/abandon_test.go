package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
	"confcenter/kv"
)

// A lease that a group grants and ends is forgotten with the group, and is not due later.
func TestALeaseOfAnAbandonedGroupIsForgotten(t *testing.T) {
	c, now := newCluster(), clock.NewFake(noon)
	s := member(t, c, now)
	s.log.(*sharedLog).before = func() {
		s.log.(*sharedLog).before = nil
		c.skip(2)
	}
	answers := s.turns(t, &kv.Txn{Then: []kv.Op{grant(time.Second)}}, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: 1}}})
	require.NoError(t, answers[0].err)
	require.EqualValues(t, 3, answers[0].result.Ops[0].Lease.ID, "not the one that was guessed")
	require.Error(t, answers[1].err)
	require.Equal(t, 1, s.leases.ends.Len())
	now.Advance(time.Second)
	require.Empty(t, s.turns(t))
	require.Zero(t, s.leases.size())
}
