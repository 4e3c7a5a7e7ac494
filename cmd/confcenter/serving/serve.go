// Package serving is a server as a process: its settings, what they mean on this machine, its start, and its
// end by a signal.
//
// A newcomer reads options.go, the settings, then serve.go and lifecycle.go, start and stop.
package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/rs/zerolog"

	"confcenter/cmd/confcenter/datadir"
	"confcenter/cmd/confcenter/screen"
	"confcenter/confstore"
	"confcenter/gateway"
	"confcenter/internal/memory"
	"confcenter/server"
)

// Serve returns when the server has stopped and everything is closed. out is told where the console is,
// messages is where the log goes; version is that of the program.
func (o *Options) Serve(ctx context.Context, out, messages io.Writer, version string) (err error) {
	signals := make(chan os.Signal, 2) // before anything is opened, so that no signal ends the process halfway
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	level := screen.Level(o.logLevel)
	log := screen.NewLog(messages, level)
	files, err := raiseFileLimit()
	if err != nil {
		return err
	}
	budget := o.budget(memory.Available(), log)
	if err := o.limitConnections(files, budget.Connections.Limit(), log); err != nil {
		return Unusable{Err: err}
	}
	limiter := o.admission.open(o.tcp.MaxConnections, budget.Connections)
	defer keepMemory(budget)()
	o.warn(log)
	if err := datadir.Gone(o.data); err != nil && !o.state.AcceptLoss {
		return cannotStart(err)
	}
	if _, err := confstore.Apart(o.conf, o.data); err != nil {
		return cannotStart(err)
	}
	taken, err := datadir.ToServe(o.data)
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
	fronts, err := o.openFronts(srv, limiter, version, log)
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
	showConsole(out, srv.HTTP)
	l := lifecycle{server: srv, reload: srv.Documents.Reload, signals: signals, limit: o.drainTimeout, log: log}
	return errors.Join(l.wait(ctx), srv.Failed())
}

// showConsole says where people look.
func showConsole(out io.Writer, web *gateway.Gateway) {
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
	fmt.Fprintf(out, "console: %s://%s/\n", scheme, net.JoinHostPort(host, strconv.Itoa(own.Port)))
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

// Unusable are settings that this machine has no room for.
type Unusable struct{ Err error }

func (e Unusable) Error() string { return e.Err.Error() }

func (e Unusable) Unwrap() error { return e.Err }

func liveFiles(snapshot *confstore.Snapshot) int {
	count := 0
	for _, name := range snapshot.Names() {
		if !snapshot.Node(name).Deleted() {
			count++
		}
	}
	return count
}
