package atomicfiletest

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"confcenter/internal/atomicfile"
)

// Op is one operation that changes something on the disk or makes it durable.
type Op struct {
	// Kind is create, write, truncate, chmod, chtimes, fsync, rename, remove,
	// mkdir or lock.
	Kind string
	// Name is the path with the root's last element in front, for example
	// "conf/app1.json". Temporary files all read ".tmp", the directory of a
	// SyncDir ends in "/".
	Name string
}

// String is "rename conf/.tmp".
func (o Op) String() string { return o.Kind + " " + o.Name }

// Trace passes everything on to FS, records what changes the disk and lets a
// test make operations fail. For tests.
type Trace struct {
	FS atomicfile.FS // the real one; set before use
	// Hook is called before each operation, nil = never. An error is the
	// operation's result and the operation is not done, except that half of a
	// write is: disks fill up in the middle. Set before use; Rehook replaces it later.
	Hook func(Op) error

	mu  sync.Mutex // guards ops, and Hook in use
	ops []Op
}

// Rehook replaces Hook while others use the trace, and returns the one before.
func (t *Trace) Rehook(hook func(Op) error) (before func(Op) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, t.Hook = t.Hook, hook
	return before
}

// Ops is what has been asked for so far, failed operations included.
func (t *Trace) Ops() []Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Op(nil), t.ops...)
}

// Reset forgets what was recorded.
func (t *Trace) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ops = nil
}

func (t *Trace) note(kind, name string) error {
	op := Op{Kind: kind, Name: name}
	t.mu.Lock()
	t.ops = append(t.ops, op)
	hook := t.Hook
	t.mu.Unlock()
	if hook == nil {
		return nil
	}
	if err := hook(op); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// do is then, unless the hook has it fail.
func (t *Trace) do(kind, name string, then func() error) error {
	if err := t.note(kind, name); err != nil {
		return err
	}
	return then()
}

// OpenRoot is FS.OpenRoot.
func (t *Trace) OpenRoot(dir string) (atomicfile.Root, error) {
	r, err := t.FS.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &traceRoot{Root: r, trace: t, label: path.Base(dir)}, nil
}

type traceRoot struct {
	atomicfile.Root
	trace *Trace
	label string
}

func (r *traceRoot) name(name string) string {
	if atomicfile.IsTemp(name) {
		name = path.Join(path.Dir(name), path.Ext(name))
	}
	return path.Join(r.label, name)
}

func (r *traceRoot) OpenFile(name string, flag int, perm fs.FileMode) (atomicfile.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := r.trace.note("create", r.name(name)); err != nil {
			return nil, err
		}
	}
	f, err := r.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &traceFile{File: f, trace: r.trace, name: r.name(name)}, nil
}

func (r *traceRoot) Mkdir(name string, perm fs.FileMode) error {
	return r.trace.do("mkdir", r.name(name), func() error { return r.Root.Mkdir(name, perm) })
}

func (r *traceRoot) Rename(oldname, newname string) error {
	return r.trace.do("rename", r.name(newname), func() error { return r.Root.Rename(oldname, newname) })
}

func (r *traceRoot) Remove(name string) error {
	return r.trace.do("remove", r.name(name), func() error { return r.Root.Remove(name) })
}

func (r *traceRoot) Chtimes(name string, mtime time.Time) error {
	return r.trace.do("chtimes", r.name(name), func() error { return r.Root.Chtimes(name, mtime) })
}

func (r *traceRoot) SyncDir(name string) error {
	return r.trace.do("fsync", r.name(name)+"/", func() error { return r.Root.SyncDir(name) })
}

func (r *traceRoot) Lock(name string) (io.Closer, error) {
	if err := r.trace.note("lock", r.name(name)); err != nil {
		return nil, err
	}
	return r.Root.Lock(name)
}

type traceFile struct {
	atomicfile.File
	trace *Trace
	name  string
}

func (f *traceFile) Write(p []byte) (int, error) {
	if err := f.trace.note("write", f.name); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *traceFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.trace.note("write", f.name); err != nil {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *traceFile) Truncate(size int64) error {
	return f.trace.do("truncate", f.name, func() error { return f.File.Truncate(size) })
}

func (f *traceFile) Chmod(perm fs.FileMode) error {
	return f.trace.do("chmod", f.name, func() error { return f.File.Chmod(perm) })
}

func (f *traceFile) Sync() error {
	return f.trace.do("fsync", f.name, func() error { return f.File.Sync() })
}
