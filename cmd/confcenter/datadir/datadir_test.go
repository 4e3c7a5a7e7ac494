package datadir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
)

// The state store of a data directory may be a link to another place, or the same file system mounted
// there: two data directories do not share it, whatever files are removed.
func TestTwoDataDirectoriesShareNoStateStore(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	require.NoError(t, os.MkdirAll(State(one), 0o700)) // as serve does
	require.NoError(t, os.MkdirAll(two, 0o700))
	require.NoError(t, os.Symlink("../one/state", State(two)))
	first, err := take(one, clock.Real(), 0)
	require.NoError(t, err)
	_, err = take(two, clock.Real(), 0)
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, State(two))
	_, err = Idle(two)
	require.Error(t, err)
	require.NoError(t, first.Close())
	second, err := take(two, clock.Real(), 0)
	require.NoError(t, err)
	_, err = take(one, clock.Real(), 0)
	require.ErrorIs(t, err, codes.Busy)
	require.NoError(t, second.Close())
}

func TestTheDataDirectoryIsWaitedForWhileItIsBeingGivenUp(t *testing.T) {
	dir := t.TempDir() + "/data"
	first, err := take(dir, clock.Real(), 0)
	require.NoError(t, err)
	_, err = take(dir, clock.Real(), 0)
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "in use by another server")

	require.NoError(t, os.Remove(filepath.Join(dir, lockName)))
	_, err = take(dir, clock.Real(), 0)
	require.ErrorIs(t, err, codes.Busy, "the directory is locked, not only a file in it")
	_, err = newTarget(dir)
	require.ErrorIs(t, err, codes.Busy)

	fake := clocktest.NewFake(time.Unix(1_700_000_000, 0))
	opened := make(chan error, 1)
	go func() {
		second, err := take(dir, fake, time.Second)
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	fake.BlockUntil(1)
	require.NoError(t, first.Close())
	fake.Advance(lockPoll)
	require.NoError(t, <-opened)
}
