package confstore

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"confcenter/access/seal"
	"confcenter/confstore/doclog"
	"confcenter/internal/atomicfile"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// signature shows with one stat whether a file may have changed. No file has the zero
// value.
type signature struct {
	size, mtime, ctime int64
	ino, dev           uint64
}

func signatureOf(info fs.FileInfo) signature {
	stat, _ := atomicfile.StatOf(info) // where there is none, size and time must do
	return signature{size: info.Size(), mtime: info.ModTime().UnixNano(), ctime: stat.Changed, ino: stat.Inode, dev: stat.Device}
}

// tick is longer than the resolution of file times. A file changed less than that ago may
// change again and look the same.
const tick = 50 * time.Millisecond

func (s signature) settled(now time.Time) bool {
	return max(s.mtime, s.ctime) < now.Add(-tick).UnixNano()
}

// reading is a file as it is on the disk.
//
// wide: all that is found in one look, of which each later step needs some.
type reading struct {
	name    string
	missing bool
	isDir   bool   // a directory that has a document's name
	fault   string // why it cannot be served, or ""
	twice   string // that a member stands twice in it though it is served, or ""
	noRoom  bool   // because there is no memory for it, and it was not read
	room    int64  // reserved for it; see intake.done
	sig     signature
	raw     doclog.Digest // zero if the bytes could not be read
	data    []byte        // the bytes, if they were to be kept
	text    []byte        // compact, if there is no fault
	layout  jsontext.Layout
	mtime   int32
	changed time.Time   // contents, name or attributes; zero if missing
	ahead   bool        // the file's time is too far ahead; mtime is the present
	info    fs.FileInfo // nil: it could not be looked at
}

func unreadable(root atomicfile.Root, name string, err error) string {
	if info, statErr := root.Lstat(name); statErr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "is a symlink that cannot be followed inside the configuration directory; make it relative and keep it inside: " + cause(err)
	}
	return "cannot be read: " + cause(err)
}

// cause returns the innermost text of an error, without paths, which peers must not see.
func cause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// check takes ownership of data and may change it. What is in service stays so though a member stands
// twice in it, as it could before that was refused.
func (r *reading) check(data []byte, serves bool) {
	kind, err := jsontext.CheckUTF8(data)
	if err != nil {
		r.fault = "is not valid JSON: " + faultAt(data, err)
		return
	}
	if r.name == meta.FileName && kind != jsontext.Object {
		r.fault = "must hold a JSON object"
		return
	}
	if seal.Asks(data) {
		r.fault = sealFault
		return
	}
	if err := jsontext.Twice(data); err != nil {
		if !serves {
			r.fault = "is not valid JSON: " + faultAt(data, err)
			return
		}
		r.twice = "is served, but programs do not agree on what it says; mend it: " + faultAt(data, err)
	}
	r.layout = jsontext.LayoutOf(data, ownLayout)
	r.text = fitted(jsontext.AppendCompact(data[:0], data))
}

func faultAt(text []byte, err error) string {
	if syntax, ok := errors.AsType[*jsontext.SyntaxError](err); ok {
		line, col := syntax.Position(text)
		return fmt.Sprintf("line %d column %d: %s", line, col, syntax.Reason)
	}
	return err.Error()
}
