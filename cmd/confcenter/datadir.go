package main

import (
	"errors"
	"io"
	"os"
	"time"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
)

// lockName is the file in --data that a running server has locked.
const lockName = "config.lock"

// lockWait lets a server start while its predecessor is still ending. lockPoll is how often it
// tries.
const lockWait, lockPoll = 3 * time.Second, 20 * time.Millisecond

// takeData makes the data directory if there is none, and takes it for this process until the
// result is closed.
func takeData(dir string, c clock.Clock, wait time.Duration) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	root, err := atomicfile.OS().OpenRoot(dir)
	if err != nil {
		return nil, codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	defer root.Close()
	timer := c.NewTimer(lockPoll)
	defer timer.Stop()
	for end := c.Now().Add(wait); ; {
		lock, err := root.Lock(lockName)
		switch {
		case err == nil:
			return lock, nil
		case !errors.Is(err, atomicfile.ErrLocked):
			return nil, codes.Errorf(codes.Storage, "data directory %s: lock: %w", dir, err)
		case !c.Now().Before(end):
			return nil, codes.Errorf(codes.Busy, "the data directory %s is in use by another server: stop it or name another directory", dir)
		}
		<-timer.C()
		timer.Reset(lockPoll)
	}
}
