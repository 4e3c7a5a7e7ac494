package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/kvverbs"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/internal/settings"
	"confcenter/kv"
	"confcenter/player/field"
)

// storageCommand is the group of verbs for player storage.
func storageCommand(a *verb.App) *cobra.Command {
	return verb.Grouped(&cobra.Command{
		Use:   "storage",
		Short: "Read and write the fields of players and other owners",
		Long: `Storage reads and writes player storage: fields of owners, which the server keeps in
memory and on its disk and lands in a database. An owner is LOGIC, the kind of owner,
and OWNER, its id, in an app and a region.

Where a verb takes NAME=VALUE, a VALUE "@FILE" is the contents of a file and "-" is
standard input.`,
		Example: `  confcenter storage update bag 42 gold=10 name=Ann
  confcenter storage incr bag 42 gold=5 wins
  confcenter storage get bag 42 gold
  confcenter storage owners bag --count
  confcenter storage status`,
	}, "storage needs a verb, get or update for example",
		storageGetCommand(a), storageAllCommand(a), storageUpdateCommand(a), storageIncrCommand(a), storageRemoveCommand(a),
		storageRestoreCommand(a), storageOwnersCommand(a), landingStatusCommand(a), landingErrorsCommand(a), landingRetryCommand(a), landingRelandCommand(a), landingDropCommand(a), storageImportCommand(a))
}

// place has the flags that say whose fields are meant.
type place struct{ app, region string }

func (p *place) define(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&p.app, "app", field.DefaultID, "app of the owner")
	f.StringVar(&p.region, "region", field.DefaultID, "region of the owner")
	verb.FreeText(command, "app", "region")
}

func (p *place) storage(connected *client.Client) *client.Storage {
	return connected.StorageOf(p.app, p.region)
}

func storageGetCommand(a *verb.App) *cobra.Command {
	var p place
	var versions bool
	command := &cobra.Command{
		Use:   "get LOGIC OWNER NAME…",
		Short: "Print fields of an owner",
		Long: `Get prints the named fields that there are. With one NAME it prints just the value,
and the exit code is 3 if there is none; -o raw prints nothing but its bytes.`,
		Example: `  confcenter storage get bag 42 gold
  confcenter storage get bag 42 gold name -o json
  confcenter storage get bag 42 pic -o raw > pic.png`,
	}
	c := a.Connect(command, kvverbs.FormRaw)
	p.define(command)
	command.Flags().BoolVar(&versions, "versions", false, "also print the versions of the fields")
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		owner, names := p.storage(connected).Owner(args[0], args[1]), args[2:]
		fields, err := owner.GetVersions(ctx, names...)
		switch {
		case err != nil:
			return err
		case len(names) == 1 && len(fields) == 0:
			return codes.Errorf(codes.NotFound, "%s has no field %q", owner, names[0])
		case len(names) == 1 && !versions && !c.JSON():
			return kvverbs.PrintValue(c, valueOf(fields[0].Value))
		case c.Output.Value == kvverbs.FormRaw:
			return verb.Usagef("-o raw prints the value of one NAME")
		}
		return showFields(c, fields, versions)
	})
}

func storageAllCommand(a *verb.App) *cobra.Command {
	var p place
	command := &cobra.Command{
		Use:     "all LOGIC OWNER",
		Short:   "Print all fields of an owner",
		Long:    `All prints the fields of an owner, all as of one moment. An owner without fields is not an error.`,
		Example: `  confcenter storage all bag 42 -o json`,
	}
	c := a.Connect(command)
	p.define(command)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		all, err := p.storage(connected).Owner(args[0], args[1]).All(ctx)
		if err != nil {
			return err
		}
		return showFields(c, fieldsOf(all), false)
	})
}

// showFields prints fields in the order of their names: as the members fields, bytes and
// versions of the protocol, or as a table.
func showFields(c *verb.Connection, fields []client.StorageField, versions bool) error {
	slices.SortFunc(fields, func(a, b client.StorageField) int { return cmp.Compare(a.Name, b.Name) })
	header := map[bool]string{false: "NAME\tVALUE", true: "NAME\tVALUE\tVERSION"}[versions]
	return c.ShowTable(fieldMembers(fields, versions), header, screen.RowsOf(fields, func(f client.StorageField) []any {
		row := []any{screen.Cell(f.Name), kvverbs.Brief(valueOf(f.Value))}
		if versions {
			row = append(row, f.Version)
		}
		return row
	}))
}

