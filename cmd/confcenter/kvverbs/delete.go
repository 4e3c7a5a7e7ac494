package kvverbs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/kv"
)

func delCommand(a *verb.App) *cobra.Command {
	var flags writeFlags
	var prefix bool
	command := &cobra.Command{
		Use:   "del NS KEY | del NS PREFIX --prefix",
		Short: "Delete a key, or all keys with a prefix",
		Long: fmt.Sprintf(`Del deletes KEY, or with --prefix every key that begins with PREFIX, and prints how
many there were. Deleting nothing is not an error. With --prefix, up to %d keys
are deleted at once; if there are more, others can see them disappear in steps.`, kv.MaxDeletePrefix),
		Example: `  confcenter kv del jobs owner
  confcenter kv del jobs owner --if-mod 41
  confcenter kv del jobs task/ --prefix`,
	}
	c := connect(a, command, 1)
	command.Flags().BoolVar(&prefix, "prefix", false, "delete all keys that begin with PREFIX")
	flags.define(command)
	flags.defineKey(command)
	command.MarkFlagsMutuallyExclusive("prefix", "if-mod")
	command.MarkFlagsMutuallyExclusive("prefix", "prev")
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case prefix && args[1] == "":
			return verb.Usagef("the prefix is empty; to delete a whole namespace use drop")
		case prefix:
			return deleteAll(c, command, &flags, kv.Op{Kind: kv.OpDeletePrefix, NS: args[0], Key: args[1]})
		}
		return commit(c, command, &flags, kv.Op{Kind: kv.OpDelete, NS: args[0], Key: args[1]}, countOf)
	}
	return command
}

func dropCommand(a *verb.App) *cobra.Command {
	var flags writeFlags
	var confirm string
	command := &cobra.Command{
		Use:   "drop NS --confirm NS",
		Short: "Delete all keys of a namespace",
		Long: `Drop deletes all keys of a namespace and prints how many there were. The name must
be given again with --confirm, because it is easily done to the wrong namespace. On a
terminal drop says how many keys there are and asks for the name instead.`,
		Example: `  confcenter kv list old --count
  confcenter kv drop old --confirm old`,
	}
	c := connect(a, command, 0)
	command.Flags().StringVar(&confirm, "confirm", "", "name of the namespace, again")
	verb.FreeText(command, "confirm")
	flags.define(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		ns := args[0]
		if confirm == "" {
			if err := confirmDrop(c, command, ns); err != nil {
				return err
			}
			confirm = ns
		}
		return deleteAll(c, command, &flags, kv.Op{Kind: kv.OpDeletePrefix, NS: ns, Confirm: confirm})
	}
	return command
}

// confirmDrop has the user at the terminal type the name of the namespace. Without a
// terminal it only says what would be deleted.
func confirmDrop(c *verb.Connection, command *cobra.Command, ns string) error {
	var keys int64
	err := c.Do(command, func(ctx context.Context, connected *client.Client) (err error) {
		keys, err = connected.KV(ns).Count(ctx, "")
		return err
	})
	if err != nil {
		return err
	}
	if !screen.IsTerminal(c.Stdin) {
		return verb.Usagef("drop would delete all keys of '%s' (%d); confirm with --confirm '%[1]s'", ns, keys)
	}
	fmt.Fprintf(c.Stderr, "This deletes all keys of '%s' (%d) on %s. To confirm, type the name: ", ns, keys, c.Addr)
	typed, err := bufio.NewReader(io.LimitReader(c.Stdin, 2*kv.MaxNamespace)).ReadString('\n')
	if typed = strings.TrimRight(typed, "\r\n"); typed != ns {
		return codes.Errorf(codes.Unconfirmed, "the name typed is not '%s'; nothing was deleted", ns)
	}
	return err
}

// deleteAll repeats the deletion while there is more. The token, if any, gets a number for
// each further part, so that repeating the whole repeats each part.
func deleteAll(c *verb.Connection, command *cobra.Command, flags *writeFlags, op kv.Op) error {
	t, err := flags.txn(command, c.App, op)
	if err != nil {
		return err
	}
	return c.Do(command, func(ctx context.Context, connected *client.Client) error {
		count := int64(0)
		for part := 2; ; part++ {
			res, err := apply(ctx, connected, t)
			if err != nil {
				if count > 0 {
					err = fmt.Errorf("%w (after %d keys were deleted)", err, count)
				}
				return err
			}
			count += res.Ops[0].Count
			if !res.Ops[0].More {
				res.Ops[0].Count = count
				return written(c, t, res, countOf)
			}
			if flags.token != "" {
				t.Token = flags.token + "/" + strconv.Itoa(part)
			}
		}
	})
}
