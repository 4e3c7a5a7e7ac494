package player

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/player/field"
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
		o := field.Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(i)}
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
	require.NoError(k.t, each(v, field.Landing, filterPrefix, func(e *kv.Entry) { versions[e.Key] = e.Version }))
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
		o := field.Owner{App: "1", Region: "1", Logic: "user", ID: id}
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
