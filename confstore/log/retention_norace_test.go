//go:build !race

package log_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
)

// At whichever transaction a removal is killed, no version is half, and the next one finishes it.
func TestKilledInTheMiddleOfARemoval(t *testing.T) {
	for _, after := range []bool{false, true} {
		done := false
		for moment := 1; !done; moment++ {
			b := newBed(t)
			var texts []string
			for i := range 3 {
				texts = append(texts, long(i%2, i))
				b.commit(at(int64(i), "a.json", texts[i]))
			}
			many := log.Change{By: log.By{Time: 9}}
			for i := range 70 {
				many.Versions = append(many.Versions, set(fmt.Sprintf("many/%03d.json", i), "1").Versions...)
			}
			b.commit(many)
			for i := range many.Versions {
				many.Versions[i].File = []byte("2")
			}
			many.By.Time = 10
			b.commit(many)
			b.store.left, b.store.after, b.store.largest.ops = moment, after, 0
			_, err := b.log.Remove(t.Context(), log.Retention{Keep: 1, Before: time.UnixMilli(100)})
			done = b.store.left > 0
			require.Equal(t, done, err == nil, "%v", err)
			b.open()
			list, err := b.log.Versions(t.Context(), "a.json", 0, 100)
			require.NoError(t, err)
			b.sound("a.json", int(list[len(list)-1].N), texts)
			b.remove(1, 100)
			b.sound("a.json", 3, texts)
			b.sound("many/069.json", 2, []string{"1", "2"})
			require.Len(t, b.archived("versions"), 71)
			require.Len(t, b.archived("chunks"), 2)
			require.Empty(t, b.archived("freed"))
			changes, err := b.log.Changes(t.Context(), 0, 100)
			require.NoError(t, err)
			require.Len(t, changes, 2)
			require.LessOrEqual(t, b.store.largest.ops, 128)
			b.close()
		}
	}
}
