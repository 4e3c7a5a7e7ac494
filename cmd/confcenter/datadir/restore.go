package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/log"
	"confcenter/internal/atomicfile"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/backup"
	"confcenter/kvstore/disk"
	"confcenter/player"
)

// Restored is what is said of a restore.
type Restored struct {
	Dir       string `json:"dir"`
	Revision  int64  `json:"revision"`
	Next      int64  `json:"next_revision"`
	Documents int    `json:"documents"` // of the backup

	Tokens []token.Token `json:"tokens"` // that are valid in it
}

// Restore makes a data directory of a backup file, of which v was found, as of the point to; told is told of
// what is read.
func Restore(ctx context.Context, name, dir string, v Verdict, to disk.Point, told io.Writer) (done Restored, err error) {
	if len(v.Faults) > 0 {
		return done, codes.Errorf(codes.Storage, "%s is damaged: %s; use another backup", name, strings.Join(v.Faults, "; "))
	}
	if to.Time > v.Time {
		return done, codes.Errorf(codes.FutureRevision, "%s is later than the backup, which was begun at %s and does not know what came after", timeOf(to.Time), timeOf(v.Time))
	}
	to.Ended, to.Drop = token.Revocable, []disk.Keys{{NS: kv.AccessNamespace, Prefix: token.SessionPrefix}}
	to.Stays = func(ns, key string) bool { // the audit tells of what is undone, too
		return kv.OfAudit(ns) || player.Stays(ns, key) || v.settled && log.Stays(ns, key)
	}
	t, err := newTarget(dir)
	if err != nil {
		return done, err
	}
	r, err := t.fill(ctx, name, v, to, told)
	if err != nil {
		return done, fmt.Errorf("%w; nothing of it is left in %s", err, dir)
	}
	tokens, err := tokensIn(dir)
	if err != nil {
		return done, err
	}
	return Restored{Dir: dir, Revision: int64(r.Revision), Next: int64(r.Next) + 1, Documents: v.Documents, Tokens: tokens}, nil
}

// tokensIn lists the tokens that are valid in a data directory which no one serves.
func tokensIn(dir string) (tokens []token.Token, err error) {
	tokens = []token.Token{}
	now := time.Now()
	d, _, err := disk.OpenLog(disk.Config{Dir: State(dir), ReadOnly: true}, kvstore.Loader{Entry: func(e *kv.Entry) {
		if t, valid := token.TokenOf(e, now); valid {
			tokens = append(tokens, t)
		}
	}})
	if err != nil {
		return nil, err
	}
	return tokens, d.Close()
}

// target is a directory that a backup is restored to.
type target struct {
	dir  string
	made bool // it did not exist
	lock io.Closer
	root atomicfile.Root
}

// newTarget takes a directory that is empty, or makes it.
func newTarget(dir string) (*target, error) {
	t := &target{dir: dir}
	err := restorable(dir, true)
	if t.made = errors.Is(err, fs.ErrNotExist); err != nil && !t.made {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, codes.Errorf(codes.Storage, "%w", err)
	}
	if t.root, err = atomicfile.OS().OpenRoot(dir); err == nil {
		t.lock, err = lockData(t.root)
	}
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, errors.Join(codes.Errorf(codes.Busy, "%s is in use: another restore to it, or a server, is running", dir), t.root.Close())
	}
	if err == nil {
		if err := restorable(dir, false); err != nil { // another restore was quicker
			return nil, errors.Join(err, t.lock.Close(), t.root.Close())
		}
		// Before anything else: whatever happens, no one takes what there is for a data directory.
		err = atomicfile.Write(t.root, restoreMark, []byte("A restore has begun and has not finished. Remove what is in this directory, and restore again.\n"), atomicfile.Attr{Perm: 0o600})
	}
	if err != nil {
		return nil, errors.Join(codes.Errorf(codes.Storage, "%s cannot be restored to: %w", dir, err), t.clear())
	}
	return t, nil
}

// restorable returns why a directory cannot be restored to. Before its lock is taken a restore that has
// not finished may still be running.
func restorable(dir string, running bool) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return codes.Errorf(codes.Storage, "%w", err)
	}
	if slices.ContainsFunc(list, func(entry fs.DirEntry) bool { return entry.Name() == restoreMark }) {
		if running {
			return nil
		}
		return errUnfinished(dir)
	}
	for _, entry := range list {
		if name := entry.Name(); name != lockName && name != "lost+found" { // which a file system has of its own
			return codes.Errorf(codes.AlreadyExists, "%s is not empty: there is %s; restore to an empty directory, or one that does not exist", dir, name)
		}
	}
	return nil
}

// fill restores a backup. After an error there is nothing left of it.
func (t *target) fill(ctx context.Context, name string, v Verdict, to disk.Point, told io.Writer) (r disk.Restored, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, t.clear())
		} else {
			err = errors.Join(t.root.Close(), t.lock.Close())
		}
	}()
	rows := func(yield func(key, value []byte) error) error {
		file, err := openBackup(name)
		if err != nil {
			return err
		}
		defer file.Close()
		totals, err := backup.Read(io.TeeReader(file, io.MultiWriter(until{ctx}, told)), noHead, yield)
		if err == nil && totals.SHA256 != v.SHA256 {
			err = codes.Errorf(codes.Conflict, "%s has changed while it was read", name)
		}
		return err
	}
	if r, err = disk.Restore(disk.Config{Dir: State(t.dir)}, rows, v.Time, to); err != nil {
		return r, err
	}
	text := fmt.Appendf(nil, "This directory was restored from a backup, as of revision %d. The first server that serves it makes the configuration directory what the backup says, and removes this file.\n", r.Revision)
	if err = atomicfile.Write(t.root, confstore.RestoredMark, text, atomicfile.Attr{Perm: 0o600}); err != nil {
		return r, codes.Errorf(codes.Storage, "%w", err)
	}
	if err = Mark(t.dir); err != nil {
		return r, err
	}
	if err = t.root.Remove(restoreMark); err == nil {
		err = t.root.SyncDir(".")
	}
	if err == nil {
		err = syncDirectory(filepath.Dir(filepath.Clean(t.dir)))
	}
	return r, err
}

// clear removes all that was made, the mark at the end, and gives the directory up.
func (t *target) clear() error {
	var errs []error
	names := []string{restoreMark}
	if t.lock != nil { // else it belongs to someone else
		errs = append(errs, os.RemoveAll(State(t.dir)))
		names = []string{confstore.RestoredMark, stateMark, lockName, restoreMark}
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(t.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if t.root != nil {
		errs = append(errs, t.root.Close())
	}
	if t.lock != nil {
		errs = append(errs, t.lock.Close())
	}
	if t.made {
		errs = append(errs, os.Remove(t.dir))
	}
	return errors.Join(errs...)
}

func timeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
