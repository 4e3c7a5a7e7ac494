package main

import (
	"context"
	"fmt"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/screen"
	"confcenter/codes"
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

// freeText has nothing completed for flags, whose values are no names of files either.
func freeText(command *cobra.Command, flags ...string) {
	for _, flag := range flags {
		_ = command.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions) // as in completeChoice
	}
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

// tell writes to standard error what is not a verb's result.
func (a *app) tell(format string, args ...any) {
	a.telling.Lock()
	defer a.telling.Unlock()
	fmt.Fprintf(a.stderr, "confcenter: "+format+"\n", args...)
}

// printAll prints what a watch tells until ctx ends, which is a watch's normal end, or print has had
// enough, and stops the watch. err is why there is none.
func printAll[N any](ctx context.Context, watch interface {
	Next(context.Context) (N, error)
	Stop()
}, err error, print func(N) (enough bool, err error)) error {
	if err != nil {
		return err
	}
	defer watch.Stop()
	for {
		n, err := watch.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if enough, err := print(n); enough || err != nil {
			return err
		}
	}
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
