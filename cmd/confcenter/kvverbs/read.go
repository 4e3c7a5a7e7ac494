package kvverbs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"confcenter/access/secret"
	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/kv"
)

func getCommand(a *verb.App) *cobra.Command {
	var rev int64
	var reveal bool
	command := &cobra.Command{
		Use:   "get NS KEY",
		Short: "Print the value of a key",
		Long: `Get prints the value of KEY: json indented, bytes in base64, everything else as it
is. -o raw prints only the bytes of the value, -o json the whole entry. The exit
code is 3 if the key is absent, or was absent at revision --rev, and 5 if --reveal had to
leave the value sealed, which is printed as a mark; as in mget, list and history.`,
		Example: `  confcenter kv get jobs owner
  confcenter kv get jobs plan --rev 41 -o json
  confcenter kv get pictures logo -o raw > logo.png`,
	}
	c := connect(a, command, 1, FormRaw)
	command.Flags().Int64Var(&rev, "rev", 0, "revision to read at; 0 = now")
	verb.DefineReveal(command, &reveal)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		e, err := spaceOf(connected, args[0], reveal).GetAt(ctx, args[1], kv.Revision(rev))
		if err != nil {
			return err
		}
		return cmp.Or(c.Show(newEntry(e), func() error { return PrintValue(c, e.Value) }), stillSealedOf(reveal, e))
	})
}

// spaceOf is a namespace whose sealed values are revealed if that is asked for.
func spaceOf(connected *client.Client, name string, reveal bool) *client.KV {
	s := connected.KV(name)
	if reveal {
		s = s.Revealing()
	}
	return s
}

func mgetCommand(a *verb.App) *cobra.Command {
	var reveal bool
	command := &cobra.Command{
		Use:   "mget NS KEY…",
		Short: "Print several keys, all as of one revision",
		Long: `Mget prints up to 1000 keys in the order given. Absent keys are left out of the
table and are null with -o json; they are not an error.`,
		Example: `  confcenter kv mget jobs owner done plan
  confcenter kv mget jobs owner done -o json | jq '.[0].value'`,
	}
	c := connect(a, command, -1)
	verb.DefineReveal(command, &reveal)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		entries, err := spaceOf(connected, args[0], reveal).GetMany(ctx, args[1:]...)
		if err != nil {
			return err
		}
		return cmp.Or(c.Show(newEntries(entries), func() error { return printEntries(a, entries) }), stillSealedOf(reveal, entries...))
	})
}

// printEntries prints a table; nil entries are left out.
func printEntries(a *verb.App, entries []*kv.Entry) error {
	return a.Table("KEY\tTYPE\tVALUE\tREVISION\tVERSION\tENDS", screen.RowsOf(entries, func(e *kv.Entry) []any {
		if e == nil {
			return nil
		}
		return []any{screen.Cell(e.Key), e.Value.Type, Brief(e.Value), e.Mod, e.Version, ends(e)}
	}))
}

// listing has list's arguments.
type listing struct {
	kv.List
	keys, count, all, reveal bool
}

func listCommand(a *verb.App) *cobra.Command {
	var l listing
	command := &cobra.Command{
		Use:   "list NS [PREFIX]",
		Short: "List keys that begin with a prefix",
		Long: fmt.Sprintf(`List prints the keys that begin with PREFIX, or all keys, in byte order: at most
--limit, all as of one revision. If there are more, standard error says how to
continue. --all reads page after page instead; others may write in between.

With -o json the page is an object with entries and more; with --all each line is
one entry. A page has at most %d keys and %d MiB.`, kv.MaxList, kv.MaxPage>>20),
		Example: `  confcenter kv list jobs task/ --limit 100
  confcenter kv list jobs task/ --limit 100 --after task/0099
  confcenter kv list jobs --all --keys
  confcenter kv list jobs task/ --count`,
	}
	c := connect(a, command, 1)
	f := command.Flags()
	f.IntVar(&l.Limit, "limit", 100, "maximum number of keys to print")
	f.StringVar(&l.After, "after", "", "start after this key")
	f.BoolVar(&l.keys, "keys", false, "print only the keys, one per line")
	f.BoolVar(&l.count, "count", false, "print only how many there are")
	f.BoolVar(&l.all, "all", false, "print all pages")
	verb.DefineReveal(command, &l.reveal)
	command.MarkFlagsMutuallyExclusive("count", "all")
	command.MarkFlagsMutuallyExclusive("count", "keys")
	command.MarkFlagsMutuallyExclusive("count", "after")
	command.MarkFlagsMutuallyExclusive("limit", "all")
	command.RunE = func(command *cobra.Command, args []string) error {
		if l.Limit < 1 {
			return verb.Usagef("limit = %d: must be at least 1", l.Limit)
		}
		if len(args) > 1 {
			l.Prefix = args[1]
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			return listKeys(ctx, c, spaceOf(connected, args[0], l.reveal), l)
		})
	}
	return command
}

func listKeys(ctx context.Context, c *verb.Connection, s *client.KV, l listing) error {
	if l.count {
		return c.ShowCount(s.Count(ctx, l.Prefix))
	}
	if l.all {
		l.Limit = 0
	}
	var sealed error // the first
	for {
		page, err := s.List(ctx, l.List)
		if err != nil {
			return err
		}
		if err := printPage(c, page, l); err != nil {
			return err
		}
		sealed = cmp.Or(sealed, stillSealedOf(l.reveal && !l.keys, page.Entries...))
		if !page.More || len(page.Entries) == 0 {
			return sealed
		}
		l.After = page.Entries[len(page.Entries)-1].Key
		if !l.all {
			c.Tell("there are more; continue with --after '%s'", screen.Cell(l.After))
			return sealed
		}
	}
}

