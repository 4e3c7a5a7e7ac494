// Package datadir is the directory in which a server keeps its state: who may have it, and what is marked in
// it. It is where backups come from, and what they are restored to, while no server runs.
package datadir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/kvstore/disk"
)

// lockName is the file in --data that a running server has locked, beside the directory itself.
const lockName = "config.lock"

// lockWait lets a server start while its predecessor is still ending. lockPoll is how often it
// tries.
const lockWait, lockPoll = 3 * time.Second, 20 * time.Millisecond

// lockData takes a data directory. The directory itself is locked, because a file in it may be removed,
// and a file as well, because builds before look at that only, and not every file system locks
// directories.
func lockData(root atomicfile.Root) (io.Closer, error) {
	whole, err := root.Lock(".")
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, err
	}
	file, err := root.Lock(lockName)
	if whole == nil {
		return file, err
	}
	if err != nil {
		return nil, errors.Join(err, whole.Close())
	}
	return dataLock{file, whole}, nil
}

// lockState takes the directory of the state store, which may be a link, and stand in two data
// directories. The database has a lock of its own there, which is a file that may be removed. nil: there
// is no such directory, or the file system locks none.
func lockState(data string) (io.Closer, error) {
	root, err := atomicfile.OS().OpenRoot(State(data))
	if err != nil {
		return nil, nil // opening the store says why
	}
	defer root.Close()
	lock, err := root.Lock(".")
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, err
	}
	return lock, nil
}

type dataLock struct{ file, whole io.Closer }

func (l dataLock) Close() error { return errors.Join(l.file.Close(), l.whole.Close()) }

// take makes the data directory if there is none, and takes it for this process until the
// result is closed.
func take(dir string, c clock.Clock, wait time.Duration) (io.Closer, error) {
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
		used := dir
		lock, err := lockData(root)
		if err == nil {
			used = State(dir)
			var store io.Closer
			if store, err = lockState(dir); err != nil {
				err = errors.Join(err, lock.Close())
			} else if store != nil {
				lock = dataLock{store, lock}
			}
		}
		switch {
		case err == nil:
			if err := unfinished(root, dir); err != nil {
				return nil, errors.Join(err, lock.Close())
			}
			return lock, nil
		case !errors.Is(err, atomicfile.ErrLocked):
			return nil, codes.Errorf(codes.Storage, "data directory %s: lock: %w", dir, err)
		case !c.Now().Before(end):
			return nil, codes.Errorf(codes.Busy, "the data directory %s is in use by another server: stop it or name another directory", used)
		}
		<-timer.C()
		timer.Reset(lockPoll)
	}
}

// ToServe takes a data directory with that of its state store, which it makes if there is none: what
// is not there cannot be locked.
func ToServe(dir string) (io.Closer, error) {
	_ = os.MkdirAll(State(dir), 0o700) // what opens the store says why it cannot be made
	return take(dir, clock.Real(), lockWait)
}

// restoreMark is a file in --data as long as a restore has not finished.
const restoreMark = "restore.incomplete"

// unfinished refuses a data directory in which a restore has not finished.
func unfinished(root atomicfile.Root, dir string) error {
	_, err := root.Lstat(restoreMark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	return errUnfinished(dir)
}

func errUnfinished(dir string) error {
	return codes.Errorf(codes.Storage, "the data directory %s is what a restore has left that did not finish: remove what is in it, and restore the backup again", dir)
}

// Idle takes a data directory that exists, has a state store, and is not in use.
func Idle(dir string) (io.Closer, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, codes.Errorf(codes.NotFound, "data directory: %w", err)
	}
	if stateIsNew(dir) {
		if _, err := os.Lstat(filepath.Join(dir, restoreMark)); err != nil {
			return nil, codes.Errorf(codes.NotFound, "%s is no data directory: there is no state store in it", dir)
		}
	}
	return take(dir, clock.Real(), 0)
}

// State is the state store's directory in --data.
func State(data string) string { return filepath.Join(data, "state") }

// stateIsNew reports whether there is no state store yet, or not any more.
func stateIsNew(data string) bool { return disk.New(nil, State(data)) }

// stateMark is a file in --data that says that a state store was made there. Without it a
// store that was removed would look like one that is yet to be made.
const stateMark = "state.made"

// Gone returns why the state store must not be opened: there was one, and it is gone.
func Gone(data string) error {
	_, err := os.Stat(filepath.Join(data, stateMark))
	if err != nil || !stateIsNew(data) {
		return nil
	}
	return codes.Errorf(codes.Storage, "the state store is gone: %s is missing or empty, although it held one. Mount it or restore it from a copy, or start once with --kv-accept-loss to begin with an empty one", State(data))
}

// Mark leaves the mark of a state store that was opened, unless it is there or nothing can
// be written.
func Mark(data string) error {
	root, err := atomicfile.OS().OpenRoot(data)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat(stateMark); err == nil {
		return nil
	}
	text := []byte("There is a state store beside this file. Without the store, but with this file, the server does not start.\n")
	if err := atomicfile.Write(root, stateMark, text, atomicfile.Attr{Perm: 0o600}); err != nil && !atomicfile.IsReadOnly(err) {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	return nil
}

// Renumber begins the versions of all files again, and tells how many documents there are, and their version.
func Renumber(ctx context.Context, dir string) (documents int, served int32, err error) {
	taken, err := Idle(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	// Nothing is given up here because of its age or number: that is for the server's settings.
	const years = 100 * 365 * 24 * time.Hour
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{
		Dir: State(dir), LogBytes: math.MaxInt64, LogAge: years, HistoryVersions: math.MaxInt32, HistoryBytes: math.MaxInt64, HistoryAge: years, TokenAge: years,
	}})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := log.Open(ctx, store, "")
	if err != nil {
		return 0, 0, err
	}
	served = int32(clock.Real().Now().Unix())
	documents, err = log.Renumber(ctx, served)
	return documents, served, err
}
