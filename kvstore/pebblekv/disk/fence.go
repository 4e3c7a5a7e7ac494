package disk

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/internal/clock"
	"confcenter/internal/datasync"
)

// fence is the file system of one opening of the store. It stands between the database and
// the disk so that a sick disk ends neither the process nor what may come after it.
//
//   - The first write to the log, the manifest or the mark that fails is the last: what the
//     files hold is not known from then on, so nothing more is written by this opening.
//   - If there is no space for them, they wait until there is: nothing is lost by that.
//   - The database tries tables again at once when they fail. Here it has to wait.
//   - cut waits for the operations under way, closes every file, and lets nothing through
//     any more. Only then may the directory be opened anew, whatever is left of the database.
type fence struct {
	vfs.FS
	clock clock.Clock
	sick  func(error) // called for the first write that failed
	full  func(error) // called each time that a write that will be tried again finds no space

	mu      sync.RWMutex // held for reading by each operation, and by cut for good
	failed  atomic.Pointer[error]
	waiting atomic.Pointer[error] // why a write to log, manifest or mark waits
	idle    bool                  // set at open: nothing is written
	hurry   chan struct{}         // closed by release: nobody waits any more
	once    sync.Once             // of hurry
	cutting sync.Once             // of mu, held for good

	filesMu sync.Mutex
	open    map[io.Closer]string // paths; guarded by filesMu
}

// retryPause is how long what failed waits before it is tried again.
const retryPause = time.Second

var (
	errCut    = errors.New("the store has let go of its directory")
	errNoMore = errors.New("nothing is written any more, since a write has failed")
)

func newFence(fsys vfs.FS, now clock.Clock, sick, full func(error)) *fence {
	return &fence{FS: fsys, clock: now, sick: sick, full: full, hurry: make(chan struct{}), open: map[io.Closer]string{}}
}

// class says what to do when a file cannot be written.
type class int

const (
	own    class = iota // tables under way: the keeper sees to it
	tables              // of the database, which tries again at once
	vital               // the store cannot go on without: log, manifest, mark, directories
)

func classOf(path string) class {
	base := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasSuffix(base, ".log"), strings.HasPrefix(base, "MANIFEST-"), strings.HasPrefix(base, "marker."), base == markName:
		return vital
	case strings.HasSuffix(base, ".table"):
		return own
	}
	return tables
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// release ends all waiting.
func (f *fence) release() { f.once.Do(func() { close(f.hurry) }) }

// cut ends all use of the directory.
func (f *fence) cut() {
	f.release()
	f.cutting.Do(f.mu.Lock)
	f.filesMu.Lock()
	defer f.filesMu.Unlock()
	for file := range f.open {
		_ = file.Close()
	}
	clear(f.open)
}

// pause waits a moment. It is false if nobody waits any more.
func (f *fence) pause() bool {
	timer := f.clock.NewTimer(retryPause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-f.hurry:
		return false
	}
}

// read does what does not write.
func (f *fence) read(do func() error) error {
	if !f.mu.TryRLock() {
		return errCut
	}
	defer f.mu.RUnlock()
	return do()
}

// write does what writes to a file of a class.
func (f *fence) write(to class, do func() error) error {
	for {
		err := f.tryWrite(do)
		if to != own && isFull(err) {
			f.full(err)
		}
		switch {
		case err == nil || errors.Is(err, errCut):
			f.waited(nil)
			return err
		case to == own || to == vital && errors.Is(err, errNoMore):
			return err
		case to == tables:
			f.pause()
			return err
		case isFull(err):
			f.waited(err)
			if f.pause() {
				continue
			}
		}
		f.fail(err)
		return err
	}
}

func (f *fence) tryWrite(do func() error) error {
	if !f.mu.TryRLock() {
		return errCut
	}
	defer f.mu.RUnlock()
	if f.failed.Load() != nil {
		return errNoMore
	}
	return do()
}

func (f *fence) waited(err error) {
	switch {
	case err != nil:
		f.waiting.Store(&err)
	case f.waiting.Load() != nil:
		f.waiting.Store(nil)
	}
}

// sync is write for what makes durable. After an error the system may have dropped what was
// to be written, so it is not tried again.
func (f *fence) sync(of class, do func() error) error {
	err := f.tryWrite(do)
	switch {
	case err == nil || errors.Is(err, errCut):
	case of == vital && !errors.Is(err, errNoMore):
		f.fail(err)
	case of == tables:
		f.pause()
	}
	return err
}

func (f *fence) fail(err error) {
	if f.failed.CompareAndSwap(nil, &err) {
		f.release()
		f.sick(err)
	}
}

