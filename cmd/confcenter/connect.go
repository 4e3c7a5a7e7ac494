package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"confcenter/client"
	"confcenter/cmd/confcenter/serving"
	"confcenter/codes"
	"confcenter/internal/settings"
	"confcenter/meta"
	"confcenter/protocol"
)

// connection has the settings that all client verbs share, and their output.
type connection struct {
	*app
	addr    string
	name    string // svrname
	timeout time.Duration
	tls     clientTLS
	token   string // a file
	output  *settings.Choice
	// shares are settings that have environment variables and that not all verbs have, those
	// of serve for example, with the names of the verb's flags.
	shares map[string]string
}

// clientCommands are the verbs that need a running server.
func clientCommands(a *app) []*cobra.Command {
	list := []*cobra.Command{getCommand(a), setCommand(a), rmCommand(a), lsCommand(a), watchCommand(a)}
	list = append(list, historyCommands(a)...)
	return append(list, clientsCommand(a), kvCommand(a), backupCommand(a), storageCommand(a), landingCommand(a), flowCommand(a), benchCommand(a), authCommand(a), auditCommand(a), secretCommand(a), reviewCommand(a))
}

// connect gives a verb the flags that all of them share, and the arguments that its
// usage line names unless it checks them itself. forms are forms of output that it has
// beside text and JSON.
func (a *app) connect(command *cobra.Command, forms ...string) *connection {
	c := a.dials(command)
	c.output = newOutput(forms...)
	chooses(command, c.output, "output", "o", "output format; also CONFCENTER_OUTPUT")
	return c
}

// waitLong raises the default of --timeout, for a verb that may change or read very much.
func (c *connection) waitLong(command *cobra.Command) {
	c.timeout = time.Minute
	command.Flags().Lookup("timeout").DefValue = c.timeout.String()
}

// dials is connect for a verb that prints nothing.
func (a *app) dials(command *cobra.Command) *connection {
	c := &connection{app: a, name: "confcenter"}
	if command.Args == nil {
		command.Args = arguments
	}
	command.ValidArgsFunction = cobra.NoFileCompletions
	f := command.Flags()
	f.StringVar(&c.addr, "addr", "127.0.0.1:4800", "server addresses, HOST:PORT or unix:PATH, separated by commas; also CONFCENTER_ADDR")
	f.DurationVar(&c.timeout, "timeout", 5*time.Second, "longest wait for a connection and for an answer; also CONFCENTER_TIMEOUT")
	c.defineProof(f)
	freeText(command, "addr", "timeout")
	return c
}

// offline is connect for a verb that asks no server; run is given its arguments.
func (a *app) offline(command *cobra.Command, run func(ctx context.Context, c *connection, args []string) error) *cobra.Command {
	c := &connection{app: a, output: newOutput()}
	chooses(command, c.output, "output", "o", "output format")
	command.Args = arguments
	command.RunE = func(command *cobra.Command, args []string) error { return run(command.Context(), c, args) }
	return command
}

// untilSignal is a context that ends with the first signal to end the program.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// defineProof defines the settings by which server and client prove who they are.
func (c *connection) defineProof(f *pflag.FlagSet) {
	settings.Define(f, &c.tls)
	f.StringVar(&c.token, "token-file", "", "file with the token that says who you are, for servers with --access-control; also CONFCENTER_TOKEN_FILE, or the token itself in CONFCENTER_TOKEN")
}

// envPrefix begins the environment variables of every verb.
const envPrefix = serving.Prefix

// sharedFlags are the client verbs' flags that have environment variables.
var sharedFlags = []string{"addr", "timeout", "tls", "tls-ca", "client-cert", "client-key", "token-file", "output"}

