package disk

import (
	"errors"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/internal/clock"
	"confcenter/internal/datasync"
)

// fence is the file system of an open store. It stands between the database and the disk so
// that a sick disk does not end the process.
//
//   - The first write that fails is the last, and so is the first sync: what the files hold is
//     not known from then on.
//   - If there is no space, nothing is lost by waiting: the log, the manifest and the mark wait
//     until there is, and the database makes tables again.
type fence struct {
	vfs.FS
	clock   clock.Clock
	sick    func(error) // called for the first write that failed
	full    func(error) // called each time that a write finds no space
	damaged func(error) // called for each read of a table that failed

	failed  atomic.Pointer[error]
	waiting atomic.Pointer[error] // why a write to log, manifest or mark waits
	idle    bool                  // set at open: nothing is written
	hurry   chan struct{}         // closed by release: no write waits any more
	once    sync.Once             // of hurry

	mu      sync.Mutex
	written map[*fenced]string // names of the logs and manifests that are open; guarded by mu
}

// retryPause is how long a write that found no space waits before it is tried again.
const retryPause = time.Second

var errNoMore = errors.New("nothing is written any more, since a write has failed")

// class says what to do about a file for which there is no space.
type class int

const (
	vital  class = iota // log, manifest, mark: it waits
	tables              // of the database, which makes them again at once
	own                 // tables of the keeper, which makes them again after a while
)

func classOf(path string) class {
	base := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case isLog(base), strings.HasPrefix(base, "marker."), base == markName:
		return vital
	case strings.HasSuffix(base, ".table"):
		return own
	}
	return tables
}

// isLog reports whether a file is the database's log or manifest.
func isLog(base string) bool {
	return strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-")
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func newFence(fsys vfs.FS, now clock.Clock, l *log) *fence {
	return &fence{
		FS: fsys, clock: now, hurry: make(chan struct{}), written: map[*fenced]string{},
		sick: func(err error) { _ = l.fail(err) }, full: l.fullStart(), damaged: l.unreadable,
	}
}

// release ends all waiting.
func (f *fence) release() { f.once.Do(func() { close(f.hurry) }) }

// write does what writes to a file.
func (f *fence) write(of class, do func() error) error {
	for {
		if f.failed.Load() != nil {
			return errNoMore
		}
		err := do()
		if !isFull(err) {
			f.waited(nil)
			return f.judge(err)
		}
		f.full(err)
		if of == own {
			return err
		}
		if of == vital {
			f.waited(err)
		}
		if waited := !clock.Within(f.clock, retryPause, f.hurry); of == tables {
			return err
		} else if !waited {
			return f.judge(err)
		}
	}
}

func (f *fence) waited(err error) {
	switch {
	case err != nil:
		f.waiting.Store(&err)
	case f.waiting.Load() != nil:
		f.waiting.Store(nil)
	}
}

// sync does what makes durable. After an error the system may have dropped what was to be
// written, so it is not tried again.
func (f *fence) sync(do func() error) error {
	if f.failed.Load() != nil {
		return errNoMore
	}
	return f.judge(do())
}

// judge ends writing for an error.
func (f *fence) judge(err error) error {
	if err != nil {
		f.fail(err)
	}
	return err
}

// fail says what has failed before anything is refused because of it: what is refused is not the reason.
func (f *fence) fail(err error) {
	f.sick(err)
	if f.failed.CompareAndSwap(nil, &err) {
		f.release()
	}
}

// fenced returns an open file behind the fence.
func (f *fence) fenced(path string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	one := &fenced{File: file, class: classOf(path), fence: f}
	if base := f.PathBase(path); isLog(base) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.written[one] = base
	}
	return one, nil
}

// created is fenced for what makes a file to write to.
func (f *fence) created(path string, create func() (vfs.File, error)) (file vfs.File, err error) {
	err = f.write(classOf(path), func() (err error) {
		file, err = create()
		return err
	})
	return f.fenced(path, file, err)
}

// writing lists the names of log and manifest.
func (f *fence) writing() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.written))
}

// These implement vfs.FS.

func (f *fence) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.created(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *fence) Link(from, to string) error {
	return f.write(classOf(to), func() error { return f.FS.Link(from, to) })
}

func (f *fence) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &fenced{File: file, class: tables, fence: f}, nil
}

func (f *fence) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.created(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *fence) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fenced{File: file, fence: f}, nil
}

func (f *fence) Rename(from, to string) error {
	return f.write(classOf(to), func() error { return f.FS.Rename(from, to) })
}

func (f *fence) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.created(to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, category) })
}

// Remove and RemoveAll do nothing once a write has failed: what is there may be needed at the
// next start.
func (f *fence) Remove(name string) error {
	if f.failed.Load() != nil {
		return errNoMore
	}
	return f.FS.Remove(name)
}

func (f *fence) RemoveAll(name string) error {
	if f.failed.Load() != nil {
		return errNoMore
	}
	return f.FS.RemoveAll(name)
}

// Lock does nothing in a directory that no one can write to.
func (f *fence) Lock(name string) (io.Closer, error) {
	if f.idle {
		return io.NopCloser(nil), nil
	}
	return f.FS.Lock(name)
}

func (f *fence) Unwrap() vfs.FS { return f.FS }

// fenced is an open file of a fence.
type fenced struct {
	vfs.File
	class class
	fence *fence

	unsynced atomic.Int64 // bytes written since the last sync
}

// aside is how many bytes, at most, are synced while other goroutines have the processor: so
// many come of a few requests. With more, all that the server has at hand is in them, and it
// would only begin another group with what trickles in.
const aside = 32 << 10

func (f *fenced) Close() error {
	if f.class == vital {
		f.fence.mu.Lock()
		delete(f.fence.written, f)
		f.fence.mu.Unlock()
	}
	return f.File.Close()
}

func (f *fenced) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = f.File.ReadAt(p, off)
	if err != nil && f.class == tables && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		f.fence.damaged(err)
	}
	return n, err
}

// Write goes on behind what was written when there was no more space.
func (f *fenced) Write(p []byte) (n int, err error) {
	err = f.fence.write(f.class, func() error {
		m, err := f.File.Write(p[n:])
		n += m
		f.unsynced.Add(int64(m))
		return err
	})
	if f.class != vital {
		// Two goroutines that write a table hand each other one processor back and forth for
		// up to 10 ms, while an event loop waits for it.
		runtime.Gosched()
	}
	return n, err
}

func (f *fenced) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fence.write(f.class, func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *fenced) Sync() error { return f.fence.sync(f.File.Sync) }

func (f *fenced) SyncData() error {
	if f.unsynced.Swap(0) > aside {
		return f.fence.sync(f.File.SyncData)
	}
	return f.fence.sync(func() error { return datasync.Aside(f.File) })
}

func (f *fenced) SyncTo(length int64) (full bool, err error) {
	err = f.fence.sync(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
