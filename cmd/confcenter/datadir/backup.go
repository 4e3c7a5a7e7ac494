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
	"confcenter/kvstore/backup"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/kvstore/replica"
)

// Partial is what the name of a backup ends with that is not complete.
const Partial = ".Partial"

// WriteBackup writes the backup that make makes to a file, which gets its name when it is complete.
func WriteBackup(name string, make func(io.Writer) (backup.Totals, error)) (backup.Totals, error) {
	if err := replaceable(name); err != nil {
		return backup.Totals{}, err
	}
	file, err := os.OpenFile(name+Partial, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
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
		err = os.Rename(name+Partial, name)
	}
	if err == nil {
		err = syncDirectory(filepath.Dir(name))
	}
	switch {
	case err != nil && totals.Bytes == 0:
		return totals, errors.Join(err, os.Remove(name+Partial))
	case err != nil:
		return totals, fmt.Errorf("%w; what there is of it is called %s", err, name+Partial)
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
	store, _, err := disk.OpenLog(disk.Config{Dir: State(data), ReadOnly: true}, replica.Loader{})
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
