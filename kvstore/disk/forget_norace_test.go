//go:build !race

package disk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Deleted rows alone free no space: nothing would ever merge them away.
func TestTheSpaceOfForgottenEntriesGoesBack(t *testing.T) {
	s := newStore(t, nil)
	long := strings.Repeat("x", 1<<17)
	var keys []string
	for i := range leastDead>>17 + 8 {
		keys = append(keys, fmt.Sprint("key", i))
		s.put(op{fields, keys[i], long})
	}
	s.put(op{fields, "stays", long})
	s.tables()
	used := func() uint64 {
		n, err := s.disk.db.EstimateDiskUsage([]byte{currentKind}, []byte{currentKind + 1})
		require.NoError(t, err)
		return n
	}
	require.Greater(t, used(), uint64(leastDead))
	s.forget(keys...)
	s.within(1000, func() bool { return used() < leastDead/4 })
	s.reopen()
}
