package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value   string
	allowed []string
}

var _ pflag.Value = (*choice)(nil)

// Set takes text if it is one of the words.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = text
	return nil
}

// String is the word chosen.
func (c *choice) String() string { return c.value }

// Type is how help shows the flag's argument.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// define adds the choice to a command as a flag, with completion.
func (c *choice) define(command *cobra.Command, name, shorthand, usage string) {
	command.Flags().VarP(c, name, shorthand, usage)
	// It fails only for a flag that does not exist or has one already.
	_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// newOutput is the value of -o; more are formats besides text and json.
func newOutput(more ...string) *choice {
	return &choice{value: "text", allowed: append([]string{"text", "json"}, more...)}
}

func (c *choice) json() bool { return c.value == "json" }

// table prints columns: a header, and a line for each call of row.
func (a *app) table(header string, rows func(row func(format string, cells ...any))) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if header != "" {
		fmt.Fprintln(w, header)
	}
	rows(func(format string, cells ...any) { fmt.Fprintf(w, format+"\n", cells...) })
	return w.Flush()
}

// printing does not escape the characters of HTML.
var printing = jsoniter.Config{SortMapKeys: true}.Froze()

// printJSON writes v on one line, provided that raw JSON in it is compact.
func (a *app) printJSON(v any) error {
	line, err := printing.Marshal(v)
	if err == nil {
		_, err = a.stdout.Write(append(line, '\n'))
	}
	return err
}
