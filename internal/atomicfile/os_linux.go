package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// StatOf is what the system knows of a file; false if it says nothing.
func StatOf(info fs.FileInfo) (Stat, bool) {
	switch stat := info.Sys().(type) {
	case *syscall.Stat_t:
		return Stat{Device: uint64(stat.Dev), Inode: stat.Ino, Changed: stat.Ctim.Nano(), Owner: stat.Uid}, true
	case *Stat:
		return *stat, true
	}
	return Stat{}, false
}

// flock locks a file at once or fails with ErrLocked.
func flock(f *os.File) error { return lock(f, unix.LOCK_EX|unix.LOCK_NB) }

func unflock(f *os.File) error { return lock(f, unix.LOCK_UN) }

func lock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) {
		lockErr = unix.Flock(int(fd), how)
	})
	err = cmp.Or(err, lockErr)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w", ErrLocked)
	}
	return err
}

// allocate gives a new file its space before its bytes come. Otherwise ext4 finds it when the file
// replaces another one, and writes the bytes at once, so that the one who replaces that file in its turn
// waits for the disk. Where it cannot be done, it only takes longer.
func allocate(f File, size int) {
	file, ok := f.(*os.File)
	if !ok || size == 0 {
		return
	}
	if conn, err := file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Fallocate(int(fd), 0, 0, int64(size)) })
	}
}
