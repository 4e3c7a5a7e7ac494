package disk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each stop makes tables of everything and lets the retentions go on. A limit below what one
// of them has taken must not drop all of the log with it.
func TestALogOfFewBytesIsNotDroppedWithEachStop(t *testing.T) {
	s := newStore(t, func(c *Config) { c.LogBytes = 1 })
	for range 4 {
		from := s.rev
		for range 8 {
			s.put(op{"ns", "k", strings.Repeat("x", 300)})
		}
		s.reopen()
		changes, err := s.disk.Changes(from, 1<<20)
		require.NoError(t, err)
		require.Len(t, changes, 8)
	}
	floor, _ := s.disk.Floors()
	require.Positive(t, floor, "the limit holds for what is older")
}
