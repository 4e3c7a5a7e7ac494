package verb

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

// Connection has the settings that all client verbs share, and their output.
type Connection struct {
	*App
	Addr    string
	Name    string // svrname
	Timeout time.Duration
	tls     clientTLS
	token   string // a file
	Output  *settings.Choice
	// Shares are settings that have environment variables and that not all verbs have, those
	// of serve for example, with the names of the verb's flags.
	Shares map[string]string
}

// Connect gives a verb the flags that all of them share, and the arguments that its
// usage line names unless it checks them itself. forms are forms of output that it has
// beside text and JSON.
func (a *App) Connect(command *cobra.Command, forms ...string) *Connection {
	c := a.Dials(command)
	c.Output = newOutput(forms...)
	Chooses(command, c.Output, "output", "o", "output format; also CONFCENTER_OUTPUT")
	return c
}

// WaitLong raises the default of --timeout, for a verb that may change or read very much.
func (c *Connection) WaitLong(command *cobra.Command) {
	c.Timeout = time.Minute
	command.Flags().Lookup("timeout").DefValue = c.Timeout.String()
}

// Dials is Connect for a verb that prints nothing.
func (a *App) Dials(command *cobra.Command) *Connection {
	c := &Connection{App: a, Name: "confcenter"}
	if command.Args == nil {
		command.Args = Arguments
	}
	command.ValidArgsFunction = cobra.NoFileCompletions
	f := command.Flags()
	f.StringVar(&c.Addr, "addr", "127.0.0.1:4800", "server addresses, HOST:PORT or unix:PATH, separated by commas; also CONFCENTER_ADDR")
	f.DurationVar(&c.Timeout, "timeout", 5*time.Second, "longest wait for a connection and for an answer; also CONFCENTER_TIMEOUT")
	c.DefineProof(f)
	FreeText(command, "addr", "timeout")
	return c
}

// Offline is Connect for a verb that asks no server; run is given its arguments.
func (a *App) Offline(command *cobra.Command, run func(ctx context.Context, c *Connection, args []string) error) *cobra.Command {
	c := &Connection{App: a, Output: newOutput()}
	Chooses(command, c.Output, "output", "o", "output format")
	command.Args = Arguments
	command.RunE = func(command *cobra.Command, args []string) error { return run(command.Context(), c, args) }
	return command
}

// UntilSignal is a context that ends with the first signal to end the program.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// DefineProof defines the settings by which server and client prove who they are.
func (c *Connection) DefineProof(f *pflag.FlagSet) {
	settings.Define(f, &c.tls)
	f.StringVar(&c.token, "token-file", "", "file with the token that says who you are, for servers with --access-control; also CONFCENTER_TOKEN_FILE, or the token itself in CONFCENTER_TOKEN")
}

// sharedFlags are the client verbs' flags that have environment variables.
var sharedFlags = []string{"addr", "client-cert", "client-key", "output", "timeout", "tls", "tls-ca", "token-file"}

