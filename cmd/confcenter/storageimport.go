package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/serving"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/internal/settings"
	"confcenter/player/field"
	"confcenter/player/landing"
)

// variableFrom is the environment variable of --from.
const variableFrom = serving.Prefix + "_FROM"

// importFlags are those of import.
type importFlags struct {
	place
	from, landing settings.DSN
	restart       bool
}

func storageImportCommand(a *verb.App) *cobra.Command {
	var flags importFlags
	command := &cobra.Command{
		Use:   "import [TABLE…]",
		Short: "Take over tables of the homo framework",
		Long: `Import copies tables of the framework's columns from the database --from into the
database --landing, in which the server at --addr lands, and has the server find the
rows. Without a TABLE these are all tables called APPID_REGIONID. What the server has
landed is never replaced, and removed rows stay removed.

A table that is in the landing database already is only checked and announced.

An import that was interrupted goes on where it was when it is started again. One that
ran to its end starts over, and brings over what has changed since. Each row that the
server could not have is named on standard error. At the end the rows are counted: the
exit code is 5 if not all of them are there.

Give the DSNs, which have passwords, as ` + variableFrom + ` and CONFCENTER_LANDING.`,
		Example: `  confcenter storage import
  confcenter storage import 1_1 1_2
  confcenter storage import my_game_eu --app my_game --region eu`,
	}
	c := a.Connect(command)
	c.Shares = map[string]string{"from": "from", "landing": "landing"}
	flags.define(command)
	f := command.Flags()
	f.Lookup("app").Usage = "app of a single TABLE, if its name does not tell"
	f.Lookup("region").Usage = "region of a single TABLE, if its name does not tell"
	f.Var(&flags.from, "from", "database with the tables, mysql://USER:PASSWORD@HOST:PORT/DATABASE for example; also "+variableFrom)
	f.Var(&flags.landing, "landing", "database that the server lands in, written as for the server; also CONFCENTER_LANDING")
	f.BoolVar(&flags.restart, "restart", false, "start over, even if an import was interrupted")
	verb.FreeText(command, "from", "landing")
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		placed := f.Changed("app") && f.Changed("region")
		switch {
		case flags.from == "" || flags.landing == "":
			return verb.Usagef("import needs two databases: that with the tables as --from or %s, and that of the server as --landing or CONFCENTER_LANDING", variableFrom)
		case f.Changed("app") != f.Changed("region") || placed && len(args) != 1:
			return verb.Usagef("--app and --region go together, and with one TABLE")
		}
		return importTables(ctx, c, connected, &flags, args, placed)
	})
}

// moving is an import on its way.
type moving struct {
	*verb.Connection
	connected *client.Client
	from, to  *landing.Database
	restart   bool
}

func importTables(ctx context.Context, c *verb.Connection, connected *client.Client, flags *importFlags, args []string, placed bool) (err error) {
	m := &moving{Connection: c, connected: connected, restart: flags.restart}
	for _, one := range []struct {
		name string
		dsn  settings.DSN
		to   **landing.Database
	}{{"from", flags.from, &m.from}, {"landing", flags.landing, &m.to}} {
		db, err := landing.OpenDatabase(string(one.dsn))
		if err != nil {
			return verb.Usagef("%s: %w", one.name, err)
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		*one.to = db
	}
	if err := (&prover{connected, c.Addr, "--landing"}).Prove(ctx, m.to); err != nil {
		return err
	}
	if len(args) == 0 {
		if args, err = m.from.Importable(ctx); err == nil && len(args) == 0 {
			err = codes.Errorf(codes.NotFound, "there are no tables of fields in %s", m.from.Name())
		}
		if err != nil {
			return err
		}
	}
	var odd []string
	var done []map[string]any
	for _, table := range args {
		app, region, ok := field.ParseTable(table)
		if placed {
			app, region, ok = flags.app, flags.region, true
		}
		if !ok {
			odd = append(odd, table)
			continue
		}
		one, failed := m.table(ctx, table, app, region)
		if one != nil {
			done = append(done, one)
		}
		if err = errors.Join(err, failed); ctx.Err() != nil {
			break
		}
	}
	if len(odd) > 0 {
		err = errors.Join(err, codes.Errorf(codes.BadName, "not imported: %s; the names do not tell which part is the app: name one table at a time, with --app and --region", strings.Join(odd, ", ")))
	}
	return errors.Join(c.ShowTable(done, "TABLE\tINTO\tROWS\tTHERE\tCONVERTED\tREFUSED", screen.RowsOf(done, func(t map[string]any) []any {
		return []any{t["table"], t["into"], t["rows"], t["there"], t["converted"], t["refused"]}
	})), err)
}

// How much is told of the way.
const (
	progressEvery  = 10 * time.Second
	shownConverted = 3 // rows of a table; there may be millions
)

// table imports one table, and has the server know of it.
func (m *moving) table(ctx context.Context, table, app, region string) (map[string]any, error) {
	t := &movedTable{moving: m, table: table, app: app, region: region, began: time.Now(), shown: map[string]int{}}
	t.told = t.began
	job := &landing.Import{From: m.from, To: m.to, Table: table, App: app, Region: region, Restart: m.restart, Told: func(now *landing.Imported) error { return t.progress(ctx, now) }, Listed: t.list}
	now, err := job.Run(ctx)
	if err == nil {
		err = t.announce(ctx, now)
	}
	if err != nil {
		return nil, fmt.Errorf("table %s: %w; give the same command again to go on", table, err)
	}
	if now.Converted > shownConverted {
		m.Tell("table %s: %d rows have other keys now, because of colons in their ids", table, now.Converted)
	}
	if now.Odd > 0 {
		m.Tell("table %s: %d rows look wrong, and are taken over as they are", table, now.Odd)
	}
	out := map[string]any{"table": table, "into": now.Target, "rows": now.Total, "there": now.There, "converted": now.Converted, "refused": now.Refused, "missing": now.Missing, "odd": now.Odd, "copied": !now.Same}
	if err := now.Verdict(); err != nil {
		return out, fmt.Errorf("table %s: %w", table, err)
	}
	return out, nil
}

// movedTable is one table on its way.
type movedTable struct {
	*moving
	table, app, region string
	began, told        time.Time
	begun              bool
	shown              map[string]int // rows that are not refused, by how their reasons begin
}

// list names a row.
func (t *movedTable) list(key, why string, refused bool) {
	kind, _, _ := strings.Cut(why, `"`)
	if !refused {
		t.shown[kind]++
	}
	if refused || t.shown[kind] <= shownConverted {
		t.Tell("table %s: row %q: %s", t.table, key, why)
	}
}

// progress says from time to time how far it is. The server looks for the rows from the first
// page on.
func (t *movedTable) progress(ctx context.Context, now *landing.Imported) error {
	if !t.begun {
		t.begun = true
		if err := t.announce(ctx, now); err != nil {
			return err
		}
	}
	if since := time.Since(t.told); since >= progressEvery {
		t.told = time.Now()
		rows, in := now.Read-now.Before, time.Since(t.began)
		t.Tell("table %s: %d of %d rows, %.0f a second, about %v left", t.table, now.Read, now.Total, float64(rows)/in.Seconds(), now.Left(in))
	}
	return nil
}

// announce has the server find the rows.
func (t *movedTable) announce(ctx context.Context, now *landing.Imported) error {
	return t.connected.Landing().Rescan(ctx, t.app, t.region, now.Newest)
}
