package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"
)

// ErrLocked is wrapped by the error of Lock when the lock is taken.
var ErrLocked = errors.New("locked by another process")

// OS is the machine's file system. Symlinks with an absolute target count as
// leading outside, even if the target is inside (os.Root's rule).
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) OpenRoot(dir string) (Root, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return osRoot{r}, nil
}

// osRoot is an os.Root, but for what is not as it has it.
type osRoot struct{ *os.Root }

func (o osRoot) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	// O_NONBLOCK: opening a named pipe for reading would wait for a writer, and
	// the whole store with it.
	f, err := o.Root.OpenFile(name, flag|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (o osRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := o.Root.Open(name)
	if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(-1)
	return entries, errors.Join(err, d.Close())
}

func (o osRoot) Chtimes(name string, mtime time.Time) error {
	return o.Root.Chtimes(name, mtime, mtime)
}

func (o osRoot) SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil // which syncs no directories: NTFS keeps a log of its own of them
	}
	d, err := o.Root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (o osRoot) Lock(name string) (io.Closer, error) {
	f, err := o.Root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if IsReadOnly(err) || errors.Is(err, syscall.EISDIR) {
		f, err = o.Root.Open(name)
	}
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return osLock{f}, nil
}

type osLock struct{ f *os.File }

// Close unlocks first: a child process that is just being started holds a copy of
// the descriptor for a moment, and the lock with it.
func (l osLock) Close() error {
	return errors.Join(unflock(l.f), l.f.Close())
}
