package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/codes"
	"confcenter/confstore/doclog"
	"confcenter/kv"
	"confcenter/kvstore/backup"
	"confcenter/kvstore/pebblekv/disk"
)

func (a *app) verifyCommand() *cobra.Command {
	return a.offline(&cobra.Command{
		Use:   "verify FILE|DIR",
		Short: "Check a backup, or a data directory that is not in use",
		Long: `Verify reads all of a backup, or of the data directory of a server that does not run,
and changes nothing. It checks each checksum, that nothing is missing in between, and
that each document is its newest version, whose contents are all there.

Each fault is printed on a line. The exit code is 0 if there is none, 1 if there is any
or it cannot be read, 3 if there is nothing of that name, and 5 if a server is using it.`,
		Example: `  confcenter verify all.backup
  confcenter verify /var/lib/confcenter && confcenter serve --data /var/lib/confcenter
  zstd -dc all.backup.zst | confcenter verify -`,
	}, func(ctx context.Context, c *connection, args []string) error {
		ctx, stop := untilSignal(ctx)
		defer stop()
		return c.verify(ctx, args[0])
	})
}

// verdict is what is said of a backup or a data directory.
type verdict struct {
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

func (c *connection) verify(ctx context.Context, name string) error {
	look := c.app.verifyBackup
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		look = c.app.verifyData
	}
	v, err := look(ctx, name)
	if err != nil {
		return err
	}
	v.Name, v.OK = name, len(v.Faults) == 0
	err = c.show(v, func() error {
		for _, fault := range v.Faults {
			fmt.Fprintf(c.app.stdout, "%s: %s\n", name, fault)
		}
		if !v.OK {
			return nil
		}
		return c.app.printf("%s: revision %d, %d rows, %d documents with %d versions, no faults\n", name, v.Revision, v.Rows, v.Documents, v.Versions)
	})
	if !v.OK {
		return codes.Errorf(codes.Storage, "%s is damaged: %d faults; use a backup that has none", name, len(v.Faults))
	}
	return err
}

// verifyData checks a data directory.
func (a *app) verifyData(_ context.Context, dir string) (v verdict, err error) {
	taken, err := takeIdle(dir)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	documents := doclog.NewChecker()
	found, err := disk.Verify(disk.Config{Dir: stateDir(dir)}, noting(documents))
	if err != nil {
		return v, err
	}
	v = verdict{Revision: int64(found.Revision), Rows: found.Rows, Faults: found.Faults}
	v.judge(documents)
	return v, nil
}

func noting(c *doclog.Checker) func(*kv.Entry) error {
	return func(e *kv.Entry) error {
		c.Entry(e)
		return nil
	}
}

// judge adds what is wrong with the documents.
func (v *verdict) judge(c *doclog.Checker) {
	var faults []string
	faults, v.Documents, v.Versions = c.End()
	v.Faults, v.settled = append(v.Faults, faults...), c.Settled()
}

// verifyBackup checks a backup. Its own blocks have been written with what they say, so what is
// wrong with them is an error, and what they say may still have faults.
func (a *app) verifyBackup(ctx context.Context, name string) (v verdict, err error) {
	from, called := a.stdin, "standard input"
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
	p := &progress{to: unescaped(a.stderr), quiet: !isTerminal(a.stderr)}
	defer p.end()
	documents := doclog.NewChecker()
	rows := disk.Inspector{Entry: noting(documents)}
	totals, err := backup.Read(io.TeeReader(from, io.MultiWriter(until{ctx}, p)), noHead, rows.Row)
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
	v = verdict{Revision: int64(totals.Head.Revision), Time: totals.Head.Time, Rows: totals.Rows, SHA256: totals.SHA256, Faults: []string{}}
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
