package storage

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
)

// A bucket of the filter is 8 KiB, and most owners have one of their own: written for each
// thousand of them anew, ten million would have written 80 GB.
func TestOwnersThatLeaveTogetherWriteEachBucketOnce(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.settle()
	const owners = 3 * evictOwners
	buckets := map[int]bool{}
	for i := range owners {
		o := Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(i)}
		k.update(o, map[string]string{"a": "1"})
		buckets[bucketOf(hashOf(o.Namespace(), o.Key()))] = true
	}
	var written atomic.Int64
	defer k.engine.Follow(func(b *kv.Batch) {
		for i := range b.Changes {
			for _, e := range b.Changes[i].Events {
				if strings.HasPrefix(e.Entry.Key, filterPrefix) {
					written.Add(1)
				}
			}
		}
	})()
	require.Equal(t, owners, k.chill())
	require.EqualValues(t, len(buckets), written.Load())
}