// Variables are the environment variables of the verbs that connect to a server.
func Variables() []string {
	names := []string{tokenVariable}
	for _, flag := range sharedFlags {
		names = append(names, serving.Prefix+"_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
	}
	return names
}

// Config reads the environment and checks the settings.
func (c *Connection) Config(command *cobra.Command) (client.Config, error) {
	secure, token, err := c.Proof(command)
	if err != nil {
		return client.Config{}, err
	}
	addrs := strings.Split(c.Addr, ",")
	for i, addr := range addrs {
		addrs[i] = strings.TrimSpace(addr)
		if _, err := serving.OpenAddress(addrs[i]); err != nil {
			return client.Config{}, Usagef("addr = %s: %w", c.Addr, err)
		}
	}
	if c.Timeout <= 0 {
		return client.Config{}, Usagef("timeout = %s: must be more than 0", c.Timeout)
	}
	return client.Config{
		TLS:   secure,
		Token: token,
		Addrs: addrs, Name: c.Name, DialTimeout: c.Timeout, RequestTimeout: c.Timeout,
		OnError: func(err error) { c.Tell("%v", err) }, OnState: c.tellsState(),
	}, nil
}

// Proof reads the environment, and returns the settings by which server, nil without TLS, and
// client prove who they are.
func (c *Connection) Proof(command *cobra.Command) (secure *tls.Config, token string, err error) {
	set := &settings.Set{Prefix: serving.Prefix, Foreign: append(slices.Clone(c.Foreign), tokenVariable)}
	for _, flag := range sharedFlags {
		if f := command.Flags().Lookup(flag); f != nil {
			set.Add(flag, f.Value, f.Changed)
		} else {
			set.Foreign = append(set.Foreign, set.Variable(flag))
		}
	}
	for name, flag := range c.Shares {
		f := command.Flags().Lookup(flag)
		set.Add(name, f.Value, f.Changed)
		set.Foreign = slices.DeleteFunc(set.Foreign, func(variable string) bool { return variable == set.Variable(name) })
	}
	if err := set.Resolve("", "", c.Environ); err != nil {
		return nil, "", UsageError{Err: err}
	}
	if token, err = c.tokenText(); err == nil {
		secure, err = c.tls.config()
	}
	if err == nil {
		err = c.logKeys(secure)
	}
	if err != nil {
		return nil, "", UsageError{Err: err}
	}
	return secure, token, nil
}

// keyLogVariable names a file for the keys of TLS connections, as it does for browsers and
// curl.
const keyLogVariable = "SSLKEYLOGFILE"

// logKeys has the keys of connections written down if someone asks for it: tshark can read
// what is said with them. The file stays open until the process ends.
func (c *Connection) logKeys(secure *tls.Config) error {
	path, _ := settings.Lookup(c.Environ, keyLogVariable)
	if path == "" || secure == nil {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%s: the keys of TLS connections cannot be written there: %w", keyLogVariable, err)
	}
	secure.KeyLogWriter = file
	c.Tell("%s is set: the keys of this connection go to %s, and anyone who has them can read what it says", keyLogVariable, path)
	return nil
}

// tokenVariable has a token. It is no flag: everyone on the machine sees those.
const tokenVariable = serving.Prefix + "_TOKEN"

// tokenText is the token to present; empty: none.
func (c *Connection) tokenText() (string, error) {
	if c.token == "" {
		text, _ := settings.Lookup(c.Environ, tokenVariable)
		return text, nil
	}
	return c.TokenIn(c.token)
}

// TokenIn reads a file of a token, and says so if others can read it, too.
func (a *App) TokenIn(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the file of the token cannot be read: %w", err)
	}
	if len(text) > 4<<10 {
		return "", fmt.Errorf("token-file = %s: is no file of a token: it has %d bytes", file, len(text))
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("token-file = %s: is empty: there is no token in it", file)
	}
	if serving.OthersRead(file) {
		a.Tell("token-file = %s: others on this machine can read it, and so do what you may: chmod 600 it", file)
	}
	return token, nil
}

// tellsState reports that a lost connection is back, for OnState of one connection. OnError has reported
// the loss.
func (c *Connection) tellsState() func(client.StateChange) {
	var was, lost bool // there was a connection; it was lost
	return func(change client.StateChange) {
		switch change.State {
		case client.StateDisconnected:
			lost = was
		case client.StateConnected:
			if lost {
				c.Tell("connected to %s again", change.Addr)
			}
			was, lost = true, false
		}
	}
}

// Do runs a verb on a connection of its own. Its ctx ends with the first signal.
func (c *Connection) Do(command *cobra.Command, verb func(ctx context.Context, client *client.Client) error) error {
	config, err := c.Config(command)
	if err != nil {
		return err
	}
	ctx, stop := UntilSignal(command.Context())
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

// Asks makes command run verb with a connection and the arguments.
func (c *Connection) Asks(command *cobra.Command, verb func(ctx context.Context, connected *client.Client, args []string) error) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		return c.Do(command, func(ctx context.Context, connected *client.Client) error { return verb(ctx, connected, args) })
	}
	return command
}

// JSON reports whether JSON is to be printed.
func (c *Connection) JSON() bool { return c.Output.Value == "json" }

// Show prints v with -o json, and calls text otherwise.
func (c *Connection) Show(v any, text func() error) error {
	if c.JSON() {
		return c.PrintJSON(v)
	}
	return text()
}

// ShowTable is Show with a table as text.
func (c *Connection) ShowTable(v any, header string, rows [][]any) error {
	return c.Show(v, func() error { return c.Table(header, rows) })
}

// ShowLine is Show with one value as text.
func (c *Connection) ShowLine(v, text any) error {
	return c.Show(v, func() error { return c.Printf("%v\n", text) })
}

// ShowCount is Show with how many there are, or were.
func (c *Connection) ShowCount(n int64, err error) error {
	if err != nil {
		return err
	}
	return c.ShowLine(map[string]any{"count": n}, n)
}

// Complete asks the server for words that complete prefix. After an error it offers none: there is
// nowhere to report it.
func (c *Connection) Complete(command *cobra.Command, prefix string, ask func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	var words []string
	c.Timeout = min(c.Timeout, time.Second) // a person is waiting
	err := c.Do(command, func(ctx context.Context, connected *client.Client) (err error) {
		words, err = ask(ctx, connected)
		return err
	})
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) }), cobra.ShellCompDirectiveNoFileComp
}

// CompleteName completes NAME, the first argument, with the files of the server.
func (c *Connection) CompleteName(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.Complete(command, prefix, func(ctx context.Context, connected *client.Client) (names []string, err error) {
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

// HostAndProcess names this process among those that hold locks, or land.
func HostAndProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}
