package audit

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"

	"confcenter/codes"
)

// File is a Sink of lines at the end of a file, which only its owner may read. When the file was
// moved away, another one is begun.
type File struct {
	path string // set at open
	file *os.File
}

// NewFile returns the sink of a file; nothing is opened yet.
func NewFile(path string) *File { return &File{path: path} }

// Name implements Sink.
func (f *File) Name() string { return "file" }

// String implements fmt.Stringer.
func (f *File) String() string { return f.path }

// Last implements Sink. Half a line at the end, from a crash, is taken away.
func (f *File) Last() (last Head, err error) {
	if err := f.open(); err != nil {
		return last, err
	}
	size, err := f.file.Seek(0, io.SeekEnd)
	if err != nil {
		return last, err
	}
	tail := make([]byte, min(size, 2*MostLine))
	if _, err := f.file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return last, err
	}
	end := bytes.LastIndexByte(tail, '\n') + 1
	if torn := len(tail) - end; torn > 0 {
		if end == 0 && size > int64(len(tail)) {
			return last, codes.Errorf(codes.Storage, "%s has no lines of the audit at its end; move it away", f.path)
		}
		if err := f.file.Truncate(size - int64(torn)); err != nil {
			return last, err
		}
	}
	if end == 0 {
		return last, nil
	}
	text := tail[:end-1]
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	l, err := ParseLine(text)
	if err != nil {
		return last, codes.Errorf(codes.Storage, "%s: its last line is none of the audit; move it away: %w", f.path, err)
	}
	return Head{Seq: l.Seq, Hash: sha256.Sum256(text)}, nil
}

func (f *File) open() (err error) {
	if f.file != nil && f.there() {
		return nil
	}
	if err := f.Close(); err != nil {
		return err
	}
	if f.file, err = os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		return err
	}
	info, err := f.file.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 { // it was not made here
		err = f.file.Chmod(0o600)
	}
	if err != nil {
		_ = f.Close()
	}
	return err
}

// Write implements Sink.
func (f *File) Write(b Block) error {
	if err := f.open(); err != nil {
		return err
	}
	size, err := f.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.file.Write(b.Lines); err != nil {
		_ = f.file.Truncate(size) // no half of it, and none of it twice
		return err
	}
	return nil
}

// there reports whether the file is still at its path.
func (f *File) there() bool {
	open, err := f.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(f.path)
	return err == nil && os.SameFile(open, now)
}

// Settle implements Sink.
func (f *File) Settle() error {
	if f.file == nil {
		return nil
	}
	return f.file.Sync()
}

// Close implements Sink.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