func printPage(c *verb.Connection, page kv.Page, l listing) error {
	switch {
	case c.JSON() && l.all:
		for _, e := range page.Entries {
			if err := c.PrintJSON(listed(e, l)); err != nil {
				return err
			}
		}
		return nil
	case c.JSON():
		entries := make([]any, len(page.Entries))
		for i, e := range page.Entries {
			entries[i] = listed(e, l)
		}
		member := map[bool]string{true: "keys", false: "entries"}[l.keys]
		return c.PrintJSON(map[string]any{"revision": page.Revision, member: entries, "more": page.More})
	case l.keys:
		for _, e := range page.Entries {
			if err := c.Printf("%s\n", e.Key); err != nil {
				return err
			}
		}
		return nil
	}
	return printEntries(c.App, page.Entries)
}

func listed(e *kv.Entry, l listing) any {
	if l.keys {
		return e.Key
	}
	return newEntry(e)
}

func namespacesCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "namespaces",
		Short: "List the namespaces that have keys",
		Example: `  confcenter kv namespaces
  confcenter kv namespaces -o json | jq -r '.[].name'`,
	}
	c := a.Connect(command)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		list, err := connected.Namespaces(ctx)
		if err != nil {
			return err
		}
		out := make([]map[string]any, len(list))
		for i, ns := range list {
			out[i] = map[string]any{"name": ns.Name, "keys": ns.Keys, "bytes": ns.Bytes}
		}
		return c.ShowTable(out, "NAMESPACE\tKEYS\tBYTES", screen.RowsOf(list, func(ns kv.Namespace) []any { return []any{screen.Cell(ns.Name), ns.Keys, ns.Bytes} }))
	})
}

func historyCommand(a *verb.App) *cobra.Command {
	var before int64
	var limit int
	var reveal bool
	command := &cobra.Command{
		Use:   "history NS KEY",
		Short: "List versions of a key, newest first",
		Long: `History lists the versions of KEY, including deletions. Versions are kept for a
limited time and in limited number; standard error says below which revision they
may be gone. The exit code is 3 if no version of the key is known.`,
		Example: `  confcenter kv history jobs plan --limit 5
  confcenter kv history jobs plan --before 41 -o json`,
	}
	c := connect(a, command, 1)
	command.Flags().Int64Var(&before, "before", 0, "only versions older than this revision; 0 = all")
	command.Flags().IntVar(&limit, "limit", 20, "maximum number of versions to print")
	verb.DefineReveal(command, &reveal)
	command.RunE = func(command *cobra.Command, args []string) error {
		if limit < 1 {
			return verb.Usagef("limit = %d: must be at least 1", limit)
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			versions, err := spaceOf(connected, args[0], reveal).History(ctx, args[1], kv.Revision(before), limit)
			if err != nil {
				return err
			}
			if len(versions.Entries) == 0 {
				return codes.Errorf(codes.NotFound, "no version of %s of %s is known", args[1], args[0])
			}
			return cmp.Or(printVersions(c, versions), stillSealedOf(reveal, versions.Entries...))
		})
	}
	return command
}

func printVersions(c *verb.Connection, v kv.Versions) error {
	if c.JSON() {
		return c.PrintJSON(map[string]any{"versions": newEntries(v.Entries), "more": v.More, "floor": v.Floor})
	}
	if err := c.Table("REVISION\tVERSION\tTIME\tTYPE\tVALUE", screen.RowsOf(v.Entries, func(e *kv.Entry) []any {
		if e.Deleted() {
			return []any{e.Mod, "-", screen.Moment(e.Updated), "-", "deleted"}
		}
		return []any{e.Mod, e.Version, screen.Moment(e.Updated), e.Value.Type, Brief(e.Value)}
	})); err != nil {
		return err
	}
	if v.More {
		c.Tell("there are more; continue with --before %d", v.Entries[len(v.Entries)-1].Mod)
	}
	if v.Floor > 0 {
		c.Tell("versions older than revision %d are no longer kept", v.Floor)
	}
	return nil
}

func statCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "stat",
		Short: "Print figures about the store",
		Long: `Stat prints figures about the store: what it holds, its space on disk, the
revisions from which changes (log_floor) and versions (history_floor) are kept,
and counters since the server's start.`,
		Example: `  confcenter kv stat
  confcenter kv stat -o json | jq .revision`,
	}
	c := a.Connect(command)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		stats, err := connected.StoreStats(ctx)
		if err != nil {
			return err
		}
		var rows [][]any
		for name, n := range stats.Numbers() {
			rows = append(rows, []any{name, n})
		}
		return c.ShowTable(maps.Collect(stats.Numbers()), "", rows)
	})
}

// stillSealedOf is stillSealed for those of the entries that are; nil: none is, or it was not asked for.
func stillSealedOf(reveal bool, entries ...*kv.Entry) error {
	if !reveal {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e != nil && e.Value.Type == kv.JSON && secret.Has(e.Value.Data) && !slices.Contains(names, e.NS+"/"+e.Key) {
			names = append(names, e.NS+"/"+e.Key)
		}
	}
	if names == nil {
		return nil
	}
	return verb.StillSealed(names...)
}
