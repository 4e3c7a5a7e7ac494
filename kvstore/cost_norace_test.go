//go:build !race

package kvstore

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
)

// A limit on what is counted is none on what is used.
func TestWhatIsCountedIsWhatIsUsed(t *testing.T) {
	for _, shape := range costShapes {
		t.Run(shape.name, func(t *testing.T) {
			empty := inUse()
			q := quietStore(t)
			shape.fill(q, shape.n)
			used, counted := inUse()-empty, q.counted()
			t.Logf("%d bytes each, counted as %d", used/int64(shape.n), counted/int64(shape.n))
			require.InEpsilon(t, used, counted, 0.2, "used and counted")
			runtime.KeepAlive(q)
		})
	}
}

// After a peak nothing is left of it: not in maps, which do not shrink by themselves, nor in
// the nodes of trees, in lists and in what is reused from group to group.
func TestMemoryGoesBackAfterAPeak(t *testing.T) {
	const n = 60_000
	start := inUse()
	q := quietStore(t)
	peak := func() {
		id := q.commit(1, func(int) *kv.Txn { return one(grant(time.Hour)) }).Ops[0].Lease.ID
		q.commit(n, func(i int) *kv.Txn {
			op := until(putAt(fmt.Sprint("ns", i%2), fmt.Sprintf("key%06d", i/2), 20), time.Hour)
			if op.NS == "ns0" {
				op.Lease = id
			}
			return &kv.Txn{TokenNS: "a", Token: fmt.Sprint("token", i), Then: []kv.Op{op}}
		})
		q.commit(n, func(int) *kv.Txn { return one(grant(time.Hour)) })
		q.commit(n/4, func(i int) *kv.Txn { return one(putAt(fmt.Sprint("space", i), "key", 10)) })
	}
	// few stay, all over the tables, nodes and arrays.
	stays := func(i int) bool { return i%40 < 2 }
	fall := func() {
		var held []kv.LeaseID
		for id, l := range q.leases.byID.of {
			if l.keys.of == nil {
				held = append(held, id)
			}
		}
		q.commit(n, func(i int) *kv.Txn {
			if stays(i) {
				return one(kv.Op{Kind: kv.OpGet, NS: "ns0", Key: "key"})
			}
			return one(kv.Op{Kind: kv.OpDelete, NS: fmt.Sprint("ns", i%2), Key: fmt.Sprintf("key%06d", i/2)})
		})
		q.commit(len(held), func(i int) *kv.Txn { return one(kv.Op{Kind: kv.OpRevoke, Lease: held[i]}) })
		q.commit(n/4, func(i int) *kv.Txn {
			return one(kv.Op{Kind: kv.OpDelete, NS: fmt.Sprint("space", i), Key: "key"})
		})
		q.tokens.forget(math.MaxInt64)
		q.commit(1, func(int) *kv.Txn { return one(kv.Op{Kind: kv.OpGet, NS: "ns0", Key: "key"}) })
	}
	peak()
	full := inUse()
	fall()
	empty, counted := inUse(), q.counted()
	peak()
	fall()
	require.Less(t, inUse()-empty, int64(n), "a second peak leaves nothing more")
	require.EqualValues(t, n/20, q.Stats().Keys)
	const scratch = 1 << 20 // what groups reuse
	t.Logf("%d KiB at the peak; %d KiB are left, counted as %d", (full-start)>>10, (empty-start)>>10, counted>>10)
	require.Less(t, empty-start, counted+scratch)
	runtime.KeepAlive(q)
}
