package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/client"
)

func (a *app) watchCommand() *cobra.Command {
	var merged bool
	var count int
	command := &cobra.Command{
		Use:   "watch NAME [PATH]",
		Short: "Print a file, or what is at a key path in it, and then every change",
		Long: `Watch prints the current contents of NAME, or the part of them at PATH, and then one
line for each change, until it is interrupted. It reconnects by itself and catches
up; standard error says when the connection is lost and when it is back. If changes
come faster than they can be printed, only the newest contents are.

A line has the version, the name, the path if there is one, and the contents as
compact JSON, or "absent". With -o json it is a JSON object.`,
		Example: `  confcenter watch app1-dev.json
  confcenter watch app1-dev /key3 --merged -o json

  # wait for the next change
  confcenter watch app1-dev --count 2 >/dev/null`,
	}
	c := a.connect(command)
	command.ValidArgsFunction = c.completeName
	command.Flags().BoolVarP(&merged, "merged", "m", false, "watch the file merged over those it inherits from, as programs see it")
	command.Flags().IntVar(&count, "count", 0, "stop after this many lines, the first being the current contents; 0 = never")
	return c.asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		return a.watch(ctx, connected, queryOf(args, merged), count, c.output.json())
	})
}

// watch returns nil when ctx ends, which is a watch's normal end.
func (a *app) watch(ctx context.Context, connected *client.Client, query client.Query, count int, asJSON bool) error {
	done := make(chan error, 1)
	printed, ended := 0, false // used on the callbacks' goroutine only
	w, err := connected.Watch(ctx, query, func(d *client.Document) {
		if ended {
			return
		}
		err := a.printState(d, asJSON)
		printed++
		if err != nil || printed == count {
			ended = true
			done <- err
		}
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (a *app) printState(d *client.Document, asJSON bool) error {
	if asJSON {
		return a.printJSON(newDocument(d))
	}
	contents := "absent"
	if d.Exists() {
		contents = string(d.Raw())
	}
	where := strings.TrimSuffix(d.Name+" "+d.Path, " ")
	_, err := fmt.Fprintf(a.stdout, "%d %s %s\n", d.Mtime, where, contents)
	return err
}
