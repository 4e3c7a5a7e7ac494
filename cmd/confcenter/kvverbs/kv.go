// Package kvverbs has the verbs of the state store, below confcenter kv.
package kvverbs

import (
	"context"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/verb"
	"confcenter/kv"
)

// Command is the group of verbs for the state store.
func Command(a *verb.App) *cobra.Command {
	group := verb.Grouped(&cobra.Command{
		Use:   "kv",
		Short: "Read and write the state store",
		Long: `Kv reads and writes the server's state store: typed values under keys in
namespaces. Writes are durable, and each change has its own revision.

A value has type string, int, double, bool, bytes or json and comes back as it
was written. Where a verb takes a VALUE, "@FILE" is the contents of a file and "-"
is standard input; after "--" a VALUE may begin with a dash.`,
		Example: `  confcenter kv put jobs owner ann --ttl 1m
  confcenter kv get jobs owner
  confcenter kv incr jobs done
  confcenter kv list jobs task/ --limit 20
  confcenter kv watch jobs --state
  confcenter kv lock jobs nightly -- ./nightly.sh`,
	}, "kv needs a verb, get or put for example",
		getCommand(a), mgetCommand(a), listCommand(a), namespacesCommand(a), historyCommand(a), statCommand(a),
		delCommand(a), dropCommand(a), txnCommand(a), leaseCommand(a), lockCommand(a), watchCommand(a),
		putCommand(a), casCommand(a), restoreCommand(a)) // these set a value
	for _, kind := range kv.OpKinds() {
		if kind.Follows() {
			group.AddCommand(opCommand(a, kind))
		}
	}
	return group
}

// connect is Connect for a verb whose arguments are a namespace and then that many
// keys; less than 0 means any number.
func connect(a *verb.App, command *cobra.Command, keys int, forms ...string) *verb.Connection {
	c := a.Connect(command, forms...)
	command.ValidArgsFunction = func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return completeNamespace(c, command, prefix)
		case keys < 0 || len(args) <= keys:
			return completeKey(c, command, args[0], prefix)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// maxCompletions is how many keys are offered at once; more would not help.
const maxCompletions = 200

func completeNamespace(c *verb.Connection, command *cobra.Command, prefix string) ([]string, cobra.ShellCompDirective) {
	return c.Complete(command, prefix, func(ctx context.Context, connected *client.Client) (names []string, err error) {
		list, err := connected.Namespaces(ctx)
		for _, ns := range list {
			names = append(names, ns.Name)
		}
		return names, err
	})
}

func completeKey(c *verb.Connection, command *cobra.Command, ns, prefix string) ([]string, cobra.ShellCompDirective) {
	return c.Complete(command, prefix, func(ctx context.Context, connected *client.Client) (keys []string, err error) {
		page, err := connected.KV(ns).List(ctx, kv.List{Prefix: prefix, Limit: maxCompletions})
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
		return keys, err
	})
}
