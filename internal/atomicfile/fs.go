// Package atomicfile writes files that are either the old one or the new one,
// whole, whatever happens: a full disk, a kill, a power cut.
//
// Everything goes through a small seam: [FS] opens a directory as a [Root], and
// a Root is all that a store may touch below it. [OS] is the real one, on
// os.Root, so that neither a hostile name nor a symlink leads outside. Package
// atomicfiletest has those of tests, with which the order write, fsync, rename,
// fsync is a unit test.
//
// Start with [Prepare], which makes the temporary file, and [Pending.Rename].
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"
)

// FS opens directories.
type FS interface {
	// OpenRoot opens the existing directory dir. The caller closes it.
	OpenRoot(dir string) (Root, error)
}

// IsReadOnly reports whether err means that nothing can be written there, by this
// process or by any.
func IsReadOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

// Stat is what StatOf tells of a file beside its info.
type Stat struct {
	Device, Inode uint64
	Changed       int64 // contents, name or attributes, as Unix time in nanoseconds
	Owner         uint32
}

// Root is one directory and what lies below it. Names are relative,
// '/'-separated; "." is the directory itself. A name or symlink that leads
// outside is an error. All methods may be called from several goroutines.
type Root interface {
	// OpenFile is os.OpenFile below the root. Opening never blocks, also not on
	// a named pipe.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// ReadDir lists a directory in no particular order.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat follows symlinks that stay inside; Lstat does not. StatOf tells more of both
	// results.
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	// Readlink is what a symlink says, as it is.
	Readlink(name string) (string, error)
	// Mkdir makes one directory. It is durable after SyncDir of its parent.
	Mkdir(name string, perm fs.FileMode) error
	// Rename replaces newname in one step. It is durable after SyncDir.
	Rename(oldname, newname string) error
	// Remove removes a file or an empty directory. It is durable after SyncDir.
	Remove(name string) error
	// Chtimes sets the modification time.
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes the entries of directory name durable. After an error what
	// is on the disk is unknown; do not try again.
	SyncDir(name string) error
	// Lock takes an exclusive lock on a directory, or on the file name, which it creates; one that
	// exists need only be readable. It never waits: if the lock is taken, the error wraps ErrLocked. Close of the
	// result or the end of the process gives the lock back.
	Lock(name string) (io.Closer, error)
	// Close ends the use of the root; open files live on.
	Close() error
}

// File is an open file below a Root. It is used by one goroutine at a time.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	// Stat is fstat.
	Stat() (fs.FileInfo, error)
	// Truncate sets the length; it is durable after Sync.
	Truncate(size int64) error
	// Chmod sets the permission bits past the process's umask.
	Chmod(perm fs.FileMode) error
	// Sync makes the contents durable. After an error what is on the disk is
	// unknown and a second Sync may succeed without meaning it; do not try again.
	Sync() error
}

// Cause returns the innermost text of an error, without paths, which peers must not see.
func Cause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err.Error()
	}
	return err.Error()
}
