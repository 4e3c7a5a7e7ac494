package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/confstore/history"
)

func clientsCommand(a *verb.App) *cobra.Command {
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
	c := a.Connect(command)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		if len(args) > 0 {
			uses, err := calls.History(connected).Uses(ctx, &history.UsesAsk{Name: args[0]})
			if err != nil {
				return err
			}
			return c.Show(uses, func() error { return printUses(a, uses) })
		}
		list, err := connected.Clients(ctx)
		if err != nil {
			return err
		}
		slices.SortStableFunc(list, func(a, b map[string]string) int { return cmp.Compare(id(a), id(b)) })
		return c.Show(notNil(list), func() error { return printClients(a, list) })
	})
}

func printUses(a *verb.App, uses *history.UsesAnswer) error {
	if err := a.Table("ID\tNAME\tTAG\tADDRESS\tFILE\tTOLD", screen.RowsOf(uses.Uses, func(u history.Use) []any {
		told := "-"
		switch {
		case u.Revision > 0:
			told = strconv.FormatInt(u.Revision, 10)
		case u.Told > 0:
			told = "an older one"
		case u.Main:
			told = "its main configuration"
		}
		return []any{u.ID, screen.Cell(u.Name), screen.Cell(u.Tag), screen.Cell(u.Address), screen.Cell(u.File + u.Path), told}
	})); err != nil {
		return err
	}
	return a.Printf("%s@%d: %d programs use it\n", screen.Cell(uses.Name), uses.Revision, uses.Programs)
}

func id(properties map[string]string) int64 {
	n, _ := strconv.ParseInt(properties["svrid"], 10, 64) // 0 if it has none
	return n
}

func printClients(a *verb.App, list []map[string]string) error {
	return a.Table("ID\tNAME\tTAG\tADDRESS", screen.RowsOf(list, func(p map[string]string) []any {
		return []any{p["svrid"], screen.Cell(p["svrname"]), screen.Cell(p["tag"]), screen.Cell(cmp.Or(p["clisock"], p["_ip"]))}
	}))
}
