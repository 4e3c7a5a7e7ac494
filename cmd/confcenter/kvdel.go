package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/kv"
)

func (a *app) kvDelCommand() *cobra.Command {
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
	c := a.kvConnect(command, 1)
	command.Flags().BoolVar(&prefix, "prefix", false, "delete all keys that begin with PREFIX")
	flags.define(command)
	flags.defineKey(command)
	command.MarkFlagsMutuallyExclusive("prefix", "if-mod")
	command.MarkFlagsMutuallyExclusive("prefix", "prev")
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case prefix && args[1] == "":
			return usageError{errors.New("the prefix is empty; to delete a whole namespace use drop")}
		case prefix:
			return c.deleteAll(command, &flags, args[0], args[1])
		}
		return c.commit(command, &flags, kv.Op{Kind: kv.OpDelete, NS: args[0], Key: args[1]}, countOf)
	}
	return command
}

func (a *app) kvDropCommand() *cobra.Command {
	var flags writeFlags
	var yes bool
	command := &cobra.Command{
		Use:   "drop NS --yes",
		Short: "Delete all keys of a namespace",
		Long: `Drop deletes all keys of a namespace and prints how many there were. It requires
--yes, because it is easily done to the wrong namespace.`,
		Example: `  confcenter kv list old --count
  confcenter kv drop old --yes`,
	}
	c := a.kvConnect(command, 0)
	command.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	flags.define(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		if !yes {
			return usageError{fmt.Errorf("drop deletes all keys of %s; confirm with --yes", args[0])}
		}
		return c.deleteAll(command, &flags, args[0], "")
	}
	return command
}

// deleteAll repeats the deletion while there is more. The token, if any, gets a number for
// each further part, so that repeating the whole repeats each part.
func (c *connection) deleteAll(command *cobra.Command, flags *writeFlags, ns, prefix string) error {
	t, err := flags.txn(command, c.app, kv.Op{Kind: kv.OpDeletePrefix, NS: ns, Key: prefix})
	if err != nil {
		return err
	}
	return c.do(command, func(ctx context.Context, connected *client.Client) error {
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
				return c.written(t, res, countOf)
			}
			if flags.token != "" {
				t.Token = flags.token + "/" + strconv.Itoa(part)
			}
		}
	})
}
