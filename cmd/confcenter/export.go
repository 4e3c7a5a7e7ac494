package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
)

// exported is an export in -o json.
type exported struct {
	Dir   string `json:"dir"`
	At    int64  `json:"at"`
	Files int    `json:"files"`
}

func exportCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "export DIR [REV]",
		Short: "Write all files of the server to a directory, as they are or were at a revision",
		Long: `Export makes the directory DIR and writes to it the exact bytes of all files that the
server has, or had at REV: a revision, '~N' for N changes before the newest, or a time
such as 2026-11-23T05:00, which is UTC unless it says otherwise. apply is the reverse.

DIR must not exist yet, or be empty: nothing is overwritten. It appears with all
files in it, or not at all.`,
		Example: `  confcenter export ./backup
  confcenter export /tmp/before-the-sale 2026-11-23T05:00`,
	}
	c := a.Connect(command)
	c.WaitLong(command)
	command.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		q := history.ExportAsk{}
		if len(args) > 1 {
			q.Rev = args[1]
			a.RepeatTime(q.Rev)
		}
		done := exported{Dir: args[0]}
		if err := done.write(ctx, calls.History(connected), &q); err != nil {
			return err
		}
		return c.ShowLine(done, fmt.Sprintf("%s: %d files as at revision %d", done.Dir, done.Files, done.At))
	})
}

// write makes the directory beside its place, and then puts it there.
func (e *exported) write(ctx context.Context, calls *calls.HistoryCalls, q *history.ExportAsk) (err error) {
	dir := filepath.Clean(e.Dir)
	if err := vacant(dir); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".export-*")
	if err != nil {
		return fmt.Errorf("the directory cannot be made: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }() // nothing, once it is in place
	root, err := os.OpenRoot(made)
	if err != nil {
		return err
	}
	err = errors.Join(e.files(ctx, calls, q, root), root.Close())
	if err == nil {
		err = os.Chmod(made, 0o755)
	}
	if err != nil {
		return err
	}
	err = syscall.Rmdir(dir) // which only removes an empty directory
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(made, dir)
	}
	if err != nil {
		return fmt.Errorf("the directory cannot be put in place: %w", err)
	}
	return nil
}

// vacant refuses a place where something is.
func vacant(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return codes.Errorf(codes.AlreadyExists, "%s is there, and no directory; nothing was written", dir)
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = codes.Errorf(codes.AlreadyExists, "%s is not empty; name a new directory, as nothing is overwritten", dir)
	}
	return err
}

// files writes all files.
func (e *exported) files(ctx context.Context, calls *calls.HistoryCalls, q *history.ExportAsk, root *os.Root) error {
	var text []byte // of the file that is being received
	for {
		page, err := calls.Export(ctx, q)
		if err != nil {
			return err
		}
		for i, d := range page.Documents {
			text = append(text, d.Text...)
			if page.NextOffset > 0 && i == len(page.Documents)-1 {
				break // there is more of it
			}
			if err := writeExported(root, &d, text); err != nil {
				return err
			}
			text = text[:0]
			e.Files++
		}
		e.At = page.At
		if page.Next == "" {
			return nil
		}
		q.Rev, q.From, q.Offset = fmt.Sprint(page.At), page.Next, page.NextOffset
	}
}

// writeExported writes a file, below root whatever the server calls it.
func writeExported(root *os.Root, d *history.Exported, text []byte) error {
	if err := confstore.CheckName(d.Name); err != nil {
		return fmt.Errorf("the server has a file that is not written: %w", err)
	}
	if log.DigestOf(text).String() != d.Hash {
		return codes.Errorf(codes.Internal, "%s: what the server has sent is not the file; try again", d.Name)
	}
	if err := root.MkdirAll(path.Dir(d.Name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(d.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	at := time.Unix(d.Mtime, 0)
	return errors.Join(err, f.Close(), root.Chtimes(d.Name, at, at))
}
