package main

import (
	"fmt"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/screen"
	"confcenter/confstore/history"
	"confcenter/internal/settings"
)

// chooses adds a choice to a command as a flag, with completion.
func chooses(command *cobra.Command, c *settings.Choice, name, shorthand, usage string) {
	command.Flags().VarP(c, name, shorthand, usage)
	completeChoice(command, c, name)
}

// completeChoice completes a flag that there is with the words that it takes.
func completeChoice(command *cobra.Command, c *settings.Choice, name string) {
	// It fails only for a flag that does not exist or has one already.
	_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.Allowed, cobra.ShellCompDirectiveNoFileComp))
}

// newOutput is the value of -o; more are formats besides text and json.
func newOutput(more ...string) *settings.Choice {
	return &settings.Choice{Value: "text", Allowed: append([]string{"text", "json"}, more...)}
}

// table prints columns as screen.Table does.
func (a *app) table(header string, rows [][]any) error { return screen.Table(a.stdout, header, rows) }

// printf prints a verb's result.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
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

// readTime reads a time as people write it, and repeats it as repeatTime does; what is the setting that
// has it.
func (a *app) readTime(what, text string) (time.Time, error) {
	at, ok := history.ParseTime(text)
	if !ok {
		return at, usageError{fmt.Errorf("%s = %s: must be a time like 2026-11-22T18:00:00Z", what, text)}
	}
	a.repeatTime(text)
	return at, nil
}

// repeatTime says on standard error how a time is meant that is not written in UTC, before anything
// follows from it. Other moments are none of its business.
func (a *app) repeatTime(text string) {
	if at, ok := history.ParseTime(text); ok {
		if meant := at.Format(time.RFC3339Nano); meant != text {
			fmt.Fprintf(a.stderr, "confcenter: %s is %s\n", text, meant)
		}
	}
}
