//go:build !race || soak

package player

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	kvmemory "confcenter/kvstore/memory"
	"confcenter/player/field"
)

// Near the limit of memory landed owners leave, those used longest ago first, and no write is
// refused for those who are only landed.
func TestOwnersLeaveBeforeTheMemoryIsFull(t *testing.T) {
	pool := memory.NewPool(4 << 20)
	k := startOn(t, newDatabase(), func(c *Config) { c.Memory = pool }, func(c *Config) {
		k := kvmemory.New(kvmemory.Config{Clock: c.Clock, Store: pool})
		t.Cleanup(func() { require.NoError(t, k.Close()) })
		c.Store = k
	})
	w := &watchman{c: k.cold, forgetter: k.cfg.Store.(kv.Forgetter), memory: pool, swept: k.clock.Now()}
	owner := func(i int) field.Owner {
		return field.Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(i)}
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
		if _, err := k.try(&field.Write{Owner: owner(i), Kind: field.Update, Fields: puts(map[string]string{"a": strings.Repeat("x", 2000)})}); err != nil {
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
