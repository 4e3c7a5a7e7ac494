package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"confcenter/client"
)

func (a *app) clientsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "clients",
		Short: "List the programs connected to the server",
		Long: `Clients lists the programs connected to the server, including this one. With -o json
it shows everything they have said about themselves.`,
		Example: `  confcenter clients
  confcenter clients -o json | jq -r '.[].svrname' | sort | uniq -c`,
		Args:              arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c := a.connect(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return c.do(command, func(ctx context.Context, connected *client.Client) error {
			list, err := connected.Clients(ctx)
			if err != nil {
				return err
			}
			slices.SortStableFunc(list, func(a, b map[string]string) int { return cmp.Compare(id(a), id(b)) })
			if c.output.json() {
				return a.printJSON(notNil(list))
			}
			return a.printClients(list)
		})
	}
	return command
}

func id(properties map[string]string) int64 {
	n, _ := strconv.ParseInt(properties["svrid"], 10, 64) // 0 if it has none
	return n
}

func (a *app) printClients(list []map[string]string) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tTAG\tADDRESS")
	for _, p := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", p["svrid"], dash(p["svrname"]), dash(p["tag"]), dash(cmp.Or(p["clisock"], p["_ip"])))
	}
	return table.Flush()
}

// dash is text as a cell of a table. Clients say about themselves what they
// like, so what could steer a terminal is shown as an escape.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
