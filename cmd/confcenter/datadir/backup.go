package datadir

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/backup"
	"confcenter/kvstore/disk"
)

// partial is what the name of a backup ends with that is not complete.
const partial = ".partial"

// WriteBackup writes the backup that make makes to a file, which gets its name when it is complete.
func WriteBackup(name string, make func(io.Writer) (backup.Totals, error)) (backup.Totals, error) {
	if err := replaceable(name); err != nil {
		return backup.Totals{}, err
	}
	file, err := os.OpenFile(name+partial, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return backup.Totals{}, codes.Errorf(codes.Storage, "the backup cannot be written: %w", err)
	}
	to := &sink{to: file}
	totals, err := make(to)
	if to.err != nil {
		err = codes.Errorf(codes.Storage, "the backup cannot be written: %w", to.err)
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(name+partial, name)
	}
	if err == nil {
		err = syncDirectory(filepath.Dir(name))
	}
	switch {
	case err != nil && totals.Bytes == 0:
		return totals, errors.Join(err, os.Remove(name+partial))
	case err != nil:
		return totals, fmt.Errorf("%w; what there is of it is called %s", err, name+partial)
	}
	return totals, nil
}

// sink remembers why it could not be written to, which is not the fault of what is read.
type sink struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (s *sink) Write(b []byte) (n int, err error) {
	if n, err = s.to.Write(b); err != nil {
		s.err = err
	}
	return n, err
}

// replaceable refuses to write over anything that is no backup.
func replaceable(name string) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return codes.Errorf(codes.Storage, "%w", err)
	}
	defer file.Close()
	head := bufio.NewReader(file)
	if magic, _ := head.Peek(len(backup.Magic)); string(magic) != backup.Magic {
		what, _, _ := strings.Cut(cmp.Or(compression(head), "is no backup"), ":")
		return codes.Errorf(codes.AlreadyExists, "%s exists and %s: it is not replaced; remove it, or choose another name", name, what)
	}
	return nil
}

func syncDirectory(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func noHead(backup.Head) error { return nil }

// Copy makes a backup of a data directory that is not in use.
func Copy(ctx context.Context, data string, to io.Writer, version string) (totals backup.Totals, err error) {
	taken, err := Idle(data)
	if err != nil {
		return totals, err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	store, _, err := disk.OpenLog(disk.Config{Dir: State(data), ReadOnly: true}, kvstore.Loader{})
	if err != nil {
		return totals, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	from, err := store.Copy()
	if err != nil {
		return totals, err
	}
	defer from.Close()
	return backup.Write(io.MultiWriter(until{ctx}, to), from, version)
}

// until is written to as long as a context has not ended.
type until struct{ context.Context }

// Write implements io.Writer.
func (u until) Write(b []byte) (int, error) { return len(b), context.Cause(u) }

// Verdict is what is said of a backup or a data directory.
type Verdict struct {
	Name      string   `json:"name"`
	OK        bool     `json:"ok"`
	Revision  int64    `json:"revision"`
	Time      int64    `json:"time_ms,omitempty"` // of a backup
	Rows      int64    `json:"rows"`
	Documents int      `json:"documents"`
	Versions  int      `json:"versions"`
	SHA256    string   `json:"sha256,omitempty"` // likewise
	Faults    []string `json:"faults"`

	settled bool // all changes of documents are in place
}

// Verify checks a data directory that is not in use.
func Verify(dir string) (v Verdict, err error) {
	taken, err := Idle(dir)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	documents := log.NewChecker()
	found, err := disk.Verify(disk.Config{Dir: State(dir)}, noting(documents))
	if err != nil {
		return v, err
	}
	v = Verdict{Revision: int64(found.Revision), Rows: found.Rows, Faults: found.Faults}
	v.judge(documents)
	return v, nil
}

func noting(c *log.Checker) func(*kv.Entry) error {
	return func(e *kv.Entry) error {
		c.Entry(e)
		return nil
	}
}

// judge adds what is wrong with the documents.
func (v *Verdict) judge(c *log.Checker) {
	var faults []string
	faults, v.Documents, v.Versions = c.End()
	v.Faults, v.settled = append(v.Faults, faults...), c.Settled()
}

// VerifyBackup checks a backup, of standard input if its name is -. Its own blocks have been written with what they say, so what is
// wrong with them is an error, and what they say may still have faults.
func VerifyBackup(ctx context.Context, name string, stdin io.Reader, told io.Writer) (v Verdict, err error) {
	from, called := stdin, "standard input"
	if name != "-" {
		called = name
		file, err := openBackup(name)
		if err != nil {
			return v, err
		}
		defer file.Close()
		from = file
	}
	head := bufio.NewReader(from)
	from = head
	if how := compression(head); how != "" {
		return v, codes.Errorf(codes.Storage, "%s %s", called, how)
	}
	documents := log.NewChecker()
	rows := disk.Inspector{Entry: noting(documents)}
	totals, err := backup.Read(io.TeeReader(from, io.MultiWriter(until{ctx}, told)), noHead, rows.Row)
	if err == nil {
		err = rows.End()
	}
	if err == nil && rows.Revision() != totals.Head.Revision {
		err = fmt.Errorf("it ends at revision %d, and says it is of %d", rows.Revision(), totals.Head.Revision)
	}
	if err != nil && codes.Of(err) == codes.Internal && ctx.Err() == nil {
		err = codes.Errorf(codes.Storage, "the backup is damaged: %w; use another backup", err)
	}
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	v = Verdict{Revision: int64(totals.Head.Revision), Time: totals.Head.Time, Rows: totals.Rows, SHA256: totals.SHA256, Faults: []string{}}
	v.judge(documents)
	return v, nil
}

// compressions are how files begin that are compressed, and what makes them what they were.
var compressions = [...]struct{ begins, name, undo string }{
	{"\x1f\x8b", "gzip", "gzip -d"}, {"\x28\xb5\x2f\xfd", "zstd", "zstd -d"}, {"\x50\x2a\x4d\x18", "zstd", "zstd -d"}, {"\xfd7zXZ\x00", "xz", "xz -d"},
	{"BZh", "bzip2", "bzip2 -d"}, {"\x04\x22\x4d\x18", "lz4", "lz4 -d"}, {"LZIP", "lzip", "lzip -d"}, {"\x89LZO", "lzop", "lzop -d"},
	{"\x5d\x00\x00", "lzma", "xz -d"}, {"\x1f\x9d", "compress", "gzip -d"}, {"PK\x03\x04", "zip", "unzip"}, {"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"},
}

// compression says that what a reader is at is compressed, and what to do; "": it is not.
func compression(from *bufio.Reader) string {
	begin, _ := from.Peek(len(backup.Magic)) // of what is shorter, all
	for _, c := range compressions {
		if strings.HasPrefix(string(begin), c.begins) {
			return fmt.Sprintf("is compressed with %s: decompress it first, for example with %s", c.name, c.undo)
		}
	}
	return ""
}

// openBackup opens a file that may be a backup.
func openBackup(name string) (*os.File, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, codes.Errorf(codes.NotFound, "%w", err)
	}
	if err != nil {
		return nil, codes.Errorf(codes.Storage, "%w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = codes.Errorf(codes.BadRequest, "%s is no file", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
