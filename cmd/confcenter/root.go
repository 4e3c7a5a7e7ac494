package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"confcenter/cmd/confcenter/job"
	"confcenter/cmd/confcenter/screen"
	"confcenter/internal/settings"
)

// version is stamped by the Makefile.
var version = "dev"

// app is one run of the program, with its streams and environment.
//
// wide: each verb is a method.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	// started is true once flags and arguments have been accepted; an error
	// before that is one of usage.
	started bool
}

// run is the program without its process. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout, stderr = screen.Of(stdout), screen.Of(stderr)
	defer screen.Flush(stdout)
	defer screen.Flush(stderr)
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, environ: os.Environ()}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !a.started {
		err = usageError{err}
	}
	if child, ok := errors.AsType[job.Exit](err); ok {
		return int(child)
	}
	fmt.Fprintf(stderr, "confcenter: %v\n", err)
	if exitCode(err) == exitUsage {
		fmt.Fprintf(stderr, "Run '%s --help' to see how to use it.\n", command.CommandPath())
	}
	return exitCode(err)
}

// start is called when each flag and argument is valid by itself. It checks which go
// together, because cobra would do so only later.
func (a *app) start(command *cobra.Command, _ []string) error {
	if err := errors.Join(command.ValidateRequiredFlags(), command.ValidateFlagGroups()); err != nil {
		return err
	}
	a.started = true
	return nil
}

const (
	groupServer  = "server"
	groupClient  = "client"
	groupOffline = "offline"
)

// flagError adds a hint if the unknown flag looks like a negative number, or like a known one.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && strings.IndexAny(unknown.GetSpecifiedShortnames(), ".0123456789") == 0 {
		return fmt.Errorf("%w; if it is a number, put -- before the arguments", err)
	}
	var invalid *pflag.InvalidValueError
	if why := settings.Reason(err); why != err && errors.As(err, &invalid) {
		return fmt.Errorf("invalid argument %q for \"--%s\" flag: %w", invalid.GetValue(), invalid.GetFlag().Name, why)
	}
	if unknown != nil {
		var flags []string
		command.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if meant := near(unknown.GetSpecifiedName(), flags); len(meant) > 0 {
			return fmt.Errorf("%w; did you mean --%s?", err, meant[0])
		}
	}
	return err
}

// near are those of the names that word may be a slip of. Cobra knows, and only of commands.
func near(word string, names []string) []string {
	var all cobra.Command
	for _, name := range names {
		if strings.Contains(name, " ") {
			continue // to cobra the rest would be arguments
		}
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	all.SuggestionsMinimumDistance = 2
	return all.SuggestionsFor(word)
}

// onlyVerbs accepts no arguments: what is none of a group's verbs may be a slip.
func onlyVerbs(group *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], group.CommandPath())
	group.SuggestionsMinimumDistance = 2
	if meant := group.SuggestionsFor(args[0]); len(meant) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(meant, "\n\t") + "\n"
	}
	return errors.New(text)
}

// grouped gives a group its verbs. needs is said where none of them is given.
func grouped(group *cobra.Command, needs string, verbs ...*cobra.Command) *cobra.Command {
	group.Args = onlyVerbs
	group.RunE = func(*cobra.Command, []string) error { return usageError{errors.New(needs)} }
	group.AddCommand(verbs...)
	return group
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "confcenter",
		Short: "A configuration center that tells programs at once when their configuration changes",
		Long: `confcenter serves a directory of JSON files to programs that speak CppCloud's
protocol, and tells them at once when a file they use changes.

` + exitCodesHelp,
		Example: `  confcenter serve --conf ./conf
  confcenter get app1-dev --merged
  confcenter watch app1-dev.json /key3`,
		Version:           version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.start,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "The server:"},
		&cobra.Group{ID: groupClient, Title: "Clients of a running server:"},
		&cobra.Group{ID: groupOffline, Title: "Without a server:"},
	)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommandGroupID(groupOffline)
	root.SetCompletionCommandGroupID(groupOffline)
	for group, commands := range map[string][]*cobra.Command{
		groupServer:  {a.serveCommand()},
		groupClient:  a.clientCommands(),
		groupOffline: {a.checkCommand(), a.restoreCommand(), a.verifyCommand(), a.renumberCommand(), a.versionCommand()},
	} {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	return root
}
