package main

import (
	"context"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/access/secret"
	"confcenter/client"
	"confcenter/cmd/confcenter/verb"
	"confcenter/internal/jsontext"
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

func getCommand(a *verb.App) *cobra.Command {
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
	c := a.Connect(command)
	command.ValidArgsFunction = c.CompleteName
	command.Flags().BoolVarP(&merged, "merged", "m", false, "merge the file over those it inherits from, as programs see it")
	command.Flags().BoolVarP(&raw, "raw", "r", false, "print a string without its quotes")
	verb.DefineReveal(command, &reveal)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		d, err := connected.GetConfig(ctx, queryOf(args, merged, reveal))
		if err != nil {
			return err
		}
		if err := c.Show(newDocument(d), func() error { return printContents(a, d.Raw(), raw) }); err != nil {
			return err
		}
		if reveal && secret.Has(d.Raw()) {
			return verb.StillSealed(d.Name)
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

func printContents(a *verb.App, contents []byte, raw bool) error {
	text := []byte(nil)
	if raw && jsontext.KindOf(contents) == jsontext.String {
		text = jsontext.AppendUnquote(text, contents)
	} else {
		text = jsontext.AppendIndent(text, contents, "    ")
	}
	_, err := a.Stdout.Write(append(text, '\n'))
	return err
}