// clientVariables are the environment variables of the client verbs.
func clientVariables() []string {
	var names []string
	for _, flag := range sharedFlags {
		names = append(names, envPrefix+"_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
	}
	return names
}

// foreign are environment variables that are those of no flag, or of one verb's only.
var foreign = append([]string{variableFrom, tokenVariable, serving.SecretVariable, serving.KeyVariable}, lockVariables...) // SOAK: make soak

// settingsOf makes settings of the flags that wanted selects.
func settingsOf(flags *pflag.FlagSet, wanted func(flag string) bool) *settings.Set {
	set := &settings.Set{Prefix: envPrefix, Foreign: slices.Clone(foreign)}
	flags.VisitAll(func(f *pflag.Flag) {
		if wanted(f.Name) {
			set.Add(f.Name, f.Value, f.Changed)
		}
	})
	return set
}

// config reads the environment and checks the settings.
func (c *connection) config(command *cobra.Command) (client.Config, error) {
	secure, token, err := c.proof(command)
	if err != nil {
		return client.Config{}, err
	}
	addrs := strings.Split(c.addr, ",")
	for i, addr := range addrs {
		addrs[i] = strings.TrimSpace(addr)
		if _, err := serving.OpenAddress(addrs[i]); err != nil {
			return client.Config{}, usagef("addr = %s: %w", c.addr, err)
		}
	}
	if c.timeout <= 0 {
		return client.Config{}, usagef("timeout = %s: must be more than 0", c.timeout)
	}
	return client.Config{
		TLS:   secure,
		Token: token,
		Addrs: addrs, Name: c.name, DialTimeout: c.timeout, RequestTimeout: c.timeout,
		OnError: func(err error) { c.tell("%v", err) }, OnState: c.tellsState(),
	}, nil
}

// proof reads the environment, and returns the settings by which server, nil without TLS, and
// client prove who they are.
func (c *connection) proof(command *cobra.Command) (secure *tls.Config, token string, err error) {
	set := settingsOf(command.Flags(), func(flag string) bool { return slices.Contains(sharedFlags, flag) })
	set.Foreign = append(set.Foreign, serverVariables()...)
	for _, flag := range sharedFlags {
		if command.Flags().Lookup(flag) == nil {
			set.Foreign = append(set.Foreign, set.Variable(flag))
		}
	}
	for name, flag := range c.shares {
		f := command.Flags().Lookup(flag)
		set.Add(name, f.Value, f.Changed)
		set.Foreign = slices.DeleteFunc(set.Foreign, func(variable string) bool { return variable == set.Variable(name) })
	}
	if err := set.Resolve("", "", c.environ); err != nil {
		return nil, "", usageError{err: err}
	}
	if token, err = c.tokenText(); err == nil {
		secure, err = c.tls.config()
	}
	if err == nil {
		err = c.logKeys(secure)
	}
	if err != nil {
		return nil, "", usageError{err: err}
	}
	return secure, token, nil
}

// keyLogVariable names a file for the keys of TLS connections, as it does for browsers and
// curl.
const keyLogVariable = "SSLKEYLOGFILE"

// logKeys has the keys of connections written down if someone asks for it: tshark can read
// what is said with them. The file stays open until the process ends.
func (c *connection) logKeys(secure *tls.Config) error {
	path, _ := settings.Lookup(c.environ, keyLogVariable)
	if path == "" || secure == nil {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%s: the keys of TLS connections cannot be written there: %w", keyLogVariable, err)
	}
	secure.KeyLogWriter = file
	c.tell("%s is set: the keys of this connection go to %s, and anyone who has them can read what it says", keyLogVariable, path)
	return nil
}

// tokenVariable has a token. It is no flag: everyone on the machine sees those.
const tokenVariable = envPrefix + "_TOKEN"

// tokenText is the token to present; empty: none.
func (c *connection) tokenText() (string, error) {
	if c.token == "" {
		text, _ := settings.Lookup(c.environ, tokenVariable)
		return text, nil
	}
	text, err := os.ReadFile(c.token)
	if err != nil {
		return "", fmt.Errorf("the file of the token cannot be read: %w", err)
	}
	if len(text) > 4<<10 {
		return "", fmt.Errorf("token-file = %s: is no file of a token: it has %d bytes", c.token, len(text))
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("token-file = %s: is empty: there is no token in it", c.token)
	}
	if serving.OthersRead(c.token) {
		c.tell("token-file = %s: others on this machine can read it, and so do what you may: chmod 600 it", c.token)
	}
	return token, nil
}

// tellsState reports that a lost connection is back, for OnState of one connection. OnError has reported
// the loss.
func (c *connection) tellsState() func(client.StateChange) {
	var was, lost bool // there was a connection; it was lost
	return func(change client.StateChange) {
		switch change.State {
		case client.StateDisconnected:
			lost = was
		case client.StateConnected:
			if lost {
				c.tell("connected to %s again", change.Addr)
			}
			was, lost = true, false
		}
	}
}

// do runs a verb on a connection of its own. Its ctx ends with the first signal.
func (c *connection) do(command *cobra.Command, verb func(ctx context.Context, client *client.Client) error) error {
	config, err := c.config(command)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(command.Context())
	defer stop()
	connected, err := client.Dial(ctx, config)
	if err != nil {
		return err
	}
	return errors.Join(meant(ctx, command, connected, verb(ctx, connected)), connected.Close())
}

// meant adds to the error of a verb about a file that is not there which file may be meant.
func meant(ctx context.Context, command *cobra.Command, connected *client.Client, err error) error {
	args := command.Flags().Args()
	if codes.Of(err) != codes.NotFound || len(args) == 0 || !takesFile(command) || errors.Is(err, client.ErrNeverGood) {
		return err
	}
	name, _, _ := strings.Cut(args[0], "@")
	name = meta.Complete(name)
	var names []string
	files, _ := connected.List(ctx) // without them there is nothing to be added
	for _, f := range files {
		if f.Name == name {
			return err
		}
		if f.State != protocol.FileDeleted {
			names = append(names, f.Name)
		}
	}
	like := near(name, names)
	if len(like) == 0 {
		return err
	}
	// A file that was never good is not in the list.
	if _, is := connected.Get(ctx, name); codes.Of(is) == codes.NotFound && !errors.Is(is, client.ErrNeverGood) {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(like[:min(len(like), 3)], " or "))
	}
	return err
}

