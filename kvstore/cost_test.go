package kvstore

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
	"confcenter/kv"
)

// inUse is the heap without garbage.
func inUse() int64 {
	for range 2 { // what a collection has cleaned up is collected by the next
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// quiet is a store over a log that keeps nothing, and does everything in the caller's
// goroutine, so that nothing else allocates.
type quiet struct {
	testing.TB
	*Store
	log   *nowhere
	pools []*memory.Pool
}

func quietStore(t testing.TB) *quiet {
	const large = 8 << 30
	q := &quiet{TB: t, log: &nowhere{load: func(Loader) {}}}
	cfg := Config{Store: memory.NewPool(large), Tokens: memory.NewPool(large), Queues: memory.NewPool(large)}
	q.pools = []*memory.Pool{cfg.Store, cfg.Tokens, cfg.Queues}
	var err error
	q.Store, err = load(t.Context(), cfg.withDefaults(), q.log)
	require.NoError(t, err)
	return q
}

// commit does transactions and returns the result of the last one.
func (q *quiet) commit(n int, txn func(i int) *kv.Txn) (last *kv.Result) {
	const atOnce = 500
	done := func(r *kv.Result, err error) {
		require.NoError(q, err)
		last = r
	}
	for i := 0; i < n; {
		for end := min(i+atOnce, n); i < end; i++ {
			require.NoError(q, q.Commit(txn(i), done))
		}
		group, _ := q.queue.take(atOnce, math.MaxInt)
		require.True(q, q.committer.commit(group))
		q.committer.tend()
	}
	return last
}

func (q *quiet) counted() (n int64) {
	for _, pool := range q.pools {
		n += pool.Held()
	}
	return n
}

func putAt(ns, key string, size int) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.BytesValue(make([]byte, size))}
}

func one(op kv.Op) *kv.Txn { return &kv.Txn{Then: []kv.Op{op}} }

// Each shape is made of n transactions. What takes the memory is in its name.
var costShapes = []struct {
	name string
	n    int
	fill func(q *quiet, n int)
}{
	{"tiny keys in order", 60_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(putAt("a", fmt.Sprintf("k%06d", i), 1)) })
	}},
	{"tiny keys in no order", 100_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(putAt("a", fmt.Sprintf("%x", uint32(i)*2654435761), 1)) })
	}},
	{"long keys", 50_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(putAt("a", fmt.Sprintf("%0200d", i), 30)) })
	}},
	{"keys of 300 bytes, written twice", 30_000, func(q *quiet, n int) {
		q.commit(2*n, func(i int) *kv.Txn { return one(putAt("a", fmt.Sprintf("some/key/%x", uint32(i%n)*2654435761), 300)) })
	}},
	{"large values", 500, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(putAt("a", fmt.Sprint("key", i), 33_000+i)) })
	}},
	{"keys that expire", 60_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(until(putAt("a", fmt.Sprint("key", i), 10), time.Hour)) })
	}},
	{"namespaces of a key", 20_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(putAt(fmt.Sprint("ns", i), "key", 10)) })
	}},
	{"namespaces of some keys", 30_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(putAt(fmt.Sprint("ns", i/6), fmt.Sprint("key", i%6), 10)) })
	}},
	{"leases without keys", 60_000, func(q *quiet, n int) {
		q.commit(n, func(int) *kv.Txn { return one(grant(time.Hour)) })
	}},
	{"leases of a key", 20_000, func(q *quiet, n int) {
		first := q.commit(n, func(int) *kv.Txn { return one(grant(time.Hour)) }).Ops[0].Lease.ID - kv.LeaseID(n) + 1
		q.commit(n, func(i int) *kv.Txn {
			op := putAt("a", fmt.Sprint("key", i), 10)
			op.Lease = first + kv.LeaseID(i)
			return one(op)
		})
	}},
	{"a lease of many keys", 50_000, func(q *quiet, n int) {
		id := q.commit(1, func(int) *kv.Txn { return one(grant(time.Hour)) }).Ops[0].Lease.ID
		q.commit(n, func(i int) *kv.Txn {
			op := putAt("a", fmt.Sprint("key", i), 10)
			op.Lease = id
			return one(op)
		})
	}},
	{"a lease of many keys that expire", 50_000, func(q *quiet, n int) {
		id := q.commit(1, func(int) *kv.Txn { return one(grant(time.Hour)) }).Ops[0].Lease.ID
		q.commit(n, func(i int) *kv.Txn {
			op := until(putAt("a", fmt.Sprint("key", i), 10), time.Hour)
			op.Lease = id
			return one(op)
		})
	}},
	{"tokens", 60_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn {
			return &kv.Txn{TokenNS: "a", Token: fmt.Sprint("token-of-a-client-", i), Then: []kv.Op{putAt("a", "key", 10)}}
		})
	}},
	{"tokens with values", 10_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn {
			op := putAt("a", "key", 700)
			op.WantPrev = true
			return &kv.Txn{TokenNS: "a", Token: fmt.Sprint("token", i), Then: []kv.Op{op}}
		})
	}},
	{"versions that a view needs", 40_000, func(q *quiet, n int) {
		q.commit(n, func(i int) *kv.Txn { return one(putAt("a", fmt.Sprint("key", i), 50)) })
		q.View()
		q.commit(n, func(i int) *kv.Txn { return one(putAt("a", fmt.Sprint("key", i), 50)) })
	}},
}
