package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/kv/kvjson"
)

func landingStatusCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "status",
		Short: "Say how landing in the database gets on",
		Long: `Status prints a line for each dirty table: how many fields the database has not got
yet and since when the oldest of them waits, how many it has refused, when rows were
landed last, and how many a second.`,
		Example: `  confcenter storage status -o json | jq '.[].dirty'`,
	}
	c := a.Connect(command)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		tables, err := connected.Landing().Status(ctx)
		if err != nil {
			return err
		}
		rows := screen.RowsOf(tables, func(t client.LandingTable) []any {
			return []any{screen.Cell(t.List), t.Dirty, screen.Moment(t.Oldest), t.Refused, t.Dropped, t.Landed, screen.Moment(t.Last), fmt.Sprint(t.Rate, "/s")}
		})
		return c.ShowTable(jsoniter.RawMessage(kvjson.AppendList(nil, kvjson.File, tables)), "LIST\tDIRTY\tOLDEST\tERRORS\tDROPPED\tLANDED\tLAST\tRATE", rows)
	})
}

func landingErrorsCommand(a *verb.App) *cobra.Command {
	var limit uint
	command := &cobra.Command{
		Use:     "errors",
		Short:   "List fields that the database has refused",
		Example: `  confcenter storage errors --limit 20`,
	}
	c := a.Connect(command)
	command.Flags().UintVar(&limit, "limit", 0, "maximum number of fields to print; 0 = all")
	return c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		list, err := refused(ctx, connected, int(limit))
		if err != nil {
			return err
		}
		rows := screen.RowsOf(list, func(e client.LandingError) []any {
			return []any{screen.Cell(e.Owner.App), screen.Cell(e.Owner.Region), screen.Cell(e.Owner.Logic), screen.Cell(e.Owner.ID), screen.Cell(e.Name), e.Attempts, screen.Moment(e.Next), strconv.Quote(e.Reason)}
		})
		return c.ShowTable(jsoniter.RawMessage(kvjson.AppendList(nil, kvjson.File, list)), "APP\tREGION\tLOGIC\tOWNER\tNAME\tATTEMPTS\tNEXT\tREASON", rows)
	})
}

// refused reads page after page of the list of errors.
func refused(ctx context.Context, connected *client.Client, limit int) (list []client.LandingError, err error) {
	for after := (client.FieldName{}); ; {
		rest := 0
		if limit > 0 {
			rest = limit - len(list)
		}
		page, more, err := connected.Landing().Errors(ctx, after, rest)
		if list = append(list, page...); err != nil || !more || len(page) == 0 || len(list) == limit {
			return list, err
		}
		after = page[len(page)-1].Ref()
	}
}

func landingRetryCommand(a *verb.App) *cobra.Command {
	var p place
	command := &cobra.Command{
		Use:   "retry | retry LOGIC OWNER NAME…",
		Short: "Try again to land what the database has refused",
		Long:  `Retry has all refused fields landed again at once, or only those named, and prints how many.`,
		Example: `  confcenter storage retry
  confcenter storage retry bag 42 pic`,
	}
	c := a.Connect(command)
	p.define(command)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		return c.ShowCount(connected.Landing().Retry(ctx, p.fields(args)...))
	})
}

func landingRelandCommand(a *verb.App) *cobra.Command {
	var text string
	command := &cobra.Command{
		Use:   "reland",
		Short: "Land once more what the landing database has lost",
		Long: `Reland is for a landing database that has gone back in time, as one that was restored
from its own backup. All that the server has in memory, or that was written since a time,
is landed once more, and the number of fields is printed. What had left memory before is
only in the database.`,
		Example: `  confcenter storage reland --since 2026-11-22T18:00:00Z
  confcenter storage reland`,
		Args: cobra.NoArgs,
	}
	c := a.Connect(command)
	command.Flags().StringVar(&text, "since", "", "a time like 2026-11-22T18:00:00Z, that of the database's backup or before; empty = all that is in memory")
	verb.FreeText(command, "since")
	return c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) (err error) {
		var since time.Time
		if text != "" {
			if since, err = a.ReadTime("--since", text); err != nil {
				return err
			}
		}
		return c.ShowCount(connected.Landing().Reland(ctx, since))
	})
}

// fields are those that the arguments LOGIC OWNER NAME… name.
func (p *place) fields(args []string) (list []client.FieldName) {
	for i := 2; i < len(args); i++ {
		f := client.FieldName{Name: args[i]}
		f.Owner.App, f.Owner.Region, f.Owner.Logic, f.Owner.ID = p.app, p.region, args[0], args[1]
		list = append(list, f)
	}
	return list
}

func landingDropCommand(a *verb.App) *cobra.Command {
	var p place
	var confirm int64
	command := &cobra.Command{
		Use:   "drop --confirm N | drop LOGIC OWNER NAME… --confirm N",
		Short: "Give up landing fields that the database has refused",
		Long: `Drop gives up all refused fields, or only those named, and prints how many. Their values
stay in the store, and the database gets them when they change. --confirm is how many
it gives up, not counting what was given up before: without it, drop only says how many.`,
		Example: `  confcenter storage drop bag 42 pic --confirm 1
  confcenter storage drop --confirm 12`,
	}
	c := a.Connect(command)
	p.define(command)
	command.Flags().Int64Var(&confirm, "confirm", 0, "how many refused fields are given up")
	verb.FreeText(command, "confirm")
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		return c.ShowCount(connected.Landing().Drop(ctx, confirm, p.fields(args)...))
	})
}
