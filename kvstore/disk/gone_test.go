package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// The mark knows of a database that is gone. What was in it can be given up; its revisions are
// not used again.
func TestADatabaseThatIsGoneIsRefusedUnlessItsLossIsAccepted(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "k", "1"})
	require.NoError(t, s.disk.Close())
	s.disk = nil
	require.NoError(t, s.cfg.FS.RemoveAll("data/db"))
	require.False(t, New(s.cfg.FS, "data"))
	for range 2 {
		_, _, err := load(s.cfg)
		require.ErrorIs(t, err, codes.Storage)
		require.ErrorContains(t, err, "--kv-accept-loss")
	}
	accepting := s.cfg
	accepting.AcceptLoss = true
	left, d, err := load(accepting)
	require.NoError(t, err)
	require.Empty(t, left.current)
	require.EqualValues(t, 1, left.rev)
	require.NoError(t, d.Close())
	_, d, err = load(s.cfg)
	require.NoError(t, err, "the loss was accepted once")
	require.NoError(t, d.Close())
}

// A directory is new also if only empty ones and a lock are left of a store.
func TestADirectoryIsNewWithoutMarkAndDatabase(t *testing.T) {
	s := newStore(t, nil)
	require.True(t, New(s.cfg.FS, "other"))
	require.False(t, New(s.cfg.FS, "data"))
	require.NoError(t, s.disk.Close())
	s.disk = nil
	require.NoError(t, s.cfg.FS.Remove("data/durable.mark"))
	require.False(t, New(s.cfg.FS, "data"))
	require.NoError(t, s.cfg.FS.RemoveAll("data/db"))
	require.NoError(t, s.cfg.FS.MkdirAll("data/db", 0o755))
	require.True(t, New(s.cfg.FS, "data"))
}
