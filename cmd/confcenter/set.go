package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// maxInput bounds what set reads. A server takes far less; this only keeps an
// endless standard input from filling the memory.
const maxInput = 64 << 20

func (a *app) setCommand() *cobra.Command {
	var mtime, ifMtime int32
	command := &cobra.Command{
		Use:   "set NAME [FILE|-]",
		Short: "Write a file on the server",
		Long: `Set replaces the file NAME on the server by the JSON in FILE or, without FILE or
with "-", on standard input. It returns when the change is on the server's disk
and in service, and prints the name and the version now served.

The exit code is 5 if the server has something newer than --mtime, or another
version than --if-mtime; nothing has changed then.`,
		Example: `  confcenter set app1-dev.json ./app1-dev.json
  echo '{"key4": 1235}' | confcenter set app2-dev

  # change only what was read
  version=$(confcenter get app1 -o json | jq .mtime)
  confcenter get app1 | jq '.hojl = "x"' | confcenter set app1 --if-mtime "$version"`,
		Args: cobra.RangeArgs(1, 2),
	}
	c := a.connect(command)
	command.ValidArgsFunction = func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return nil, cobra.ShellCompDirectiveDefault // FILE
		}
		return c.completeName(command, args, prefix)
	}
	command.Flags().Int32Var(&mtime, "mtime", 0, "version to give it, in seconds since 1970; refused if it is older than what is stored (default: now)")
	defineIfMtime(command, &ifMtime)
	command.RunE = func(command *cobra.Command, args []string) error {
		file := "-"
		if len(args) > 1 {
			file = args[1]
		}
		contents, err := a.readDocument(file)
		if err != nil {
			return err
		}
		flags := command.Flags()
		request := client.SetRequest{Name: args[0], Contents: contents, Mtime: given(flags, "mtime", &mtime), IfMtime: given(flags, "if-mtime", &ifMtime)}
		return c.write(command, request)
	}
	return command
}

func (a *app) rmCommand() *cobra.Command {
	var ifMtime int32
	command := &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a file on the server",
		Long: `Rm deletes the file NAME on the server. Programs that use it are told. That there
is no such file is no error, so that a script can be run again.`,
		Example: `  confcenter rm app2-dev.json
  confcenter rm app2-dev.json --if-mtime 1539596952`,
		Args: cobra.ExactArgs(1),
	}
	c := a.connect(command)
	command.ValidArgsFunction = c.completeName
	defineIfMtime(command, &ifMtime)
	command.RunE = func(command *cobra.Command, args []string) error {
		return c.write(command, client.SetRequest{Name: args[0], Delete: true, IfMtime: given(command.Flags(), "if-mtime", &ifMtime)})
	}
	return command
}

func defineIfMtime(command *cobra.Command, value *int32) {
	command.Flags().Int32Var(value, "if-mtime", 0, "do it only if this is the version served now; 0 stands for a file that is not there (default: in any case)")
}

// given is value if its flag was used, nil otherwise.
func given(flags *pflag.FlagSet, flag string, value *int32) *int32 {
	if flags.Changed(flag) {
		return value
	}
	return nil
}

// write sends a request and prints the version it led to.
func (c *connection) write(command *cobra.Command, request client.SetRequest) error {
	return c.do(command, func(ctx context.Context, connected *client.Client) error {
		result, err := connected.Set(ctx, request)
		if errors.Is(err, codes.Older) || errors.Is(err, codes.Conflict) {
			return fmt.Errorf("%w (the version served is %d)", err, result.Mtime)
		}
		if err != nil {
			return err
		}
		if c.output.json() {
			return c.app.printJSON(map[string]any{"name": request.Name, "mtime": result.Mtime, "deleted": request.Delete})
		}
		_, err = fmt.Fprintf(c.app.stdout, "%s %d\n", request.Name, result.Mtime)
		return err
	})
}

// readDocument reads valid JSON from a file, or from standard input for "-". A
// bare null is refused because on the wire it would delete the file.
func (a *app) readDocument(file string) ([]byte, error) {
	in, name := a.stdin, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in, name = f, file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > maxInput {
		return nil, codes.Errorf(codes.TooLarge, "%s: more than %d MiB", name, maxInput>>20)
	}
	kind, err := jsontext.Check(text)
	if err != nil {
		line, column, reason := jsonPosition(text, err)
		return nil, codes.Errorf(codes.BadJSON, "%s:%d:%d: %s", name, line, column, reason)
	}
	if kind == jsontext.Null {
		return nil, codes.Errorf(codes.BadRequest, "%s: null is not a document; to delete the file use rm", name)
	}
	return text, nil
}
