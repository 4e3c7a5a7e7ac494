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
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/confstore/history"
)

func (a *app) clientsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "clients [NAME]",
		Short: "List the programs connected to the server, or those that use a file",
		Long: `Clients lists the programs connected to the server, including this one. With -o json
it shows all their properties. With NAME it lists those that use that file, or one that
inherits from it, and the revision that each was last told, as log has it.`,
		Example: `  confcenter clients
  confcenter clients app1-dev
  confcenter clients -o json | jq -r '.[].svrname' | sort | uniq -c`,
	}
	c := a.connect(command)
	return c.asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		if len(args) > 0 {
			uses, err := calls.History(connected).Uses(ctx, &history.UsesAsk{Name: args[0]})
			if err != nil {
				return err
			}
			return c.show(uses, func() error { return a.printUses(uses) })
		}
		list, err := connected.Clients(ctx)
		if err != nil {
			return err
		}
		slices.SortStableFunc(list, func(a, b map[string]string) int { return cmp.Compare(id(a), id(b)) })
		return c.show(notNil(list), func() error { return a.printClients(list) })
	})
}

func (a *app) printUses(uses *history.UsesAnswer) error {
	if err := a.table("ID\tNAME\tTAG\tADDRESS\tFILE\tTOLD", screen.RowsOf(uses.Uses, func(u history.Use) []any {
		told := "-"
		switch {
		case u.Revision > 0:
			told = strconv.FormatInt(u.Revision, 10)
		case u.Told > 0:
			told = "an older one"
		case u.Main:
			told = "its main configuration"
		}
		return []any{u.ID, dash(u.Name), dash(u.Tag), dash(u.Address), dash(u.File + u.Path), told}
	})); err != nil {
		return err
	}
	return a.printf("%s@%d: %d programs use it\n", dash(uses.Name), uses.Revision, uses.Programs)
}

func id(properties map[string]string) int64 {
	n, _ := strconv.ParseInt(properties["svrid"], 10, 64) // 0 if it has none
	return n
}

func (a *app) printClients(list []map[string]string) error {
	return a.table("ID\tNAME\tTAG\tADDRESS", screen.RowsOf(list, func(p map[string]string) []any {
		return []any{p["svrid"], dash(p["svrname"]), dash(p["tag"]), dash(cmp.Or(p["clisock"], p["_ip"]))}
	}))
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
