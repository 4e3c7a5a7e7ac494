package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/protocol"
)

const stateDeleted = protocol.FileDeleted

func (a *app) lsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the server's files and what is wrong with them",
		Long: `Ls lists every file the server knows, with its state: good, broken or deleted. While
a file is broken, its last good version is served.

Other problems, such as a base in _meta.json that does not exist, follow on
standard error, or as "problems" with -o json.`,
		Example: `  confcenter ls
  confcenter ls -o json | jq -r '.files[] | select(.state == "broken").name'`,
		Args:              arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c := a.connect(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return c.do(command, func(ctx context.Context, connected *client.Client) error {
			files, err := connected.List(ctx)
			if err != nil {
				return err
			}
			problems, err := connected.Problems(ctx)
			if err != nil {
				return err
			}
			if c.output.json() {
				return a.printJSON(map[string]any{"files": notNil(files), "problems": notNil(problems)})
			}
			return a.printFiles(files, problems)
		})
	}
	return command
}

// notNil makes an empty list [] instead of null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *app) printFiles(files []client.FileInfo, problems []client.Problem) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tSIZE\tMTIME\tTIME")
	for _, f := range files {
		state := f.State
		if f.Reason != "" {
			state += " (" + f.Reason + ")"
		}
		at := time.Unix(int64(f.Mtime), 0).UTC().Format(time.RFC3339)
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", f.Name, state, f.Size, f.Mtime, at)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(a.stderr, "problem: %s: %s\n", p.Name, p.Text)
	}
	return nil
}
