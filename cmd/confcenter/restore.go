package main

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

	"github.com/spf13/cobra"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/doclog"
	"confcenter/internal/atomicfile"
	"confcenter/kv"
	"confcenter/kvstore/backup"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/kvstore/replica"
	"confcenter/state/auth"
	"confcenter/storage"
)

func (a *app) restoreCommand() *cobra.Command {
	var revision int64
	var at string
	command := &cobra.Command{
		Use:   "restore FILE DIR",
		Short: "Make a data directory of a backup",
		Long: `Restore makes DIR, which must be empty or not exist, a data directory for
confcenter serve --data DIR, with everything that is in the backup FILE. The backup is
checked first: one that is damaged or cut short changes nothing. It is read twice, so
FILE must be a file, which is not compressed.

With --revision or --time it is as it was then, if the backup still knows: keys
together with the documents. The error names the oldest revision that is possible.

Revisions go on far above those of the backup, so that no client takes a new one for
one that it has seen. The first server that serves DIR makes its --conf directory what
the backup says, and sets files that differ aside in DIR/aside.`,
		Example: `  confcenter restore all.backup /var/lib/confcenter
  confcenter restore all.backup /tmp/yesterday --time 2026-11-22T18:00:00Z
  confcenter restore all.backup /tmp/then --revision 48113`,
	}
	f := command.Flags()
	f.Int64Var(&revision, "revision", 0, "as of an earlier revision")
	f.StringVar(&at, "time", "", "as of an earlier time, for example 2026-11-22T18:00:00Z; without a zone it is UTC")
	command.MarkFlagsMutuallyExclusive("revision", "time")
	return a.offline(command, func(ctx context.Context, c *connection, args []string) error {
		to := disk.Point{Revision: kv.Revision(revision)}
		if args[0] == "-" {
			return usageError{errors.New("a backup is read twice, to check it before anything is made of it, so it cannot come from standard input: write it to a file, and restore that")}
		}
		if command.Flags().Changed("revision") && revision < 1 {
			return usageError{fmt.Errorf("revision = %d: must be above 0", revision)}
		}
		if at != "" {
			t, err := a.readTime("time", at)
			if err != nil {
				return err
			}
			to.Time = t.UnixMilli()
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		done, err := a.restore(ctx, args[0], args[1], to)
		if err != nil {
			return err
		}
		return c.show(done, func() error { return a.printRestored(done) })
	})
}

// restored is what is said of a restore.
type restored struct {
	Dir       string `json:"dir"`
	Revision  int64  `json:"revision"`
	Next      int64  `json:"next_revision"`
	Documents int    `json:"documents"` // of the backup

	Tokens []auth.Token `json:"tokens"` // that are valid in it
}

func (a *app) restore(ctx context.Context, name, dir string, to disk.Point) (done restored, err error) {
	v, err := a.verifyBackup(ctx, name)
	if err == nil && len(v.Faults) > 0 {
		err = codes.Errorf(codes.Storage, "%s is damaged: %s; use another backup", name, strings.Join(v.Faults, "; "))
	}
	if err != nil {
		return done, err
	}
	if to.Time > v.Time {
		return done, codes.Errorf(codes.FutureRevision, "%s is later than the backup, which was begun at %s and does not know what came after", shownTime(to.Time), shownTime(v.Time))
	}
	to.Ended, to.Drop = auth.Revocable, []disk.Keys{{NS: kv.AccessNamespace, Prefix: auth.SessionPrefix}}
	to.Stays = func(ns, key string) bool { // the audit tells of what is undone, too
		return kv.OfAudit(ns) || storage.Stays(ns, key) || v.settled && doclog.Stays(ns, key)
	}
	t, err := newTarget(dir)
	if err != nil {
		return done, err
	}
	r, err := t.fill(ctx, a, name, v, to)
	if err != nil {
		return done, fmt.Errorf("%w; nothing of it is left in %s", err, dir)
	}
	tokens, err := tokensIn(dir)
	if err != nil {
		return done, err
	}
	return restored{Dir: dir, Revision: int64(r.Revision), Next: int64(r.Next) + 1, Documents: v.Documents, Tokens: tokens}, nil
}

func (a *app) printRestored(done restored) error {
	fmt.Fprintf(a.stdout, "%s: as of revision %d; the next revision is %d. Serve it: confcenter serve --data %s\n", done.Dir, done.Revision, done.Next, done.Dir)
	tokens := done.Tokens
	if len(tokens) == 0 {
		return nil
	}
	fmt.Fprintf(a.stdout, "Valid tokens: %d. The backup does not know which were revoked after it: look through them, and revoke those with confcenter auth revoke ID.\n", len(tokens))
	return a.table("ID\tNAME\tGROUPS\tMADE\tBY\tEXPIRES", rowsOf(tokens, func(t auth.Token) []any {
		return []any{t.ID, t.Name, dash(strings.Join(t.Groups, ",")), moment(t.Made), dash(t.By), since(t.Expires)}
	}))
}

// tokensIn lists the tokens that are valid in a data directory which no one serves.
func tokensIn(dir string) (tokens []auth.Token, err error) {
	tokens = []auth.Token{}
	now := time.Now()
	d, _, err := disk.OpenLog(disk.Config{Dir: stateDir(dir), ReadOnly: true}, replica.Loader{Entry: func(e *kv.Entry) {
		if t, valid := auth.TokenOf(e, now); valid {
			tokens = append(tokens, t)
		}
	}})
	if err != nil {
		return nil, err
	}
	return tokens, d.Close()
}

func shownTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

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
func (t *target) fill(ctx context.Context, a *app, name string, v verdict, to disk.Point) (r disk.Restored, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, t.clear())
		} else {
			err = errors.Join(t.root.Close(), t.lock.Close())
		}
	}()
	p := &progress{to: unescaped(a.stderr), quiet: !isTerminal(a.stderr)}
	defer p.end()
	rows := func(yield func(key, value []byte) error) error {
		file, err := openBackup(name)
		if err != nil {
			return err
		}
		defer file.Close()
		totals, err := backup.Read(io.TeeReader(file, io.MultiWriter(until{ctx}, p)), noHead, yield)
		if err == nil && totals.SHA256 != v.SHA256 {
			err = codes.Errorf(codes.Conflict, "%s has changed while it was read", name)
		}
		return err
	}
	if r, err = disk.Restore(disk.Config{Dir: stateDir(t.dir)}, rows, v.Time, to); err != nil {
		return r, err
	}
	text := fmt.Appendf(nil, "This directory was restored from a backup, as of revision %d. The first server that serves it makes the configuration directory what the backup says, and removes this file.\n", r.Revision)
	if err = atomicfile.Write(t.root, confstore.RestoredMark, text, atomicfile.Attr{Perm: 0o600}); err != nil {
		return r, codes.Errorf(codes.Storage, "%w", err)
	}
	if err = markState(t.dir); err != nil {
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
		errs = append(errs, os.RemoveAll(stateDir(t.dir)))
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
