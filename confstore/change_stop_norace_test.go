//go:build !race

package confstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/change"
	"confcenter/internal/atomicfile/atomicfiletest"
)

// Whenever the process is killed, or power is lost: all documents of a change are as they were, or
// all are new.
func TestAChangeIsWholeWhereverItStops(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "long": 400 << 10} {
		t.Run(name, func(t *testing.T) {
			i := changedRig(t)
			text := `{"v":"new","x":"` + strings.Repeat("x", size) + `"}`
			i.trace.Rehook(func(op atomicfiletest.Op) error {
				i.note(op.String())
				return nil
			})
			i.log.hook = func(what string) error {
				i.note(what)
				return nil
			}
			var list []change.Document
			for _, name := range []string{"a.json", "b.json", "dir/new.json"} {
				list = append(list, write(name, text))
			}
			i.may = append(i.may, fmt.Sprintf("a.json=%s b.json=%[1]s dir/new.json=%[1]s gone.json=none", text[:12]))
			r, err := changeNow(t, i.store, change.Request{Documents: append(list, change.Document{Name: "gone.json"})})
			require.NoError(t, err)
			i.mu.Lock()
			i.may = i.may[1:]
			i.mu.Unlock()
			i.note("afterwards")
			i.synced()
			i.note("synced")
			i.mu.Lock()
			defer i.mu.Unlock()
			require.Greater(t, len(i.moments), 50)
			seen := map[string]bool{}
			for _, m := range i.moments {
				is := m.reopenedAll(t)
				require.Contains(t, m.may, is, m.label)
				seen[is] = true
			}
			require.Len(t, seen, 2)
			d, err := i.store.writer.log.Document("a.json")
			require.NoError(t, err)
			require.Equal(t, r.Revision, d.Revision)
		})
	}
}
