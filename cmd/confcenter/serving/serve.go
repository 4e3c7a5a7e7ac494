// Package serving is a server as a process: its settings, what they mean on this machine, its start, and its
// end by a signal.
//
// A newcomer reads options.go, the settings, then serve.go, start and stop.
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
	"time"

	"github.com/rs/zerolog"

	"confcenter/cmd/confcenter/datadir"
	"confcenter/cmd/confcenter/screen"
	"confcenter/confstore"
	"confcenter/internal/memory"
	"confcenter/server"
	"confcenter/server/http"
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
	line.Str("conf", o.conf).Int("files", srv.Documents.Snapshot().Count().Files).
		Int64("keys", keys.Keys).Int64("revision", int64(keys.Revision)).
		Int("server_id", o.tcp.ServerID).Int("max_connections", o.tcp.MaxConnections).Int("http_max_connections", o.http.MaxConnections).Int("max_unidentified", o.admission.Unidentified).Str("version", version).
		Msg("ready")
	showConsole(out, srv.HTTP)
	l := lifecycle{server: srv, reload: srv.Documents.Reload, signals: signals, limit: o.drainTimeout, log: log}
	return errors.Join(l.wait(ctx), srv.Failed())
}

// showConsole says where people look.
func showConsole(out io.Writer, web *http.Gateway) {
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

// running is what the lifecycle needs of a started server.
type running interface {
	// Done is closed when its HTTP side has ended, which it does not do by itself; nil
	// without one. The event loops of TCP cannot tell: /livez sees them stand still.
	Done() <-chan struct{}
	// Err says why HTTP has ended; it may be nil.
	Err() error
	// Shutdown stops accepting connections, finishes what has begun, and returns when ctx
	// ends at the latest.
	Shutdown(ctx context.Context) error
}

// lifecycle runs a server from its start to its end.
type lifecycle struct {
	server  running
	reload  func() // for SIGHUP
	signals <-chan os.Signal
	limit   time.Duration // of the drain
	log     zerolog.Logger
}

// sameStop is how long after the first stop signal further ones count as the same: GNU
// timeout, for example, signals its child and then the child's process group.
const sameStop = time.Second

var (
	errEnded    = errors.New("HTTP ended by itself")
	errCutShort = errors.New("a second signal cut the drain short")
)

// wait returns when the server has stopped: nil after an orderly stop, even if the time
// for draining ran out.
func (l *lifecycle) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			l.log.Info().Msg("stopping")
			return l.drain(time.Time{})
		case <-l.server.Done():
			return errors.Join(l.ended(), l.drain(time.Time{}))
		case sig := <-l.signals:
			if sig == syscall.SIGHUP {
				l.log.Info().Msg("SIGHUP: reading the configuration directory again")
				l.reload()
				continue
			}
			asked := time.Now()
			l.log.Info().Stringer("signal", sig).Dur("limit", l.limit).Msg("stopping; a second signal, after a second or more, stops at once")
			return l.drain(asked)
		}
	}
}

// ended says why HTTP ended by itself.
func (l *lifecycle) ended() error {
	if err := l.server.Err(); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return errEnded
}

// drain shuts the server down. It needs a context of its own, because the caller's may
// have ended. asked is the time of the first signal, zero if there was none.
func (l *lifecycle) drain(asked time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.limit)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- l.server.Shutdown(ctx) }() // ended by ctx, waited for below
	cutShort := false
	for {
		select {
		case err := <-stopped:
			return l.drained(err, cutShort)
		case sig := <-l.signals:
			if sig != syscall.SIGHUP && time.Since(asked) >= sameStop {
				cutShort = true
				cancel()
			}
		}
	}
}

func (l *lifecycle) drained(err error, cutShort bool) error {
	switch {
	case cutShort:
		return errCutShort
	case errors.Is(err, context.DeadlineExceeded):
		// Acknowledged writes are on disk, so only replies are lost.
		l.log.Warn().Dur("limit", l.limit).Msg("not everything could be sent before the limit; stopping anyway")
	case err != nil:
		return fmt.Errorf("the server did not stop cleanly: %w", err)
	}
	l.log.Info().Msg("stopped")
	return nil
}
