package disk

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kvstore/replica"

	"github.com/stretchr/testify/require"
)

func inUse() int64 {
	for range 2 { // what a collection has cleaned up is collected by the next
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestGroupsHoldWhatIsCounted(t *testing.T) {
	const groups, atOnce, keys = 600, 64, 500
	for _, shape := range []struct {
		name  string
		value func(i int) string // of the i-th event; "" deletes
	}{
		{"tiny values", func(i int) string { return fmt.Sprint(i % 10) }},
		{"long values", func(i int) string { return strings.Repeat("v", 300+i%10) }},
		{"every other one deletes", func(i int) string { return strings.Repeat("v", i/keys%2*200) }},
	} {
		t.Run(shape.name, func(t *testing.T) {
			current := map[string]*kv.Entry{}
			var list []appended
			var counted int64
			before := inUse()
			for i := range groups * atOnce {
				key := fmt.Sprint("some/key/", i%keys)
				e := &kv.Entry{NS: "ns", Key: key, Mod: kv.Revision(i), Value: kv.BytesValue([]byte(shape.value(i)))}
				event := kv.Event{Kind: kv.Put, Entry: e, Prev: current[key]}
				if current[key] = e; len(e.Value.Data) == 0 {
					event.Kind, current[key] = kv.Delete, nil
				} else {
					e.Version = 1
				}
				if i%atOnce == 0 {
					list = append(list, appended{commits: make([]replica.Commit, 0, atOnce)})
				}
				g := &list[len(list)-1]
				g.commits = append(g.commits, replica.Commit{Change: kv.Change{Revision: kv.Revision(i), Events: []kv.Event{event}}})
			}
			for i := range list {
				list[i] = newAppended(list[i].commits, 0)
				counted += list[i].holds
			}
			require.InEpsilon(t, inUse()-before, counted, 0.2, "used and counted")
			runtime.KeepAlive(list)
			runtime.KeepAlive(current)
		})
	}
}

// The sizes of everything in memory follow the pool, and what is in use stays within it.
func TestASmallPoolMakesASmallEngine(t *testing.T) {
	pool := memory.NewPool(memory.Least / 1000 * 50)
	s := newStore(t, func(c *Config) { c.Engine = pool })
	require.Less(t, 2*s.disk.cfg.MemTableBytes+s.disk.cfg.CacheBytes+2*s.disk.cfg.TableBytes, pool.Limit())
	value := strings.Repeat("v", 2000)
	for i := range 10_000 {
		s.put(op{"ns", fmt.Sprint("key", i%100), value})
		if i%1000 == 0 {
			s.stopped(s.disk.gate.measure)
			require.LessOrEqual(t, pool.Held(), pool.Limit()*4/3, "more only if tables cannot be made as fast as groups come")
		}
	}
	require.Positive(t, pool.Held())
	large := strings.Repeat("v", kv.MaxValue)
	for i := range 8 {
		s.put(op{"ns", fmt.Sprint("large", i), large})
	}
	s.reopen()
	require.NoError(t, s.disk.Close())
	require.Zero(t, pool.Held())
	s.disk = nil
}
