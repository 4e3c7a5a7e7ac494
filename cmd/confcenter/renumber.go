package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/datadir"
	"confcenter/cmd/confcenter/verb"
)

func renumberCommand(a *verb.App) *cobra.Command {
	return a.Offline(&cobra.Command{
		Use:   "renumber DIR",
		Short: "Begin the versions of all files again, in a data directory that is not in use",
		Long: `Renumber is for versions that have run years ahead of the clock, because a clock was
wrong or a client gave a version of 2037: writes are refused then. All files, and those
that were deleted, get the current time as their version. Contents and history stay.

The data gets a new epoch, so that clients which know epochs compare everything.
CppCloud's programs do not: restart them, because they ignore versions lower than those
they hold. The exit code is 5 if a server is using DIR.`,
		Example: `  confcenter renumber /var/lib/confcenter && confcenter serve --data /var/lib/confcenter`,
	}, func(ctx context.Context, c *verb.Connection, args []string) error {
		documents, served, err := datadir.Renumber(ctx, args[0])
		if err != nil {
			return err
		}
		return c.ShowLine(map[string]any{"dir": args[0], "documents": documents, "mtime": served}, fmt.Sprintf("%s: %d documents are at version %d, in a new epoch", args[0], documents, served))
	})
}
