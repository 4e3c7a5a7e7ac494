// Package atomicfiletest has file systems for tests of code that uses an atomicfile.FS: [Mem] is one in
// memory that knows which bytes have reached the disk and can "lose power"; [Trace] records the order of
// operations of another and makes chosen ones fail.
package atomicfiletest

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

	"confcenter/internal/atomicfile"
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
	return m.do("put", name, func() error {
		dir, last, err := m.root.parentOf(name)
		if err != nil {
			return err
		}
		n := m.newNode(0o644, false)
		n.data, n.synced, n.modified = slices.Clone(data), slices.Clone(data), mtime
		dir.children[last], dir.syncedChildren[last] = n, n
		return nil
	})
}

// Get reads an absolute file.
func (m *Mem) Get(name string) (data []byte, err error) {
	err = m.at(m.root, "get", name, func(n *memNode) error {
		data = slices.Clone(n.data)
		return nil
	})
	return data, err
}

// Drop removes an absolute file or a directory with all that is in it, durably.
func (m *Mem) Drop(name string) error {
	return m.do("drop", name, func() error {
		dir, last, err := m.root.parentOf(name)
		if err != nil {
			return err
		}
		delete(dir.children, last)
		delete(dir.syncedChildren, last)
		return nil
	})
}

// OpenRoot is FS.OpenRoot for an absolute directory.
func (m *Mem) OpenRoot(dir string) (root atomicfile.Root, err error) {
	err = m.at(m.root, "open", dir, func(n *memNode) error {
		if n.children == nil {
			return syscall.ENOTDIR
		}
		root = &memRoot{Mem: m, dir: n}
		return nil
	})
	return root, err
}

type memRoot struct {
	*Mem
	dir *memNode
}

// do is fn with the file system to itself; its error tells what was done to which name.
func (m *Mem) do(op, name string, fn func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := fn(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// in is do for what concerns an entry of a directory below dir.
func (m *Mem) in(dir *memNode, op, name string, fn func(entries map[string]*memNode, last string) error) error {
	return m.do(op, name, func() error {
		parent, last, err := dir.parentOf(name)
		if err != nil {
			return err
		}
		return fn(parent.children, last)
	})
}

// at is do for a file or directory below dir.
func (m *Mem) at(dir *memNode, op, name string, fn func(*memNode) error) error {
	return m.do(op, name, func() error {
		n, err := dir.find(split(name))
		if err != nil {
			return err
		}
		return fn(n)
	})
}

func (r *memRoot) OpenFile(name string, flag int, perm fs.FileMode) (f atomicfile.File, err error) {
	err = r.in(r.dir, "open", name, func(entries map[string]*memNode, last string) error {
		n, err := r.open(entries, last, flag, perm)
		f = &memFile{fs: r.Mem, node: n, name: last, appends: flag&os.O_APPEND != 0}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r *memRoot) open(entries map[string]*memNode, last string, flag int, perm fs.FileMode) (*memNode, error) {
	n, ok := entries[last]
	switch {
	case ok && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case !ok && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case !ok:
		n = r.newNode(perm, false)
		entries[last] = n
	case flag&(os.O_WRONLY|os.O_RDWR) != 0 && n.children != nil:
		return nil, syscall.EISDIR
	}
	if flag&os.O_TRUNC != 0 {
		n.data = nil
	}
	return n, nil
}

func (r *memRoot) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = r.at(r.dir, "readdir", name, func(n *memNode) error {
		if n.children == nil {
			return syscall.ENOTDIR
		}
		for e, child := range n.children {
			list = append(list, fs.FileInfoToDirEntry(child.info(e)))
		}
		return nil
	})
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

func (r *memRoot) Stat(name string) (info fs.FileInfo, err error) {
	err = r.at(r.dir, "stat", name, func(n *memNode) error {
		info = n.info(path.Base(name))
		return nil
	})
	return info, err
}

func (r *memRoot) Lstat(name string) (fs.FileInfo, error) { return r.Stat(name) }

func (r *memRoot) Readlink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL} // there are none
}

func (r *memRoot) Mkdir(name string, perm fs.FileMode) error {
	return r.in(r.dir, "mkdir", name, func(entries map[string]*memNode, last string) error {
		if entries[last] != nil {
			return fs.ErrExist
		}
		entries[last] = r.newNode(perm, true)
		return nil
	})
}

func (r *memRoot) Rename(oldname, newname string) error {
	return r.in(r.dir, "rename", oldname, func(from map[string]*memNode, oldLast string) error {
		to, newLast, err := r.dir.parentOf(newname)
		n := from[oldLast]
		switch {
		case err != nil:
			return err
		case n == nil:
			return fs.ErrNotExist
		case to.children[newLast] != nil && to.children[newLast].children != nil:
			return syscall.EISDIR
		}
		delete(from, oldLast)
		to.children[newLast] = n
		n.changed = r.now()
		return nil
	})
}

func (r *memRoot) Remove(name string) error {
	return r.in(r.dir, "remove", name, func(entries map[string]*memNode, last string) error {
		switch n := entries[last]; {
		case n == nil:
			return fs.ErrNotExist
		case len(n.children) > 0:
			return syscall.ENOTEMPTY
		}
		delete(entries, last)
		return nil
	})
}

func (r *memRoot) Chtimes(name string, mtime time.Time) error {
	return r.at(r.dir, "chtimes", name, func(n *memNode) error {
		n.modified, n.changed = mtime, r.now()
		return nil
	})
}

func (r *memRoot) SyncDir(name string) error {
	return r.at(r.dir, "fsync", name, func(n *memNode) error {
		n.syncedChildren = maps.Clone(n.children)
		return nil
	})
}

func (r *memRoot) Lock(name string) (unlock io.Closer, err error) {
	take := func(n *memNode) error {
		if r.locks[n] {
			return atomicfile.ErrLocked
		}
		r.locks[n], unlock = true, &memLock{fs: r.Mem, node: n}
		return nil
	}
	if name == "." {
		err = r.at(r.dir, "lock", name, take)
		return unlock, err
	}
	err = r.in(r.dir, "lock", name, func(entries map[string]*memNode, last string) error {
		n, err := r.open(entries, last, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = take(n)
		}
		return err
	})
	return unlock, err
}

func (r *memRoot) Close() error { return nil }

type memLock struct {
	fs   *Mem
	node *memNode
}

func (l *memLock) Close() error {
	return l.fs.do("unlock", "", func() error {
		if !l.fs.locks[l.node] {
			return errors.New("not locked")
		}
		delete(l.fs.locks, l.node)
		return nil
	})
}
