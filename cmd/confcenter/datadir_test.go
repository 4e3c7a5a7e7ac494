package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
)

func TestTheDataDirectoryIsWaitedForWhileItIsBeingGivenUp(t *testing.T) {
	dir := t.TempDir() + "/data"
	first, err := takeData(dir, clock.Real(), 0)
	require.NoError(t, err)
	_, err = takeData(dir, clock.Real(), 0)
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "in use by another server")

	require.NoError(t, os.Remove(filepath.Join(dir, lockName)))
	_, err = takeData(dir, clock.Real(), 0)
	require.ErrorIs(t, err, codes.Busy, "the directory is locked, not only a file in it")
	_, err = newTarget(dir)
	require.ErrorIs(t, err, codes.Busy)

	fake := clock.NewFake(time.Unix(1_700_000_000, 0))
	opened := make(chan error, 1)
	go func() {
		second, err := takeData(dir, fake, time.Second)
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