// keep notes a file that is open.
func (f *fence) keep(path string, of class, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	one := &fenced{File: file, class: of, fence: f}
	f.filesMu.Lock()
	defer f.filesMu.Unlock()
	f.open[file] = path
	return one, nil
}

// shut closes a file unless cut has.
func (f *fence) shut(file io.Closer) error {
	return f.read(func() error {
		f.filesMu.Lock()
		_, open := f.open[file]
		delete(f.open, file)
		f.filesMu.Unlock()
		if !open {
			return os.ErrClosed
		}
		return file.Close()
	})
}

func (f *fence) opened(path string, of class, through func(do func() error) error, open func() (vfs.File, error)) (kept vfs.File, err error) {
	err = through(func() error {
		file, err := open()
		kept, err = f.keep(path, of, file, err)
		return err
	})
	return kept, err
}

// created is opened for what makes a file to write to.
func (f *fence) created(path string, create func() (vfs.File, error)) (vfs.File, error) {
	of := classOf(path)
	return f.opened(path, of, func(do func() error) error { return f.write(of, do) }, create)
}

// These implement vfs.FS.

func (f *fence) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.created(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *fence) Link(from, to string) error {
	return f.write(classOf(to), func() error { return f.FS.Link(from, to) })
}

func (f *fence) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.opened(name, classOf(name), f.read, func() (vfs.File, error) { return f.FS.Open(name, opts...) })
}

func (f *fence) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.created(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *fence) OpenDir(name string) (vfs.File, error) {
	return f.opened(name, vital, f.read, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

func (f *fence) Remove(name string) error {
	return f.tryWrite(func() error { return f.FS.Remove(name) })
}

func (f *fence) RemoveAll(name string) error {
	return f.tryWrite(func() error { return f.FS.RemoveAll(name) })
}

func (f *fence) Rename(from, to string) error {
	return f.write(classOf(to), func() error { return f.FS.Rename(from, to) })
}

func (f *fence) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.created(to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, category) })
}

func (f *fence) MkdirAll(dir string, perm os.FileMode) error {
	return f.tryWrite(func() error { return f.FS.MkdirAll(dir, perm) })
}

// Lock does nothing in a directory that nobody can write to.
func (f *fence) Lock(name string) (lock io.Closer, err error) {
	if f.idle {
		return io.NopCloser(nil), nil
	}
	err = f.tryWrite(func() (err error) {
		lock, err = f.FS.Lock(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.filesMu.Lock()
	defer f.filesMu.Unlock()
	held := &fencedLock{lock, f}
	f.open[lock] = name
	return held, nil
}

func (f *fence) List(dir string) (names []string, err error) {
	err = f.read(func() (err error) {
		names, err = f.FS.List(dir)
		return err
	})
	return names, err
}

func (f *fence) Stat(name string) (info vfs.FileInfo, err error) {
	err = f.read(func() (err error) {
		info, err = f.FS.Stat(name)
		return err
	})
	return info, err
}

func (f *fence) GetDiskUsage(path string) (usage vfs.DiskUsage, err error) {
	err = f.read(func() (err error) {
		usage, err = f.FS.GetDiskUsage(path)
		return err
	})
	return usage, err
}

func (f *fence) Unwrap() vfs.FS { return f.FS }

type fencedLock struct {
	lock  io.Closer
	fence *fence
}

func (l *fencedLock) Close() error { return l.fence.shut(l.lock) }

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

func (f *fenced) Close() error { return f.fence.shut(f.File) }

func (f *fenced) Read(p []byte) (n int, err error) {
	err = f.fence.read(func() (err error) {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (f *fenced) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fence.read(func() (err error) {
		n, err = f.File.ReadAt(p, off)
		return err
	})
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

func (f *fenced) Preallocate(offset, length int64) error {
	return f.fence.tryWrite(func() error { return f.File.Preallocate(offset, length) })
}

func (f *fenced) Stat() (info vfs.FileInfo, err error) {
	err = f.fence.read(func() (err error) {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

func (f *fenced) Sync() error { return f.fence.sync(f.class, f.File.Sync) }

func (f *fenced) SyncData() error {
	if f.unsynced.Swap(0) > aside {
		return f.fence.sync(f.class, f.File.SyncData)
	}
	return f.fence.sync(f.class, func() error { return datasync.Aside(f.File) })
}

func (f *fenced) SyncTo(length int64) (full bool, err error) {
	err = f.fence.sync(f.class, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

func (f *fenced) Prefetch(offset, length int64) error {
	return f.fence.read(func() error { return f.File.Prefetch(offset, length) })
}