// takesFile reports whether the first argument of a verb is a file of the server.
func takesFile(command *cobra.Command) bool {
	_, first, _ := strings.Cut(command.Use, " ")
	return command.Parent() == command.Root() && strings.HasPrefix(strings.TrimPrefix(first, "["), "NAME")
}

// asks makes command run verb with a connection and the arguments.
func (c *connection) asks(command *cobra.Command, verb func(ctx context.Context, connected *client.Client, args []string) error) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		return c.do(command, func(ctx context.Context, connected *client.Client) error { return verb(ctx, connected, args) })
	}
	return command
}

func (c *connection) json() bool { return c.output.Value == "json" }

// show prints v with -o json, and calls text otherwise.
func (c *connection) show(v any, text func() error) error {
	if c.json() {
		return c.printJSON(v)
	}
	return text()
}

// showTable is show with a table as text.
func (c *connection) showTable(v any, header string, rows [][]any) error {
	return c.show(v, func() error { return c.table(header, rows) })
}

// showLine is show with one value as text.
func (c *connection) showLine(v, text any) error {
	return c.show(v, func() error { return c.printf("%v\n", text) })
}

// showCount is show with how many there are, or were.
func (c *connection) showCount(n int64, err error) error {
	if err != nil {
		return err
	}
	return c.showLine(map[string]any{"count": n}, n)
}

// complete asks the server for words that complete prefix. After an error it offers none: there is
// nowhere to report it.
func (c *connection) complete(command *cobra.Command, prefix string, ask func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	var words []string
	c.timeout = min(c.timeout, time.Second) // a person is waiting
	err := c.do(command, func(ctx context.Context, connected *client.Client) (err error) {
		words, err = ask(ctx, connected)
		return err
	})
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) }), cobra.ShellCompDirectiveNoFileComp
}

// completeName completes NAME, the first argument, with the files of the server.
func (c *connection) completeName(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.complete(command, prefix, func(ctx context.Context, connected *client.Client) (names []string, err error) {
		files, err := connected.List(ctx)
		for _, f := range files {
			if f.State != protocol.FileDeleted {
				names = append(names, f.Name)
			}
		}
		return names, err
	})
}

// clientTLS are the settings of TLS that all client verbs share.
type clientTLS struct {
	On   bool   `flag:"tls" doc:"connect with TLS, to the port of serve --tls-listen; also CONFCENTER_TLS"`
	CA   string `flag:"tls-ca" doc:"file of the authorities that the server's certificate must come from, in PEM; implies --tls; empty = those that the machine trusts; also CONFCENTER_TLS_CA"`
	Cert string `flag:"client-cert" doc:"file of a certificate for servers that ask for one, in PEM; implies --tls; also CONFCENTER_CLIENT_CERT"`
	Key  string `flag:"client-key" doc:"file of its key, in PEM; also CONFCENTER_CLIENT_KEY"`
}

// config is nil without TLS.
func (o *clientTLS) config() (*tls.Config, error) {
	switch {
	case (o.Cert == "") != (o.Key == ""):
		return nil, errors.New("client-cert and client-key belong together: give both")
	case !o.On && o.CA == "" && o.Cert == "":
		return nil, nil
	}
	return client.TLSFiles(o.CA, o.Cert, o.Key)
}

// defaultHolder is the holder's name in a lock's key.
func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}
