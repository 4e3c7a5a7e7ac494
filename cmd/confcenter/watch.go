package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/kv"
)

func (a *app) watchCommand() *cobra.Command {
	var w documentWatching
	var prefix string
	var from int64
	command := &cobra.Command{
		Use:   "watch NAME [PATH] | watch --prefix PREFIX",
		Short: "Print a file, or what is at a key path in it, and then every change",
		Long: `Watch prints the current contents of NAME, or the part of them at PATH, and then one
line for each change, until it is interrupted. It reconnects by itself and catches
up; standard error says when the connection is lost and when it is back. If changes
come faster than they can be printed, only the newest contents are.

A line has the version, the name, the path if there is one, and the contents as
compact JSON, or "absent", which is followed by the reason if the file is there but
was never good. With -o json it is a JSON object, and the reason is its "broken".

With --from, --prefix or --changes it prints every revision, in order, missing
nothing and repeating nothing, across restarts of the server too. A line then has
the revision; put or delete; the name, and the path; and the contents. The current
contents come first, unless --from or --changes is given: lines with state, then one
with synced. With --changes a line has a revision, a name, a key path, and the old
and the new value there. If what was missed is no longer kept, it prints resync,
then the current contents, then synced. With -o json, more says that further
documents of the same revision follow.`,
		Example: `  confcenter watch app1-dev.json
  confcenter watch app1-dev /key3 --merged -o json

  # wait for the next change
  confcenter watch app1-dev --count 2 >/dev/null

  # what has changed since revision 41 in files whose names begin with app1, and from now on
  confcenter watch --prefix app1 --from 41 --changes`,
	}
	c := a.connect(command)
	command.ValidArgsFunction = c.completeName
	arguments := command.Args
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) == 0 && !command.Flags().Changed("prefix") {
			return errors.New("NAME is missing; usage: confcenter " + command.Use)
		}
		return arguments(command, args)
	}
	f := command.Flags()
	f.BoolVarP(&w.Merged, "merged", "m", false, "watch the file merged over those it inherits from, as programs see it")
	f.BoolVar(&w.Merged, "resolved", false, "the same as --merged")
	f.IntVar(&w.count, "count", 0, "stop after this many lines, the first being the current contents if they are printed; 0 = never")
	f.Int64Var(&from, "from", 0, "print every revision after this one; 0 = from now on")
	f.StringVar(&prefix, "prefix", "", "print every revision of the files whose names begin with this prefix; \"\" = all files")
	defineReveal(command, &w.Reveal)
	f.BoolVar(&w.changes, "changes", false, "print which key paths change in every revision, with old and new value")
	command.RunE = func(command *cobra.Command, args []string) error {
		prefixed := f.Changed("prefix")
		if !prefixed && !f.Changed("from") && !w.changes {
			return c.do(command, func(ctx context.Context, connected *client.Client) error {
				return a.watch(ctx, connected, queryOf(args, w.Merged, w.Reveal), w.count, c.json())
			})
		}
		w.Prefix, w.From, w.State = prefix, kv.Revision(from), !f.Changed("from") && !w.changes
		if err := w.named(args, prefixed); err != nil {
			return err
		}
		return c.do(command, func(ctx context.Context, connected *client.Client) error {
			watch, err := connected.WatchDocuments(ctx, w.DocumentWatchOptions)
			return printAll(ctx, watch, err, func(n client.DocumentNotice) (bool, error) { return c.printRevision(n, &w) })
		})
	}
	return command
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
		doc := newDocument(d)
		doc.Broken = neverGood(d)
		return a.printJSON(doc)
	}
	contents := "absent"
	if d.Exists() {
		contents = string(d.Raw())
	} else if why := neverGood(d); why != "" {
		contents += ": " + why
	}
	where := strings.TrimSuffix(d.Name+" "+d.Path, " ")
	return a.printf("%d %s %s\n", d.Mtime, where, contents)
}

// neverGood is why there is nothing of a file that is there but was never good; else "".
func neverGood(d *client.Document) string {
	var v any
	if err := d.Decode("", &v); errors.Is(err, client.ErrNeverGood) {
		return err.Error()
	}
	return ""
}
