package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
)

func newSet() *cobra.Command {
	var t target
	var how traffic
	var files, size int
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Write documents: SETCONFIG",
		Long: `Write documents named w00000.json and on, each write different from the one
before. A server that keeps its word has every answered write on its disk, so
what is measured is mostly that disk.`,
		Example: `  ccload set --conns 4 --size 4096
  ccload set --rate 100 --files 1`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := how.check(); err != nil {
				return err
			}
			if files < how.threads {
				return usageError{fmt.Errorf("--files %d must be at least --threads %d", files, how.threads)}
			}
			// Each thread has files of its own, and numbers no run before had.
			first := int(time.Now().UnixMilli())
			return runTraffic(cmd, &t, &how, "set", func(_ *rand.Rand, thread int) source {
				return newWrites(writeNames(files, how.threads, thread), size, first)
			})
		},
	}
	t.bind(cmd)
	how.bind(cmd)
	cmd.Flags().IntVarP(&files, "files", "n", 100, "documents to write")
	cmd.Flags().IntVar(&size, "size", 200, "size of a document in bytes, about")
	return cmd
}

func writeNames(files, threads, thread int) []string {
	var names []string
	for i := thread; i < files; i += threads {
		names = append(names, fmt.Sprintf("w%05d.json", i))
	}
	return names
}
