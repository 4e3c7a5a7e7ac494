package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"confcenter/client"
	"confcenter/cmd/confcenter/check"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/meta"
	"confcenter/protocol"
)

func setCommand(a *verb.App) *cobra.Command {
	var mtime, ifMtime int32
	var request client.SetRequest
	var secret bool
	command := &cobra.Command{
		Use:   "set NAME [FILE|-] | set NAME PATH VALUE | set NAME PATH --secret",
		Short: "Write a file on the server, or one value in it",
		Long: `Set replaces the whole file NAME on the server with the JSON in FILE or, without FILE
or with "-", on standard input. With PATH and VALUE it changes only what is at that
key path, such as /database/hosts/0; VALUE is JSON. Set returns when the change is on
the server's disk and in service, and prints the name and the mtime now served.
With --secret the value is the text on standard input, or one that the terminal asks for,
and the server seals it: files, history and backups have a mark in its place.

The exit code is 5 if the server has something newer than --mtime, or a file of another
mtime than --if-mtime; then nothing has changed. With PATH no one else's change is
lost: if the file changes in the meantime, set reads it again.`,
		Example: `  confcenter set app2-dev /key4 1235
  confcenter set app1-dev /key3/subkey3 '"a string"'
  pass db/prod | confcenter set db /password --secret
  confcenter set app1-dev.json ./app1-dev.json -m "more workers for the sale"

  # change only what was read
  mtime=$(confcenter get app1 -o json | jq .mtime)
  confcenter get app1 | jq '.hojl = "x"' | confcenter set app1 --if-mtime "$mtime"`,
	}
	c := a.Connect(command)
	command.ValidArgsFunction = func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return nil, cobra.ShellCompDirectiveDefault // FILE
		}
		return c.CompleteName(command, args, prefix)
	}
	command.Flags().Int32Var(&mtime, "mtime", 0, "mtime of the file, in seconds since 1970; refused if older than what is stored (default: now)")
	defineIfMtime(command, &ifMtime)
	defineWho(command, &request.Author, &request.Comment)
	command.Flags().BoolVar(&secret, "secret", false, "the value at PATH is a text from standard input, or from a prompt, and is sealed")
	command.RunE = func(command *cobra.Command, args []string) error {
		flags := command.Flags()
		request.Name, request.Mtime, request.IfMtime = args[0], given(flags, "mtime", &mtime), given(flags, "if-mtime", &ifMtime)
		if secret {
			if len(args) != 2 {
				return verb.Usagef("--secret needs NAME and PATH, and takes the value from standard input")
			}
			text, err := a.ReadSecret(args[0] + " " + args[1])
			if err != nil {
				return err
			}
			args = append(args, toSeal(text))
		}
		if len(args) == 3 {
			if strings.Trim(args[1], "/ ") == "" {
				return verb.Usagef("PATH %q names the whole file; to replace it use %s NAME FILE", args[1], command.CommandPath())
			}
			if err := checkValue(args[2]); err != nil {
				return err
			}
			return c.Do(command, func(ctx context.Context, connected *client.Client) error {
				return writeAt(ctx, c, connected, request, args[1], args[2])
			})
		}
		file := "-"
		if len(args) > 1 {
			file = args[1]
		}
		var err error
		request.Contents, err = readDocument(a, file)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w; if %s is a key path, VALUE is missing", err, file)
		}
		if err != nil {
			return err
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			return writeDocument(ctx, c, connected, request)
		})
	}
	return command
}

// checkValue refuses what is no value of a document.
func checkValue(text string) error {
	if _, err := jsontext.Check([]byte(text)); err != nil {
		return verb.Usagef("VALUE %s is not JSON: %w; a string needs its own quotes, '\"text\"'", text, err)
	}
	if _, err := jsontext.CheckUTF8([]byte(text)); err != nil {
		return codes.Errorf(codes.BadJSON, "VALUE: %w", err)
	}
	return nil
}

func rmCommand(a *verb.App) *cobra.Command {
	var ifMtime int32
	request := client.SetRequest{Delete: true}
	command := &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a file on the server",
		Long: `Rm deletes the file NAME on the server and tells the programs that use it. Deleting
a deleted file again is not an error, so scripts can be rerun. The exit code is 3 if
there never was such a file, because the name may be misspelt.`,
		Example: `  confcenter rm app2-dev.json
  confcenter rm app2-dev.json --if-mtime 1539596952`,
	}
	c := a.Connect(command)
	command.ValidArgsFunction = c.CompleteName
	defineIfMtime(command, &ifMtime)
	defineWho(command, &request.Author, &request.Comment)
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		request.Name, request.IfMtime = args[0], given(command.Flags(), "if-mtime", &ifMtime)
		return writeDocument(ctx, c, connected, request)
	})
}

func defineIfMtime(command *cobra.Command, value *int32) {
	command.Flags().Int32Var(value, "if-mtime", 0, "write only if this is the mtime served now; 0 means that there is no such file (default: write in any case)")
}

// given is value if its flag was used, nil otherwise.
func given(flags *pflag.FlagSet, flag string, value *int32) *int32 {
	if flags.Changed(flag) {
		return value
	}
	return nil
}

