package atomicfile

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

const (
	tempPrefix = ".confcenter-"
	tempSuffix = ".tmp"
)

// IsTemp reports whether the last element of name is that of a temporary file
// of this package. One that is found at start was left by a killed process and
// may be removed.
func IsTemp(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, tempPrefix) && strings.HasSuffix(base, tempSuffix)
}

// Attr is what a new file gets besides its contents.
type Attr struct {
	Perm    fs.FileMode // permission bits, past the umask; 0 = 0644 and the umask applies
	ModTime time.Time   // zero = the moment of writing
	// Unsynced: a loss of power may leave anything of it. The caller has it elsewhere.
	Unsynced bool
}

// Pending is a temporary file, complete and, unless it is Unsynced, durable, beside the file that it is
// going to replace. End it with Rename or Discard.
type Pending struct {
	root       Root
	temp, name string
}

// Prepare writes data to a temporary file in name's directory, sets its
// attributes and, unless they say otherwise, fsyncs it. After an error nothing is left behind.
func Prepare(root Root, name string, data []byte, attr Attr) (*Pending, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	p := &Pending{root: root, name: name}
	p.temp = path.Join(path.Dir(name), tempPrefix+hex.EncodeToString(random[:])+tempSuffix)
	if err := p.fill(data, attr); err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	return p, nil
}

func (p *Pending) fill(data []byte, attr Attr) error {
	perm := cmp.Or(attr.Perm, 0o644)
	f, err := p.root.OpenFile(p.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err := p.fillFile(f, data, attr); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func (p *Pending) fillFile(f File, data []byte, attr Attr) error {
	if attr.Perm != 0 {
		if err := f.Chmod(attr.Perm); err != nil {
			return err
		}
	}
	if attr.Unsynced {
		allocate(f, len(data))
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	// Before the fsync, which then makes the time durable too.
	if !attr.ModTime.IsZero() {
		if err := p.root.Chtimes(p.temp, attr.ModTime); err != nil {
			return err
		}
	}
	if attr.Unsynced {
		return nil
	}
	return f.Sync()
}

// Rename puts the file in its place; every reader sees the old one or the new
// one. It is durable after SyncDir of the directory, see Dir. After an error
// the temporary file is still there: Discard it.
func (p *Pending) Rename() error { return p.root.Rename(p.temp, p.name) }

// Dir is the directory to SyncDir after Rename.
func (p *Pending) Dir() string { return path.Dir(p.name) }

// Discard removes the temporary file; without one it does nothing.
func (p *Pending) Discard() error {
	err := p.root.Remove(p.temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Write replaces the file name below root by data, durably. After an error the
// file is the old one or, if only the last fsync failed, the new one; it is
// never a mixture.
func Write(root Root, name string, data []byte, attr Attr) error {
	p, err := Prepare(root, name, data, attr)
	if err != nil {
		return err
	}
	if err := p.Rename(); err != nil {
		return errors.Join(err, p.Discard())
	}
	return root.SyncDir(p.Dir())
}

// MkdirAll makes the directory dir below root with its parents and makes each
// new one durable. A file in the way is an error that wraps ErrNotDirectory.
func MkdirAll(root Root, dir string, perm fs.FileMode) error {
	if dir == "." || dir == "" {
		return nil
	}
	info, err := root.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: ErrNotDirectory}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := path.Dir(dir)
	if err := MkdirAll(root, parent, perm); err != nil {
		return err
	}
	if err := root.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return root.SyncDir(parent)
}

// ReadFile reads the regular file name below root. A file of more than limit
// bytes is an error that wraps ErrTooLarge, and nothing is allocated for it;
// anything but a regular file is an error that wraps ErrNotRegular. The info is
// taken before the first byte is read, so a concurrent write makes a later Stat
// differ from it, and no change goes unnoticed.
func ReadFile(root Root, name string, limit int64) ([]byte, fs.FileInfo, error) {
	return ReadFileIf(root, name, limit, func(fs.FileInfo) error { return nil })
}

// ReadFileIf is ReadFile for a file that is only read if room has no error for it, which
// is returned.
func ReadFileIf(root Root, name string, limit int64, room func(fs.FileInfo) error) ([]byte, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, &fs.PathError{Op: "read", Path: name, Err: ErrNotRegular}
	}
	if info.Size() > limit {
		return nil, info, fmt.Errorf("%s is %d bytes, the limit is %d: %w", name, info.Size(), limit, ErrTooLarge)
	}
	if err := room(info); err != nil {
		return nil, info, err
	}
	data, err := readAll(f, info.Size(), limit)
	if err != nil {
		return nil, info, fmt.Errorf("%s: %w", name, err)
	}
	return data, info, nil
}

// Errors of ReadFile and MkdirAll.
var (
	ErrTooLarge     = errors.New("file is too large")
	ErrNotRegular   = errors.New("not a regular file")
	ErrNotDirectory = errors.New("is a file, not a directory")
)

// readAll reads a file that may be growing: size is only what it was a moment ago.
func readAll(f File, size, limit int64) ([]byte, error) {
	buf := make([]byte, 0, size+1)
	for {
		n, err := f.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 || err != nil {
			return buf, ignoreEOF(err)
		}
		if int64(len(buf)) > limit {
			return nil, ErrTooLarge
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
