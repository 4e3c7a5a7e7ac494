package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/kv"
)

func watchCommand(a *verb.App) *cobra.Command {
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
	c := a.Connect(command)
	command.ValidArgsFunction = c.CompleteName
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
	verb.DefineReveal(command, &w.Reveal)
	f.BoolVar(&w.changes, "changes", false, "print which key paths change in every revision, with old and new value")
	command.RunE = func(command *cobra.Command, args []string) error {
		prefixed := f.Changed("prefix")
		if !prefixed && !f.Changed("from") && !w.changes {
			return c.Do(command, func(ctx context.Context, connected *client.Client) error {
				return watch(ctx, c, connected, queryOf(args, w.Merged, w.Reveal), w.count)
			})
		}
		w.Prefix, w.From, w.State = prefix, kv.Revision(from), !f.Changed("from") && !w.changes
		if err := w.named(args, prefixed); err != nil {
			return err
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			watch, err := connected.WatchDocuments(ctx, w.DocumentWatchOptions)
			return verb.PrintAll(ctx, watch, err, func(n client.DocumentNotice) (bool, error) { return printRevision(c, n, &w) })
		})
	}
	return command
}

// watch returns nil when ctx ends, which is a watch's normal end.
func watch(ctx context.Context, c *verb.Connection, connected *client.Client, query client.Query, count int) error {
	done := make(chan error, 1)
	printed, ended := 0, false // used on the callbacks' goroutine only
	w, err := connected.Watch(ctx, query, func(d *client.Document) {
		if ended {
			return
		}
		err := printState(c, d)
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

func printState(c *verb.Connection, d *client.Document) error {
	if c.JSON() {
		doc := newDocument(d)
		doc.Broken = neverGood(d)
		return c.PrintJSON(doc)
	}
	contents := "absent"
	if d.Exists() {
		contents = string(d.Raw())
	} else if why := neverGood(d); why != "" {
		contents += ": " + why
	}
	where := strings.TrimSuffix(d.Name+" "+d.Path, " ")
	return c.Printf("%d %s %s\n", d.Mtime, where, contents)
}

// neverGood is why there is nothing of a file that is there but was never good; else "".
func neverGood(d *client.Document) string {
	var v any
	if err := d.Decode("", &v); errors.Is(err, client.ErrNeverGood) {
		return err.Error()
	}
	return ""
}

// documentWatching has the arguments of a watch that tells every revision.
type documentWatching struct {
	client.DocumentWatchOptions
	changes bool // print key paths
	count   int
	printed int
}

// documentChange is a change of a document in -o json.
type documentChange struct {
	Op       string              `json:"op"`
	Revision kv.Revision         `json:"revision"`
	Name     string              `json:"name,omitempty"`
	Path     string              `json:"path,omitempty"`
	Mtime    int32               `json:"mtime,omitempty"`
	Contents jsoniter.RawMessage `json:"contents,omitempty"`
	Prev     jsoniter.RawMessage `json:"prev,omitempty"`
	Changes  []pathChange        `json:"changes,omitempty"`
	More     bool                `json:"more,omitempty"`
}

type pathChange struct {
	Path string              `json:"path"`
	Old  jsoniter.RawMessage `json:"old,omitempty"`
	New  jsoniter.RawMessage `json:"new,omitempty"`
}

// named sets what is watched by the arguments [NAME [PATH]].
func (w *documentWatching) named(args []string, prefixed bool) error {
	switch {
	case len(args) > 0 && prefixed:
		return verb.Usagef("NAME and --prefix exclude each other")
	case len(args) > 0:
		args = append(args, "")
		w.Name, w.Path = args[0], args[1]
	}
	return nil
}

// printRevision returns true when enough lines have been printed.
func printRevision(c *verb.Connection, n client.DocumentNotice, w *documentWatching) (done bool, err error) {
	if n.Kind == kv.Synced || n.Kind == kv.Resync {
		return printDocument(c, documentChange{Op: n.Kind.String(), Revision: n.Revision}, w)
	}
	for i := range n.Changes {
		d := &n.Changes[i]
		line := documentChange{
			Op: kv.Put.String(), Revision: n.Revision, Name: d.Name, Path: w.Path, Mtime: d.Mtime,
			Contents: d.Contents, Prev: d.Old, More: n.Kind == kv.Changed && i+1 < len(n.Changes),
		}
		switch {
		case n.Kind == kv.State:
			line.Op = n.Kind.String()
		case d.Contents == nil:
			line.Op = kv.Delete.String()
		}
		if w.changes && n.Kind == kv.Changed {
			if line.Changes, err = pathsOf(d, w.Path); err != nil {
				return false, err
			}
			line.Path, line.Contents, line.Prev = "", nil, nil
		}
		if done, err = printDocument(c, line, w); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// pathsOf returns the values that have changed, with their paths from the top of the document.
func pathsOf(d *client.DocumentChange, below string) ([]pathChange, error) {
	paths, err := d.Paths()
	list := make([]pathChange, len(paths))
	for i, p := range paths {
		list[i] = pathChange{Path: strings.TrimRight(below, "/") + p.Path, Old: p.Old, New: p.New}
	}
	return list, err
}

// printDocument prints a line, or as text with --changes one for each path.
func printDocument(c *verb.Connection, d documentChange, w *documentWatching) (done bool, err error) {
	lines := []string{strings.TrimSuffix(fmt.Sprintf("%d %s %s", d.Revision, d.Op, d.Name), " ")}
	switch {
	case c.JSON():
		err := c.PrintJSON(d)
		w.printed++
		return w.printed == w.count, err
	case len(d.Changes) > 0:
		lines = lines[:0]
		for _, p := range d.Changes {
			lines = append(lines, fmt.Sprintf("%d %s %s %s -> %s", d.Revision, d.Name, screen.Cell(p.Path), orAbsent(p.Old), orAbsent(p.New)))
		}
	case d.Name != "":
		if d.Path != "" {
			lines[0] += " " + d.Path
		}
		if d.Contents != nil {
			lines[0] += " " + string(d.Contents)
		}
	}
	for _, line := range lines {
		if err := c.Printf("%s\n", line); err != nil {
			return false, err
		}
		if w.printed++; w.printed == w.count {
			return true, nil
		}
	}
	return false, nil
}

func orAbsent(contents []byte) string {
	if contents == nil {
		return "absent"
	}
	return string(contents)
}
