package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/job"
	"confcenter/cmd/confcenter/kvverbs"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/serving"
	"confcenter/cmd/confcenter/verb"
)

// version is stamped by the Makefile.
var version = "dev"

// run is the program without its process. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout, stderr = screen.Of(stdout), screen.Of(stderr)
	defer screen.Flush(stdout)
	defer screen.Flush(stderr)
	a := &verb.App{Stdin: stdin, Stdout: stdout, Stderr: stderr, Environ: os.Environ(), Foreign: slices.Concat(foreign, serving.Variables())}
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	accepted := false // flags and arguments; an error before that is one of usage
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		// cobra would check only later which flags go together
		err := errors.Join(command.ValidateRequiredFlags(), command.ValidateFlagGroups())
		accepted = err == nil
		return err
	}
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !accepted {
		err = verb.UsageError{Err: err}
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

const (
	groupServer  = "server"
	groupClient  = "client"
	groupOffline = "offline"
)

func rootCommand(a *verb.App) *cobra.Command {
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
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "The server:"},
		&cobra.Group{ID: groupClient, Title: "Clients of a running server:"},
		&cobra.Group{ID: groupOffline, Title: "Without a server:"},
	)
	root.SetFlagErrorFunc(verb.FlagError)
	root.SetHelpCommandGroupID(groupOffline)
	root.SetCompletionCommandGroupID(groupOffline)
	for group, commands := range map[string][]*cobra.Command{
		groupServer:  {serveCommand(a)},
		groupClient:  clientCommands(a),
		groupOffline: {checkCommand(a), restoreCommand(a), verifyCommand(a), renumberCommand(a), versionCommand(a)},
	} {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	return root
}

// clientCommands are the verbs that need a running server.
func clientCommands(a *verb.App) []*cobra.Command {
	list := []*cobra.Command{getCommand(a), setCommand(a), rmCommand(a), lsCommand(a), watchCommand(a)}
	list = append(list, historyCommands(a)...)
	return append(list, clientsCommand(a), kvverbs.Command(a), backupCommand(a), storageCommand(a), landingCommand(a), flowCommand(a), benchCommand(a), authCommand(a), auditCommand(a), secretCommand(a), reviewCommand(a))
}