// writeDocument sends a request and prints the resulting mtime.
func writeDocument(ctx context.Context, c *verb.Connection, connected *client.Client, request client.SetRequest) error {
	request.Author = signed(request.Author)
	result, err := connected.Set(ctx, request)
	if errors.Is(err, codes.Older) || errors.Is(err, codes.Conflict) {
		return fmt.Errorf("%w (the mtime served is %d)", err, result.Mtime)
	}
	if errors.Is(err, codes.TooLarge) && client.SafeToRetry(err) { // not the server says so, which takes longer ones in parts
		remedy := "`confcenter apply` takes larger files, up to %d bytes, or fewer if the server's --memory is small"
		if len(request.Contents) > confstore.MaxFile {
			remedy = "a file may have at most %d bytes"
		}
		return fmt.Errorf("%w; "+remedy, err, confstore.MaxFile)
	}
	if err == nil && request.Delete {
		err = everWas(ctx, connected, request.Name)
	}
	if err != nil {
		return err
	}
	return c.ShowLine(map[string]any{"name": request.Name, "mtime": result.Mtime, "deleted": request.Delete}, fmt.Sprint(request.Name, " ", result.Mtime))
}

// writeAt replaces what is at path in the current file. If the file changes in the
// meantime it starts again, unless the caller has named the mtime.
func writeAt(ctx context.Context, c *verb.Connection, connected *client.Client, request client.SetRequest, path, value string) error {
	named := request.IfMtime != nil
	for {
		d, err := connected.GetConfig(ctx, client.Query{Name: request.Name, Marks: true})
		if errors.Is(err, codes.NotFound) && !errors.Is(err, client.ErrNeverGood) {
			return codes.Errorf(codes.NotFound, "set %s %s: there is no such file yet: make one first, echo '{}' | confcenter set %[1]s", request.Name, path)
		}
		if err != nil {
			return err
		}
		if err := notBroken(ctx, connected, meta.Complete(request.Name)); err != nil {
			return fmt.Errorf("set %s %s: %w", request.Name, path, err)
		}
		if request.Contents, err = jsonpath.Replace(d.Raw(), []byte(path), []byte(value)); err != nil {
			return codes.Errorf(codes.BadRequest, "set %s %s: %w", request.Name, path, err)
		}
		if !named {
			request.IfMtime = &d.Mtime
		}
		if err := writeDocument(ctx, c, connected, request); named || !errors.Is(err, codes.Conflict) {
			return err
		}
	}
}

// notBroken refuses a broken file, of which an older version is served: changing that one
// would overwrite what someone is fixing.
func notBroken(ctx context.Context, connected *client.Client, name string) error {
	files, err := connected.List(ctx)
	if err != nil {
		return err
	}
	for _, file := range files {
		if file.State == protocol.FileBroken && file.Name == name {
			return codes.Errorf(codes.Conflict, "the file is broken, %s; fix it first, or set the whole file", file.Reason)
		}
	}
	return nil
}

// everWas returns an error if there never was a file of that name. The server remembers
// deleted files.
func everWas(ctx context.Context, connected *client.Client, name string) error {
	_, err := connected.GetConfig(ctx, client.Query{Name: name, NewerThan: math.MaxInt32})
	if errors.Is(err, codes.NotFound) {
		return codes.Errorf(codes.NotFound, "rm %s: there is no such file, and never was; ls lists the existing ones", name)
	}
	return nil
}

// readDocument reads valid JSON from a file, or from standard input for "-". A
// bare null is refused because on the wire it would delete the file.
func readDocument(a *verb.App, file string) ([]byte, error) {
	text, name, err := a.ReadInput(file)
	if errors.Is(err, codes.TooLarge) {
		return nil, fmt.Errorf("%w; a file may have at most %d bytes", err, confstore.MaxFile)
	}
	if err != nil {
		return nil, err
	}
	kind, err := jsontext.CheckUTF8(text)
	if err != nil {
		line, column, reason := check.Position(text, err)
		return nil, codes.Errorf(codes.BadJSON, "%s:%d:%d: %s", name, line, column, reason)
	}
	if kind == jsontext.Null {
		return nil, codes.Errorf(codes.BadRequest, "%s: null is not a document; to delete the file use rm", name)
	}
	return text, nil
}

// toSeal is the JSON that asks for a text to be sealed.
func toSeal(text string) string {
	return `{"$seal":` + string(jsontext.AppendQuote(nil, text)) + `}`
}

// The flags of verbs that change documents. Where a question has members of these names, they
// have the same meaning.
const (
	authorFlag    = "author"
	commentFlag   = "comment"
	commentLetter = "m"
)

// defineWho gives a verb that changes a document the flags for who does it, and why.
func defineWho(command *cobra.Command, author, comment *string) {
	f := command.Flags()
	f.StringVarP(comment, commentFlag, commentLetter, "", "why; kept with the version, for log and blame")
	f.StringVar(author, authorFlag, "", "who makes the change; kept with the version (default: your login name)")
}

// signed is the author of a change: the user who is logged in, unless another one is given.
func signed(given string) string {
	if given != "" {
		return given
	}
	if me, err := user.Current(); err == nil && me.Username != "" {
		return me.Username
	}
	return cmp.Or(os.Getenv("LOGNAME"), os.Getenv("USER"))
}
