package main

import (
	"context"
	"fmt"
	"slices"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/access/secret"
	"confcenter/client"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// document is a document in -o json.
type document struct {
	Name     string              `json:"name"`
	Path     string              `json:"path,omitempty"`
	Merged   bool                `json:"merged"`
	Mtime    int32               `json:"mtime"`
	Exists   bool                `json:"exists"`
	Contents jsoniter.RawMessage `json:"contents"`         // null if it does not exist
	Broken   string              `json:"broken,omitempty"` // why, of a file that is there but was never good
}

func newDocument(d *client.Document) document {
	return document{Name: d.Name, Path: d.Path, Merged: d.Merged, Mtime: d.Mtime, Exists: d.Exists(), Contents: d.Raw()}
}

func (a *app) getCommand() *cobra.Command {
	var merged, raw, reveal bool
	command := &cobra.Command{
		Use:   "get NAME [PATH]",
		Short: "Print a file, or what is at a key path in it",
		Long: `Get prints the file NAME as the server has it, or the part of it at PATH, a key
path such as /database/hosts/0. NAME may omit ".json".

Text output is indented; -o json prints the mtime and the contents on one line.
The exit code is 3 if there is no such file or nothing at PATH, and 5 if --reveal had
to leave something sealed, which is printed as a mark.`,
		Example: `  confcenter get app1-dev.json
  confcenter get app1-dev /key3/subkey3 --raw
  confcenter get app1-dev --merged -o json`,
	}
	c := a.connect(command)
	command.ValidArgsFunction = c.completeName
	command.Flags().BoolVarP(&merged, "merged", "m", false, "merge the file over those it inherits from, as programs see it")
	command.Flags().BoolVarP(&raw, "raw", "r", false, "print a string without its quotes")
	defineReveal(command, &reveal)
	return c.asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		d, err := connected.GetConfig(ctx, queryOf(args, merged, reveal))
		if err != nil {
			return err
		}
		if err := c.show(newDocument(d), func() error { return a.printContents(d.Raw(), raw) }); err != nil {
			return err
		}
		if reveal && secret.Has(d.Raw()) {
			return stillSealed(d.Name)
		}
		return nil
	})
}

// queryOf is the query for the arguments NAME [PATH].
func queryOf(args []string, merged, reveal bool) client.Query {
	query := client.Query{Name: args[0], Merged: merged, Marks: !reveal}
	if len(args) > 1 {
		query.Path = args[1]
	}
	return query
}

// defineReveal defines the flag of verbs that print marks unless they are told not to: what they
// print is mostly looked at, kept or written back.
func defineReveal(command *cobra.Command, reveal *bool) {
	command.Flags().BoolVar(reveal, "reveal", false, "print sealed values instead of their marks, as far as you may know them")
}

// stillSealed is for those who asked for values and were given marks: a program that takes a mark
// for a password is refused somewhere else, and no one knows why.
func stillSealed(names ...string) error {
	more := ""
	if n := len(names) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return codes.Errorf(codes.Forbidden, "%s%s: there are values that stay sealed: you have no right to reveal them, or the server has not got their key; confcenter secret status tells", names[0], more)
}

// stillSealedOf is stillSealed for those of the entries that are; nil: none is, or it was not asked for.
func stillSealedOf(reveal bool, entries ...*kv.Entry) error {
	if !reveal {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e != nil && e.Value.Type == kv.JSON && secret.Has(e.Value.Data) && !slices.Contains(names, e.NS+"/"+e.Key) {
			names = append(names, e.NS+"/"+e.Key)
		}
	}
	if names == nil {
		return nil
	}
	return stillSealed(names...)
}

func (a *app) printContents(contents []byte, raw bool) error {
	text := []byte(nil)
	if raw && jsontext.KindOf(contents) == jsontext.String {
		text = jsontext.AppendUnquote(text, contents)
	} else {
		text = jsontext.AppendIndent(text, contents, "    ")
	}
	_, err := a.stdout.Write(append(text, '\n'))
	return err
}
