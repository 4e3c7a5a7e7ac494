package disk

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore"
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
					list = append(list, appended{commits: make([]kvstore.Commit, 0, atOnce)})
				}
				g := &list[len(list)-1]
				g.commits = append(g.commits, kvstore.Commit{Change: kv.Change{Revision: kv.Revision(i), Events: []kv.Event{event}}})
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
