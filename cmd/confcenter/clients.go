package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"confcenter/client"
)

func (a *app) clientsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "clients",
		Short: "List the programs connected to the server",
		Long: `Clients lists the programs connected to the server, including this one. With -o json
it shows all their properties.`,
		Example: `  confcenter clients
  confcenter clients -o json | jq -r '.[].svrname' | sort | uniq -c`,
	}
	c := a.connect(command)
	return c.asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		list, err := connected.Clients(ctx)
		if err != nil {
			return err
		}
		slices.SortStableFunc(list, func(a, b map[string]string) int { return cmp.Compare(id(a), id(b)) })
		return c.show(notNil(list), func() error { return a.printClients(list) })
	})
}

func id(properties map[string]string) int64 {
	n, _ := strconv.ParseInt(properties["svrid"], 10, 64) // 0 if it has none
	return n
}

func (a *app) printClients(list []map[string]string) error {
	return a.table("ID\tNAME\tTAG\tADDRESS", func(row func(string, ...any)) {
		for _, p := range list {
			row("%s\t%s\t%s\t%s", p["svrid"], dash(p["svrname"]), dash(p["tag"]), dash(cmp.Or(p["clisock"], p["_ip"])))
		}
	})
}

// dash is text as a cell of a table. Clients choose their texts, so characters that could
// control a terminal are escaped.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
