package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"confcenter/confstore/doclog"
	"confcenter/internal/clock"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
)

func (a *app) renumberCommand() *cobra.Command {
	return a.offline(&cobra.Command{
		Use:   "renumber DIR",
		Short: "Begin the versions of all files again, in a data directory that is not in use",
		Long: `Renumber is for versions that have run years ahead of the clock, because a clock was
wrong or a client gave a version of 2037: writes are refused then. All files, and those
that were deleted, get the current time as their version. Contents and history stay.

The data gets a new epoch, so that clients which know epochs compare everything.
CppCloud's programs do not: restart them, because they ignore versions lower than those
they hold. The exit code is 5 if a server is using DIR.`,
		Example: `  confcenter renumber /var/lib/confcenter && confcenter serve --data /var/lib/confcenter`,
	}, func(ctx context.Context, c *connection, args []string) error {
		documents, served, err := renumber(ctx, args[0])
		if err != nil {
			return err
		}
		return c.showLine(map[string]any{"dir": args[0], "documents": documents, "mtime": served}, fmt.Sprintf("%s: %d documents are at version %d, in a new epoch", args[0], documents, served))
	})
}

// renumber tells how many documents there are, and their version.
func renumber(ctx context.Context, dir string) (documents int, served int32, err error) {
	taken, err := takeIdle(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	// Nothing is given up here because of its age or number: that is for the server's settings.
	const years = 100 * 365 * 24 * time.Hour
	store, err := pebblekv.Open(pebblekv.StoreConfig{Disk: disk.Config{
		Dir: stateDir(dir), LogBytes: math.MaxInt64, LogAge: years, HistoryVersions: math.MaxInt32, HistoryBytes: math.MaxInt64, HistoryAge: years, TokenAge: years,
	}})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := doclog.Open(ctx, store, "")
	if err != nil {
		return 0, 0, err
	}
	served = int32(clock.Real().Now().Unix())
	documents, err = log.Renumber(ctx, served)
	return documents, served, err
}
