package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/gateway"
	"confcenter/internal/memory"
	"confcenter/server"
)

func (a *app) serveCommand() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "serve",
		Short: "Serve a directory of configuration files",
		Long: `Serve gives programs on --listen the JSON files in --conf and tells them when a file
they use changes, whether another program changed it or a person with an editor, git
or scp. It also keeps the state that programs write, in --data.

A setting comes from its flag; else from its environment variable, for example
CONFCENTER_MAX_CONNECTIONS for --max-connections; else from the file named by
--config or CONFCENTER_CONFIG; else it has its default. Unknown variables and keys
are errors. Relative paths start at the working directory.

SIGTERM and SIGINT stop the server. It finishes what it has begun, within
--drain-timeout. A second signal, at least a second later, stops it at once with
exit code 1. SIGHUP rereads the configuration files. The log goes to standard error,
as text on a terminal and as JSON lines otherwise. Once it serves, it prints on standard
output where the console is.`,
		Example: `  confcenter serve
  confcenter serve --conf /etc/myfleet/conf --data /var/lib/confcenter --listen 127.0.0.1:4801
  CONFCENTER_LOG_LEVEL=debug confcenter serve --config confcenter.conf

  # write a config file with the settings now in force
  confcenter serve --print-config > confcenter.conf`,
		Args:              arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.define(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		settings, err := o.resolve(command.Flags(), a.environ)
		if err != nil {
			return err
		}
		if o.printConfig { // even bad settings: it helps to find out why
			if err := settings.Print(a.stdout); err != nil {
				return err
			}
		}
		if err := o.check(); err != nil || o.printConfig || o.checkConfig {
			return err
		}
		return failed(a.serve(command.Context(), &o))
	}
	return command
}

// serverVariables are the environment variables of serve.
func (a *app) serverVariables() []string {
	var o options
	command := &cobra.Command{}
	o.define(command)
	set := settingsOf(command.Flags(), isServeSetting)
	names := []string{configVariable}
	for _, entry := range set.Entries() {
		names = append(names, set.Variable(entry.Name))
	}
	return names
}

// serve returns when the server has stopped and everything is closed.
func (a *app) serve(ctx context.Context, o *options) (err error) {
	signals := make(chan os.Signal, 2) // before anything is opened, so that no signal ends the process halfway
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	level := o.logLevel.level()
	log := newLog(a.stderr, level)
	files, err := raiseFileLimit()
	if err != nil {
		return err
	}
	budget := o.budget(memory.Available(), log)
	if err := o.limitConnections(files, budget.Connections.Limit(), log); err != nil {
		return usageError{err}
	}
	limiter := o.admission.open(o.tcp.MaxConnections, budget.Connections)
	defer keepMemory(budget)()
	o.warn(log)
	if err := o.state.checkState(o.data); err != nil {
		return cannotStart(err)
	}
	if _, err := confstore.Apart(o.conf, o.data); err != nil {
		return cannotStart(err)
	}
	taken, err := takeToServe(o.data)
	if err != nil {
		return cannotStart(err)
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	engine, lines, err := openEngine(o, budget, log)
	if err != nil {
		return cannotStart(err)
	}
	srv, err := server.Open(o.serverConfig(engine, lines, budget, log))
	if err != nil {
		return cannotStart(err)
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	fronts, err := o.openFronts(srv, limiter, log)
	if err != nil {
		return cannotStart(err)
	}
	if err := srv.Start(ctx, fronts); err != nil {
		return cannotStart(err)
	}
	keys := engine.Stats()
	ready := log.Level(min(level, zerolog.InfoLevel)) // scripts wait for this line
	line := addresses(ready.Info(), srv)
	if srv.Landing != nil {
		line.Str("landing", srv.Landing.Name())
	}
	line.Str("conf", o.conf).Int("files", liveFiles(srv.Documents.Snapshot())).
		Int64("keys", keys.Keys).Int64("revision", int64(keys.Revision)).
		Int("server_id", o.tcp.ServerID).Int("max_connections", o.tcp.MaxConnections).Int("http_max_connections", o.http.MaxConnections).Int("max_unidentified", o.admission.unidentified).Str("version", version).
		Msg("ready")
	a.showConsole(srv.HTTP)
	l := lifecycle{server: srv, reload: srv.Documents.Reload, signals: signals, limit: o.drainTimeout, log: log}
	return errors.Join(l.wait(ctx), srv.Failed())
}

// showConsole says where people look.
func (a *app) showConsole(web *gateway.Gateway) {
	if web == nil {
		return
	}
	scheme, at := "http", web.Addr()
	if at == nil {
		scheme, at = "https", web.TLSAddr()
	}
	own, is := at.(*net.TCPAddr)
	if !is {
		return
	}
	host := own.IP.String()
	if own.IP.IsUnspecified() {
		host = "localhost"
	}
	fmt.Fprintf(a.stdout, "console: %s://%s/\n", scheme, net.JoinHostPort(host, strconv.Itoa(own.Port)))
}

// addresses says where is served.
func addresses(line *zerolog.Event, srv *server.Server) *zerolog.Event {
	line.Stringer("address", srv.TCP.Addr())
	if at := srv.TCP.TLSAddr(); at != nil {
		line.Stringer("tls", at)
	}
	if web := srv.HTTP; web != nil {
		line.Stringer("http", web.Addr())
		if at := web.TLSAddr(); at != nil {
			line.Stringer("https", at)
		}
	}
	return line
}

func cannotStart(err error) error { return fmt.Errorf("the server cannot start: %w", err) }

// failed replaces the code of err, which is about requests to a server: a server that does
// not start, or not stop, has failed.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return codes.Errorf(codes.Internal, "%w", err)
}

func liveFiles(snapshot *confstore.Snapshot) int {
	count := 0
	for _, name := range snapshot.Names() {
		if !snapshot.Node(name).Deleted() {
			count++
		}
	}
	return count
}