// fieldMembers are the members that fields have in -o json.
func fieldMembers(fields []client.StorageField, versions bool) map[string]any {
	texts, octets, numbers := map[string]string{}, map[string][]byte{}, map[string]int64{}
	for _, f := range fields {
		if numbers[f.Name] = f.Version; utf8.Valid(f.Value) {
			texts[f.Name] = string(f.Value)
		} else {
			octets[f.Name] = f.Value
		}
	}
	out := map[string]any{"fields": texts}
	if len(octets) > 0 {
		out["bytes"] = octets
	}
	if versions {
		out["versions"] = numbers
	}
	return out
}

// valueOf is a field's value for printing: a text if it is UTF-8.
func valueOf(data []byte) kv.Value {
	if utf8.Valid(data) {
		return kv.Value{Type: kv.String, Data: data}
	}
	return kv.BytesValue(data)
}

// ownerFlags are the flags of writes.
type ownerFlags struct {
	Token  string   `flag:"token" doc:"token of this write: writes with the same token are applied once, however often they are sent"`
	Expect []string `flag:"if-version" doc:"NAME=VERSION: write only if the field has that version, 0 = it is absent; may be repeated"`
	Prev   bool     `flag:"prev" doc:"with -o json, also print what the fields were before"`
	place
}

func (w *ownerFlags) define(command *cobra.Command) {
	w.place.define(command)
	settings.Define(command.Flags(), w)
	verb.FreeText(command, "token", "if-version")
}

func (w *ownerFlags) options() ([]client.Option, error) {
	var opts []client.Option
	if w.Token != "" {
		opts = append(opts, client.WithToken(w.Token))
	}
	if w.Prev {
		opts = append(opts, client.WithPrev())
	}
	if len(w.Expect) > 0 {
		versions, err := numbersOf(w.Expect, "if-version = %s: must be NAME=VERSION")
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.IfVersions(versions))
	}
	return opts, nil
}

// numbersOf reads NAME=N arguments.
func numbersOf(args []string, refusal string) (map[string]int64, error) {
	numbers := make(map[string]int64, len(args))
	for _, arg := range args {
		i := strings.LastIndexByte(arg, '=') // the last, because names may have one and numbers have none
		n, err := strconv.ParseInt(arg[i+1:], 10, 64)
		if i < 0 || err != nil {
			return nil, verb.Usagef(refusal, arg)
		}
		if _, twice := numbers[arg[:i]]; twice {
			return nil, namedTwice(arg[:i])
		}
		numbers[arg[:i]] = n
	}
	return numbers, nil
}

func namedTwice(name string) error {
	return verb.Usagef("field %q is named twice", name)
}

// ownerWrite is a method of Owner for T, which the arguments behind LOGIC and OWNER say.
type ownerWrite[T any] func(o *client.Owner, ctx context.Context, what T, opts ...client.Option) (client.Changed, error)

// writes makes command a write: read reads the arguments, before there is a connection, and text
// is what is printed as text.
func writes[T any](c *verb.Connection, command *cobra.Command, read func(args []string) (T, error), write ownerWrite[T], text func(client.Changed) any) *cobra.Command {
	var flags ownerFlags
	flags.define(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		opts, err := flags.options()
		if err != nil {
			return err
		}
		what, err := read(args[2:])
		if err != nil {
			return err
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			done, err := write(flags.storage(connected).Owner(args[0], args[1]), ctx, what, opts...)
			if errors.Is(err, codes.Conflict) {
				return fmt.Errorf("%w; the versions are %v", err, done.Versions)
			}
			if err != nil {
				return err
			}
			return showChanged(c, done, flags.Prev, text(done))
		})
	}
	return command
}

func showChanged(c *verb.Connection, done client.Changed, prev bool, text any) error {
	out := map[string]any{"revision": done.Revision, "versions": done.Versions}
	if done.Values != nil {
		out["values"] = done.Values
	}
	if done.Fields != nil {
		maps.Copy(out, fieldMembers(fieldsOf(done.Fields), false))
	}
	if prev {
		out["prev"] = fieldMembers(fieldsOf(done.Prev), false)
	}
	return c.ShowLine(out, text)
}

func theNames(args []string) ([]string, error) { return args, nil }

func fieldsOf(values map[string][]byte) (fields []client.StorageField) {
	for name, value := range values {
		fields = append(fields, client.StorageField{Name: name, Value: value})
	}
	return fields
}

func revisionOf(done client.Changed) any { return fmt.Sprint("revision ", done.Revision) }

