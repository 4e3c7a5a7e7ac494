package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARepositoryIsBelievedIfItsOwnerMayChangeTheFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{}`), 0o644))
	trees := TreesOf(dir)
	me := uint32(os.Geteuid())
	require.Equal(t, me, trees.owner)
	trees.owner = 7001
	believes := func(owner uint32, name string) bool { return trees.Believes(&Repository{Owner: owner}, name) }
	for owner, believed := range map[uint32]bool{0: true, 7001: true, me: true, 7003: false} {
		require.Equal(t, believed, believes(owner, "a.json"), owner)
	}
	if me == 0 { // who may give files to any owner
		require.NoError(t, os.Chown(filepath.Join(dir, "a.json"), 7003, -1))
		require.True(t, believes(7003, "a.json"))
	}
	require.False(t, believes(7003, "none.json"))
}
