package revisions

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/snapshot"
	"confcenter/kv"
)

func TestOnlyWhatIsWantedIsMade(t *testing.T) {
	now := new(atomic.Pointer[Exact])
	now.Store(&Exact{Snapshot: snapshot.Empty()})
	r := New(nil, now, 0)
	exact, prefix := kv.Filter{NS: Own, Text: "a", Exact: true}, kv.Filter{NS: Resolved, Text: "x/"}
	stop := []func(){r.Want(exact), r.Want(exact), r.Want(prefix)}
	require.Equal(t, 2, r.news)
	require.True(t, r.wants(Own, "a"))
	require.False(t, r.wants(Own, "ab"))
	require.False(t, r.wants(Resolved, "a"))
	require.True(t, r.wants(Resolved, "x/y"))
	stop[0]()
	require.True(t, r.wants(Own, "a"))
	stop[1]()
	stop[2]()
	require.False(t, r.wants(Own, "a"))
	require.Zero(t, r.wanted.Len())
}