func storageUpdateCommand(a *verb.App) *cobra.Command {
	var octets bool
	command := &cobra.Command{
		Use:   "update LOGIC OWNER NAME=VALUE…",
		Short: "Set fields of an owner",
		Long: `Update sets the named fields, leaves all others as they are, and prints the revision
once it is on the server's disk. A removed field lives again. The exit code is 5 if a
field does not have the version of --if-version; then nothing has changed.`,
		Example: `  confcenter storage update bag 42 gold=10 name=Ann
  confcenter storage update bag 42 pic=@pic.png
  confcenter storage update bag 42 pic=AAH/ --base64
  confcenter storage update bag 42 gold=11 --if-version gold=0`,
	}
	c := a.Connect(command)
	command.Flags().BoolVar(&octets, "base64", false, "each VALUE is base64")
	return writes(c, command, func(args []string) (map[string][]byte, error) { return fieldValues(a, args, octets) }, (*client.Owner).Update, revisionOf)
}

// fieldValues reads NAME=VALUE arguments.
func fieldValues(a *verb.App, args []string, octets bool) (map[string][]byte, error) {
	fields, input := make(map[string][]byte, len(args)), ""
	for _, arg := range args {
		name, text, given := strings.Cut(arg, "=")
		if !given {
			return nil, verb.Usagef("%q must be NAME=VALUE", arg)
		}
		if _, twice := fields[name]; twice {
			return nil, namedTwice(name)
		}
		if text == "-" {
			if input != "" {
				return nil, verb.Usagef("standard input is one VALUE, and cannot be that of %s and %s", input, name)
			}
			input = name
		}
		value, err := a.ReadArgument(text)
		if err != nil {
			return nil, fmt.Errorf("value of %s: %w", name, err)
		}
		if octets {
			if value, err = base64.StdEncoding.DecodeString(string(value)); err != nil {
				return nil, verb.Usagef("value of %s: %w", name, err)
			}
		}
		fields[name] = value
	}
	return fields, nil
}

func storageIncrCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "incr LOGIC OWNER NAME[=N]…",
		Short: "Add to fields of an owner",
		Long: `Incr adds N, or 1, to each named field and prints the sums. An absent field counts as
0. If one field is not a number, or a sum would exceed 64 bits, no field changes and
the exit code is 5.`,
		Example: `  confcenter storage incr bag 42 wins
  confcenter storage incr bag 42 gold=-5 wins=1`,
	}
	return writes(a.Connect(command), command, func(args []string) (map[string]int64, error) {
		for i, arg := range args {
			if !strings.Contains(arg, "=") {
				args[i] += "=1"
			}
		}
		return numbersOf(args, "%q must be NAME or NAME=N, where N is a number")
	}, (*client.Owner).Incr, func(done client.Changed) any {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(done.Values)) {
			lines = append(lines, fmt.Sprintf("%s=%d", screen.Cell(name), done.Values[name]))
		}
		return strings.Join(lines, "\n")
	})
}

func storageRemoveCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "remove LOGIC OWNER NAME…",
		Short:   "Remove fields of an owner; restore brings them back",
		Long:    `Remove removes the named fields and prints the revision. Absent ones are not an error.`,
		Example: `  confcenter storage remove bag 42 gold`,
	}
	return writes(a.Connect(command), command, theNames, (*client.Owner).Remove, revisionOf)
}

func storageRestoreCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "restore LOGIC OWNER NAME…",
		Short: "Bring removed fields of an owner back",
		Long: `Restore gives removed fields the values that they had last, and prints the revision.
The exit code is 3 if one of them was never written.`,
		Example: `  confcenter storage restore bag 42 gold`,
	}
	return writes(a.Connect(command), command, theNames, (*client.Owner).Restore, revisionOf)
}

func storageOwnersCommand(a *verb.App) *cobra.Command {
	var p place
	var count bool
	var limit uint
	command := &cobra.Command{
		Use:   "owners [LOGIC]",
		Short: "List owners that have fields",
		Example: `  confcenter storage owners
  confcenter storage owners bag --limit 20
  confcenter storage owners bag --count`,
	}
	c := a.Connect(command)
	p.define(command)
	command.Flags().BoolVar(&count, "count", false, "print only how many there are")
	command.Flags().UintVar(&limit, "limit", 0, "maximum number of owners to print; 0 = all")
	command.MarkFlagsMutuallyExclusive("count", "limit")
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		logic := ""
		if len(args) > 0 {
			logic = args[0]
		}
		if count {
			return c.ShowCount(p.storage(connected).CountOwners(ctx, logic))
		}
		list := []map[string]string{}
		for owner, err := range p.storage(connected).Owners(ctx, logic) {
			if err != nil {
				return err
			}
			if list = append(list, map[string]string{"logicType": owner.Logic, "ownerId": owner.ID}); uint(len(list)) == limit {
				break
			}
		}
		return c.ShowTable(list, "LOGIC\tOWNER", screen.RowsOf(list, func(o map[string]string) []any { return []any{screen.Cell(o["logicType"]), screen.Cell(o["ownerId"])} }))
	})
}
