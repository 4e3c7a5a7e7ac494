package atomicfiletest

import (
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing/fstest"

	"confcenter/internal/atomicfile"
)

// memFile is an open file of a Mem; offset belongs to its one user.
type memFile struct {
	fs      *Mem
	node    *memNode
	name    string
	appends bool
	offset  int64
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.offset)
	f.offset += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.node.children != nil {
		return 0, syscall.EISDIR
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	if f.appends {
		f.fs.mu.Lock()
		f.offset = int64(len(f.node.data))
		f.fs.mu.Unlock()
	}
	n, err := f.WriteAt(p, f.offset)
	f.offset += int64(n)
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.resize(max(off+int64(len(p)), int64(len(f.node.data))))
	copy(f.node.data[off:], p)
	f.touchLocked()
	return len(p), nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.resize(size)
	f.touchLocked()
	return nil
}

func (f *memFile) touchLocked() {
	t := f.fs.now()
	f.node.modified, f.node.changed = t, t
}

func (n *memNode) resize(size int64) {
	if size <= int64(len(n.data)) {
		n.data = n.data[:size:size]
		return
	}
	n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
}

func (f *memFile) Chmod(perm fs.FileMode) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.perm = perm.Perm()
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.synced = slices.Clone(f.node.data)
	return nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.info(f.name), nil
}

func (f *memFile) Close() error { return nil }

// info is a copy, so that it does not change under its reader.
func (n *memNode) info(name string) fs.FileInfo {
	stat := &atomicfile.Stat{Device: 1, Inode: n.ino, Changed: n.changed.UnixNano()}
	mode := n.perm
	if n.children != nil {
		mode |= fs.ModeDir
	}
	// A file system of the one file makes what has all methods of a FileInfo.
	info, err := fstest.MapFS{name: {Data: n.data, Mode: mode, ModTime: n.modified, Sys: stat}}.Stat(name)
	if err != nil {
		panic(err)
	}
	return info
}
