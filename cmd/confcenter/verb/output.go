package verb

import (
	"context"
	"fmt"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/screen"
	"confcenter/codes"
	"confcenter/internal/settings"
)

// Chooses adds a choice to a command as a flag, with completion.
func Chooses(command *cobra.Command, c *settings.Choice, name, shorthand, usage string) {
	command.Flags().VarP(c, name, shorthand, usage)
	CompleteChoice(command, c, name)
}

// CompleteChoice completes a flag that there is with the words that it takes.
func CompleteChoice(command *cobra.Command, c *settings.Choice, name string) {
	// It fails only for a flag that does not exist or has one already.
	_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.Allowed, cobra.ShellCompDirectiveNoFileComp))
}

// FreeText has no names of files completed for flags that there are.
func FreeText(command *cobra.Command, flags ...string) {
	for _, flag := range flags {
		_ = command.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions) // as in completeChoice
	}
}

// newOutput is the value of -o; more are formats besides text and json.
func newOutput(more ...string) *settings.Choice {
	return &settings.Choice{Value: "text", Allowed: append([]string{"text", "json"}, more...)}
}

// Table prints columns as screen.Table does.
func (a *App) Table(header string, rows [][]any) error { return screen.Table(a.Stdout, header, rows) }

// Printf prints a verb's result.
func (a *App) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Stdout, format, args...)
	return err
}

// Encoding is how JSON is printed. It does not escape the characters of HTML.
var Encoding = jsoniter.Config{SortMapKeys: true}.Froze()

// PrintJSON writes v on one line, provided that raw JSON in it is compact.
func (a *App) PrintJSON(v any) error {
	line, err := Encoding.Marshal(v)
	if err == nil {
		_, err = a.Stdout.Write(append(line, '\n'))
	}
	return err
}

// PrintAll prints what a watch tells until ctx ends, which is a watch's normal end, or print has had
// enough, and stops the watch. err is why there is none.
func PrintAll[N any](ctx context.Context, watch interface {
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

// DefineReveal defines the flag of verbs that print marks unless they are told not to: what they
// print is mostly looked at, kept or written back.
func DefineReveal(command *cobra.Command, reveal *bool) {
	command.Flags().BoolVar(reveal, "reveal", false, "print sealed values instead of their marks, as far as you may know them")
}

// StillSealed is for those who asked for values and were given marks: a program that takes a mark
// for a password is refused somewhere else, and no one knows why.
func StillSealed(names ...string) error {
	more := ""
	if n := len(names) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return codes.Errorf(codes.Forbidden, "%s%s: there are values that stay sealed: you have no right to reveal them, or the server has not got their key; confcenter secret status tells", names[0], more)
}
