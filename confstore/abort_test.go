package confstore

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// TestWriteThatFailsAndCannotBeTakenBack: the rename fails, and the disk is full
// when the journal has to take the intent back. The writer is told that it failed;
// so it must stay, whatever is written later.
func TestWriteThatFailsAndCannotBeTakenBack(t *testing.T) {
	r := newRig(t)
	renamed := false
	r.trace.Hook = func(op atomicfile.Op) error {
		if op.String() == "rename conf/a.json" {
			renamed = true
			return syscall.EIO
		}
		if renamed && strings.HasPrefix(op.String(), "write data/config.journal") {
			return syscall.ENOSPC
		}
		return nil
	}
	_, err := r.run(setA)
	require.ErrorIs(t, err, codes.Storage)

	r.trace.Hook = nil
	if _, err = setNow(t, r.store, SetRequest{Name: "b.json", Contents: []byte("1")}); err != nil {
		require.ErrorIs(t, err, codes.Storage)
	}
	require.NoError(t, r.store.Close())
	text, _, mtime := r.reopened(r.mem.Crash(func() bool { return true }))
	require.Equal(t, oldText, text, "what failed does not come back")
	require.EqualValues(t, 1000, mtime)
}
