package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/datadir"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
)

func verifyCommand(a *verb.App) *cobra.Command {
	return a.Offline(&cobra.Command{
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
	}, func(ctx context.Context, c *verb.Connection, args []string) error {
		ctx, stop := verb.UntilSignal(ctx)
		defer stop()
		return verify(ctx, c, args[0])
	})
}

func verify(ctx context.Context, c *verb.Connection, name string) error {
	var v datadir.Verdict
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		v, err = datadir.Verify(name)
	} else {
		v, err = verifyBackup(ctx, c.App, name)
	}
	if err != nil {
		return err
	}
	v.Name, v.OK = name, len(v.Faults) == 0
	err = c.Show(v, func() error {
		for _, fault := range v.Faults {
			fmt.Fprintf(c.Stdout, "%s: %s\n", name, fault)
		}
		if !v.OK {
			return nil
		}
		return c.Printf("%s: revision %d, %d rows, %d documents with %d versions, no faults\n", name, v.Revision, v.Rows, v.Documents, v.Versions)
	})
	if !v.OK {
		return codes.Errorf(codes.Storage, "%s is damaged: %d faults; use a backup that has none", name, len(v.Faults))
	}
	return err
}

func verifyBackup(ctx context.Context, a *verb.App, name string) (datadir.Verdict, error) {
	p := newProgress(a)
	defer p.end()
	return datadir.VerifyBackup(ctx, name, a.Stdin, p)
}
