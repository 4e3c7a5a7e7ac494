package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory for tests. It keeps for each file and each
// directory what a disk would: the state now, and the state that was last
// fsynced and survives a power cut. It has no symlinks. Its zero value is not
// ready; use NewMem.
type Mem struct {
	now func() time.Time // set at open

	mu      sync.Mutex // guards everything below, all nodes included
	root    *memNode
	lastIno uint64
	locks   map[*memNode]bool
}

// memNode is a file or a directory.
type memNode struct {
	ino      uint64
	perm     fs.FileMode
	modified time.Time
	changed  time.Time

	data, synced []byte // of a file

	children, syncedChildren map[string]*memNode // of a directory, else nil
}

// NewMem makes an empty file system. now is asked for the times of files; nil
// means time.Now.
func NewMem(now func() time.Time) *Mem {
	if now == nil {
		now = time.Now
	}
	m := &Mem{now: now, locks: make(map[*memNode]bool)}
	m.root = m.newNode(0o755, true)
	return m
}

func (m *Mem) newNode(perm fs.FileMode, dir bool) *memNode {
	m.lastIno++
	t := m.now()
	n := &memNode{ino: m.lastIno, perm: perm.Perm(), modified: t, changed: t}
	if dir {
		n.children, n.syncedChildren = map[string]*memNode{}, map[string]*memNode{}
	}
	return n
}

// split cuts an absolute or relative name into its elements.
func split(name string) []string {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

func (n *memNode) find(elements []string) (*memNode, error) {
	for _, e := range elements {
		if n.children == nil {
			return nil, syscall.ENOTDIR
		}
		child, ok := n.children[e]
		if !ok {
			return nil, fs.ErrNotExist
		}
		n = child
	}
	return n, nil
}

// parentOf finds the directory in which name's last element is.
func (n *memNode) parentOf(name string) (dir *memNode, last string, err error) {
	elements := split(name)
	if len(elements) == 0 {
		return nil, "", fs.ErrInvalid
	}
	dir, err = n.find(elements[:len(elements)-1])
	if err == nil && dir.children == nil {
		err = syscall.ENOTDIR
	}
	return dir, elements[len(elements)-1], err
}

// MakeDir makes an absolute directory with its parents, durably.
func (m *Mem) MakeDir(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, e := range split(dir) {
		child, ok := n.children[e]
		if !ok {
			child = m.newNode(0o755, true)
			n.children[e], n.syncedChildren[e] = child, child
		}
		n = child
	}
}

// Put writes an absolute file as a person would, with mtime as its time, and
// makes it durable. The directory must exist.
func (m *Mem) Put(name string, data []byte, mtime time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, last, err := m.root.parentOf(name)
	if err != nil {
		return &fs.PathError{Op: "put", Path: name, Err: err}
	}
	n := m.newNode(0o644, false)
	n.data, n.synced, n.modified = slices.Clone(data), slices.Clone(data), mtime
	dir.children[last], dir.syncedChildren[last] = n, n
	return nil
}

// Get reads an absolute file.
func (m *Mem) Get(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.root.find(split(name))
	if err != nil {
		return nil, &fs.PathError{Op: "get", Path: name, Err: err}
	}
	return slices.Clone(n.data), nil
}

// Drop removes an absolute file or a directory with all that is in it, durably.
func (m *Mem) Drop(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, last, err := m.root.parentOf(name)
	if err != nil {
		return &fs.PathError{Op: "drop", Path: name, Err: err}
	}
	delete(dir.children, last)
	delete(dir.syncedChildren, last)
	return nil
}

// OpenRoot is FS.OpenRoot for an absolute directory.
func (m *Mem) OpenRoot(dir string) (Root, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.root.find(split(dir))
	if err == nil && n.children == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return &memRoot{fs: m, dir: n}, nil
}

type memRoot struct {
	fs  *Mem
	dir *memNode
}

func (r *memRoot) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	n, err := r.openLocked(name, flag, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &memFile{fs: r.fs, node: n, name: path.Base(name), appends: flag&os.O_APPEND != 0}, nil
}

func (r *memRoot) openLocked(name string, flag int, perm fs.FileMode) (*memNode, error) {
	dir, last, err := r.dir.parentOf(name)
	if err != nil {
		return nil, err
	}
	n, ok := dir.children[last]
	switch {
	case ok && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case !ok && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case !ok:
		n = r.fs.newNode(perm, false)
		dir.children[last] = n
	case flag&(os.O_WRONLY|os.O_RDWR) != 0 && n.children != nil:
		return nil, syscall.EISDIR
	}
	if flag&os.O_TRUNC != 0 {
		n.data = nil
	}
	return n, nil
}

func (r *memRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	n, err := r.dir.find(split(name))
	if err == nil && n.children == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	var list []fs.DirEntry
	for _, e := range slices.Sorted(maps.Keys(n.children)) {
		list = append(list, fs.FileInfoToDirEntry(n.children[e].info(e)))
	}
	return list, nil
}

func (r *memRoot) Stat(name string) (fs.FileInfo, error) {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	n, err := r.dir.find(split(name))
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return n.info(path.Base(name)), nil
}

func (r *memRoot) Lstat(name string) (fs.FileInfo, error) { return r.Stat(name) }

func (r *memRoot) Mkdir(name string, perm fs.FileMode) error {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	dir, last, err := r.dir.parentOf(name)
	if err == nil && dir.children[last] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	dir.children[last] = r.fs.newNode(perm, true)
	return nil
}

func (r *memRoot) Rename(oldname, newname string) error {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	from, oldLast, err := r.dir.parentOf(oldname)
	if err != nil {
		return &fs.PathError{Op: "rename", Path: oldname, Err: err}
	}
	to, newLast, err := r.dir.parentOf(newname)
	if err != nil {
		return &fs.PathError{Op: "rename", Path: newname, Err: err}
	}
	n, ok := from.children[oldLast]
	if !ok {
		return &fs.PathError{Op: "rename", Path: oldname, Err: fs.ErrNotExist}
	}
	if old := to.children[newLast]; old != nil && old.children != nil {
		return &fs.PathError{Op: "rename", Path: newname, Err: syscall.EISDIR}
	}
	delete(from.children, oldLast)
	to.children[newLast] = n
	n.changed = r.fs.now()
	return nil
}

func (r *memRoot) Remove(name string) error {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	dir, last, err := r.dir.parentOf(name)
	if err == nil && dir.children[last] == nil {
		err = fs.ErrNotExist
	}
	if err == nil && len(dir.children[last].children) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	delete(dir.children, last)
	return nil
}

func (r *memRoot) Chtimes(name string, mtime time.Time) error {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	n, err := r.dir.find(split(name))
	if err != nil {
		return &fs.PathError{Op: "chtimes", Path: name, Err: err}
	}
	n.modified, n.changed = mtime, r.fs.now()
	return nil
}

func (r *memRoot) SyncDir(name string) error {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	n, err := r.dir.find(split(name))
	if err != nil {
		return &fs.PathError{Op: "fsync", Path: name, Err: err}
	}
	n.syncedChildren = maps.Clone(n.children)
	return nil
}

func (r *memRoot) Lock(name string) (io.Closer, error) {
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	n, err := r.openLocked(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil && r.fs.locks[n] {
		err = ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	r.fs.locks[n] = true
	return &memLock{fs: r.fs, node: n}, nil
}

func (r *memRoot) Close() error { return nil }

type memLock struct {
	fs   *Mem
	node *memNode
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if !l.fs.locks[l.node] {
		return errors.New("not locked")
	}
	delete(l.fs.locks, l.node)
	return nil
}
