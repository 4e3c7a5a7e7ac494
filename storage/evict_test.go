package storage

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kvstore/kvtest"
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
	require.Equal(t, owners, k.chill())
	require.Len(t, k.bucketVersions(), len(buckets))
	for key, version := range k.bucketVersions() {
		require.EqualValues(t, 1, version, key)
	}
}

// bucketVersions is how often each bucket was written.
func (k *kit) bucketVersions() map[string]int64 {
	versions := map[string]int64{}
	v := k.engine.View()
	defer v.Close()
	require.NoError(k.t, each(v, Landing, filterPrefix, func(e *kv.Entry) { versions[e.Key] = e.Version }))
	return versions
}

// crowd is a database with so many owners in table 1_1.
type crowd struct {
	*database
	owners int
}

func (d *crowd) Tables(context.Context) ([]string, error) { return []string{"1_1"}, nil }

func (d *crowd) Owners(_ context.Context, q OwnerQuery, each func(key []byte)) error {
	from := 0
	if q.After != "" {
		last, _ := strconv.Atoi(strings.TrimPrefix(q.After, "user:"))
		from = last + 1
	}
	for i := from; i < min(from+q.Limit, d.owners); i++ {
		each(fmt.Appendf(nil, "user:%07d", i))
	}
	return nil
}

// So is what a scan has found. Written for each hundred thousand owners, the buckets of a
// million were written ten times, and the engine kept much of that in memory.
func TestAScanWritesEachBucketOnce(t *testing.T) {
	const owners = 150_000
	k := startOn(t, newDatabase(), func(c *Config) { c.Backing = &crowd{newDatabase(), owners} })
	k.settle()
	require.Len(t, k.bucketVersions(), 1<<bucketBits)
	for key, version := range k.bucketVersions() {
		require.EqualValues(t, 1, version, key)
	}
	for _, id := range []string{"0000000", "0099999", "0149999"} {
		o := Owner{App: "1", Region: "1", Logic: "user", ID: id}
		require.True(t, inFilter(k.engine, hashOf(o.Namespace(), o.Key())), id)
	}
}

// An owner leaves when it was not used for the idle time, and no more than a quarter of it later,
// whenever it was used.
func TestTheIdleTimeMeansWhatItSays(t *testing.T) {
	for offset := range 13 {
		k := startOn(t, newDatabase())
		w := &watchman{c: k.cold, forgetter: k.engine.(kv.Forgetter), memory: memory.NewPool(1 << 30), swept: k.clock.Now()}
		k.update(player, map[string]string{"a": "1"})
		k.land()
		minute := func() {
			k.clock.Advance(time.Minute)
			require.NoError(t, w.look(time.Hour))
		}
		for range offset {
			minute()
		}
		require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"))
		stayed := 0
		for ; k.engine.Stats().Namespaces > 1; stayed++ {
			minute()
		}
		require.GreaterOrEqual(t, stayed, 60, offset)
		require.LessOrEqual(t, stayed, 75, offset)
	}
}

// Near the limit of memory landed owners leave, those used longest ago first, and no write is
// refused for those who are only landed.
func TestOwnersLeaveBeforeTheMemoryIsFull(t *testing.T) {
	pool := memory.NewPool(4 << 20)
	k := startOn(t, newDatabase(), func(c *Config) { c.Memory = pool }, func(c *Config) {
		k := kvtest.NewMemory(kvtest.MemoryConfig{Clock: c.Clock, Store: pool})
		t.Cleanup(func() { require.NoError(t, k.Close()) })
		c.Store = k
	})
	w := &watchman{c: k.cold, forgetter: k.cfg.Store.(kv.Forgetter), memory: pool, swept: k.clock.Now()}
	owner := func(i int) Owner {
		return Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(i)}
	}
	const owners = 4000 // three times as many as there is room for
	for i := range owners {
		k.update(owner(i), map[string]string{"a": strings.Repeat("x", 2000)})
		if i%20 == 0 {
			k.land()
			k.get(owner(0), "a") // is always in use
			k.clock.Advance(lookTime)
			require.NoError(t, w.look(time.Hour))
		}
	}
	warm := func(i int) bool {
		_, ok := k.warm(owner(i), "a")
		return ok
	}
	require.Less(t, pool.Held(), pool.Limit())
	require.True(t, warm(0))
	require.False(t, warm(1))
	first := 1
	for !warm(first) {
		first++
	}
	for i := first; i < owners; i++ {
		require.True(t, warm(i), "%d was used after %d, which is still in memory", i, first)
	}

	for i := owners; ; i++ { // nothing is landed, until it is full
		if _, err := k.try(&Write{Owner: owner(i), Kind: Update, Fields: puts(map[string]string{"a": strings.Repeat("x", 2000)})}); err != nil {
			require.ErrorIs(t, err, codes.Quota)
			break
		}
	}
	require.NoError(t, w.look(time.Hour))
	k.land()
	k.clock.Advance(vainTime)
	require.NoError(t, w.look(time.Hour))
	k.update(owner(1), map[string]string{"b": "1"})
}
