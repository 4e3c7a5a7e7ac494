package kvverbs

import (
	"context"
	"fmt"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/kv"
)

// watching has kv watch's arguments.
type watching struct {
	client.WatchOptions
	count   int
	spaces  bool // print namespaces
	reveal  bool
	printed int
}

// event is an event in -o json: the entry with what happened to it.
type event struct {
	Op       string              `json:"op"`
	Revision kv.Revision         `json:"revision"`
	Entry    jsoniter.RawMessage `json:"entry,omitempty"`
	Prev     jsoniter.RawMessage `json:"prev,omitempty"`
	More     bool                `json:"more,omitempty"`
}

func watchCommand(a *verb.App) *cobra.Command {
	var w watching
	var prefix string
	var from int64
	command := &cobra.Command{
		Use:   "watch [NS [KEY]]",
		Short: "Print every change of a key, of keys with a prefix, of a namespace or of all",
		Long: `Watch prints one line for each change, in the order of revisions, until it is
interrupted. It reconnects by itself, missing nothing and repeating nothing;
standard error says when the connection is lost and when it is back. If the missed
changes are no longer kept, it prints resync, then the whole state, then synced.

A line has the revision; put, delete or expire; the namespace, if all are watched;
the key; and the value. With --state, the current state comes first: lines with
state, then one with synced. With -o json a line is a JSON object; its member more
says that further changes of the same revision follow.`,
		Example: `  confcenter kv watch jobs
  confcenter kv watch jobs owner --state
  confcenter kv watch jobs --prefix task/ --from 41 -o json

  # wait for the next change
  confcenter kv watch jobs owner --count 1 >/dev/null`,
	}
	c := connect(a, command, 1)
	f := command.Flags()
	f.StringVar(&prefix, "prefix", "", "watch the keys of NS that begin with this prefix")
	f.BoolVar(&w.State, "state", false, "print the current state first")
	f.Int64Var(&from, "from", 0, "start with the changes after this revision; 0 = now")
	f.BoolVar(&w.Prev, "prev", false, "with -o json, also print the previous entry")
	f.BoolVar(&w.Coalesce, "coalesce", false, "if changes come faster than they can be sent, print only the last of each key")
	verb.DefineReveal(command, &w.reveal)
	f.IntVar(&w.count, "count", 0, "stop after this many lines; 0 = never")
	command.MarkFlagsMutuallyExclusive("state", "from")
	command.RunE = func(command *cobra.Command, args []string) error {
		w.From, w.Prefix = kv.Revision(from), prefix
		args = append(args, "", "")
		if w.Key = args[1]; prefix != "" && w.Key != "" {
			return verb.Usagef("KEY and --prefix exclude each other")
		}
		if w.spaces = args[0] == ""; w.spaces && prefix != "" {
			return verb.Usagef("--prefix needs NS")
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			watch, err := spaceOf(connected, args[0], w.reveal).Watch(ctx, w.WatchOptions)
			return verb.PrintAll(ctx, watch, err, func(n kv.Notice) (bool, error) { return printNotice(c, n, &w) })
		})
	}
	return command
}

// printNotice returns true when enough lines have been printed.
func printNotice(c *verb.Connection, n kv.Notice, w *watching) (bool, error) {
	line := func(e event, of *kv.Entry) (bool, error) {
		w.printed++
		return w.printed == w.count, c.Show(e, func() error { return c.Printf("%s\n", e.text(of, w.spaces)) })
	}
	if n.Kind == kv.Synced || n.Kind == kv.Resync {
		return line(event{Op: n.Kind.String(), Revision: n.Revision}, nil)
	}
	for i, e := range n.Events {
		op, more := e.Kind.String(), n.More
		if i+1 < len(n.Events) {
			more = n.Events[i+1].Entry.Mod == e.Entry.Mod
		}
		if n.Kind == kv.State {
			op, more = n.Kind.String(), false
		}
		ev := event{Op: op, Revision: e.Entry.Mod, Entry: newEntry(e.Entry), More: more}
		if e.Prev != nil {
			ev.Prev = newEntry(e.Prev)
		}
		if done, err := line(ev, e.Entry); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// text is the event as a line; of is its entry, nil for an event that is about none.
func (e *event) text(of *kv.Entry, spaces bool) string {
	text := fmt.Sprintf("%d %s", e.Revision, e.Op)
	if of == nil {
		return text
	}
	if spaces {
		text += " " + screen.Cell(of.NS)
	}
	text += " " + screen.Cell(of.Key)
	if !of.Deleted() {
		text += " " + cell(of.Value)
	}
	return text
}
