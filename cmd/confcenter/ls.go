package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
)

func lsCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the server's files and what is wrong with them",
		Long: `Ls lists every file the server knows, with its state: good, broken or deleted. While
a file is broken, its last good version is served.

Other problems, such as a base in _meta.json that does not exist, follow on
standard error, or as "problems" with -o json.`,
		Example: `  confcenter ls
  confcenter ls -o json | jq -r '.files[] | select(.state == "broken").name'`,
	}
	c := a.Connect(command)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		files, err := connected.List(ctx)
		if err != nil {
			return err
		}
		problems, err := connected.Problems(ctx)
		if err != nil {
			return err
		}
		return c.Show(map[string]any{"files": notNil(files), "problems": notNil(problems)}, func() error { return printFiles(a, files, problems) })
	})
}

// notNil makes an empty list [] instead of null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func printFiles(a *verb.App, files []client.FileInfo, problems []client.Problem) error {
	if err := a.Table("NAME\tSTATE\tSIZE\tMTIME\tTIME", screen.RowsOf(files, func(f client.FileInfo) []any {
		state := f.State
		if f.Reason != "" {
			state += " (" + f.Reason + ")"
		}
		return []any{f.Name, state, f.Size, f.Mtime, screen.Time(int64(f.Mtime) * 1000)}
	})); err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(a.Stderr, "problem: %s: %s\n", p.Name, p.Text)
	}
	return nil
}
