package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/access/token"
	"confcenter/cmd/confcenter/datadir"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/kv"
	"confcenter/kvstore/disk"
)

func restoreCommand(a *verb.App) *cobra.Command {
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
	return a.Offline(command, func(ctx context.Context, c *verb.Connection, args []string) error {
		to := disk.Point{Revision: kv.Revision(revision)}
		if args[0] == "-" {
			return verb.Usagef("a backup is read twice, to check it before anything is made of it, so it cannot come from standard input: write it to a file, and restore that")
		}
		if command.Flags().Changed("revision") && revision < 1 {
			return verb.Usagef("revision = %d: must be above 0", revision)
		}
		if at != "" {
			t, err := a.ReadTime("time", at)
			if err != nil {
				return err
			}
			to.Time = t.UnixMilli()
		}
		ctx, stop := verb.UntilSignal(ctx)
		defer stop()
		v, err := verifyBackup(ctx, a, args[0])
		if err != nil {
			return err
		}
		p := newProgress(a)
		defer p.end()
		done, err := datadir.Restore(ctx, args[0], args[1], v, to, p)
		if err != nil {
			return err
		}
		return c.Show(done, func() error { return printRestored(a, done) })
	})
}

func printRestored(a *verb.App, done datadir.Restored) error {
	fmt.Fprintf(a.Stdout, "%s: as of revision %d; the next revision is %d. Serve it: confcenter serve --data %s\n", done.Dir, done.Revision, done.Next, done.Dir)
	tokens := done.Tokens
	if len(tokens) == 0 {
		return nil
	}
	fmt.Fprintf(a.Stdout, "Valid tokens: %d. The backup does not know which were revoked after it: look through them, and revoke those with confcenter auth revoke ID.\n", len(tokens))
	return a.Table("ID\tNAME\tGROUPS\tMADE\tBY\tEXPIRES", screen.RowsOf(tokens, func(t token.Token) []any {
		return []any{t.ID, t.Name, screen.Cell(strings.Join(t.Groups, ",")), screen.Moment(t.Made), screen.Cell(t.By), screen.Moment(t.Expires)}
	}))
}
