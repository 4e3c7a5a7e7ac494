package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/internal/settings"
	"confcenter/player/landing"
)

// landerOptions are the flags of landing.
type landerOptions struct {
	dsn      settings.DSN
	name     string
	logLevel settings.Choice
}

func landingCommand(a *verb.App) *cobra.Command {
	o := landerOptions{logLevel: screen.LogLevels()}
	command := &cobra.Command{
		Use:   "landing",
		Short: "Land player storage of a server in its database",
		Long: `Landing writes what is dirty in the player storage of a running server into its SQL
database, until it gets SIGTERM or SIGINT. Any number of these processes share the
dirty tables, each of which belongs to one of them at a time. The server has to be
started with the same database, and with --lander=false if it is not to land as well:

  confcenter serve --landing DSN --lander=false

While the server or the database is away, landing waits and goes on by itself. The log
goes to standard error, as text on a terminal and as JSON lines otherwise.`,
		Example: `  CONFCENTER_LANDING=mysql://game:secret@db:3306/players confcenter landing --addr 10.0.0.5:4800
  confcenter landing --dsn 'postgres://game@/players?host=/run/postgresql' --name lander-1`,
	}
	c := a.Dials(command)
	c.Shares = map[string]string{"landing": "dsn", "log-level": "log-level"}
	f := command.Flags()
	f.Var(&o.dsn, "dsn", "the server's database: mysql://USER:PASSWORD@HOST:PORT/DATABASE (MariaDB as well), postgres://… or sqlite:PATH; better given as CONFCENTER_LANDING than where ps shows it")
	f.StringVar(&o.name, "name", "", "name of this lander, shown while it has a dirty table; no two that run may have the same (default: this host and process)")
	verb.Chooses(command, &o.logLevel, "log-level", "", "lowest level of messages to log; also CONFCENTER_LOG_LEVEL")
	verb.FreeText(command, "dsn", "name")
	command.RunE = func(command *cobra.Command, _ []string) error {
		cfg, err := c.Config(command)
		if err != nil {
			return err
		}
		if o.dsn == "" {
			return verb.Usagef("the database is missing: set CONFCENTER_LANDING or --dsn")
		}
		db, err := landing.OpenDatabase(string(o.dsn))
		if err != nil {
			return verb.UsageError{Err: err}
		}
		ctx, stop := verb.UntilSignal(command.Context())
		defer stop()
		return errors.Join(land(ctx, a, &o, cfg, db), db.Close())
	}
	return command
}

// land lands until ctx ends.
func land(ctx context.Context, a *verb.App, o *landerOptions, cfg client.Config, db *landing.Database) error {
	log := screen.NewLog(a.Stderr, screen.Level(o.logLevel))
	cfg.Name = cmp.Or(o.name, verb.HostAndProcess())
	link := serverLink{log: log}
	cfg.OnState, cfg.StateWaits, cfg.MaxBackoff = link.changed, true, longestRedial
	cfg.OnError = func(err error) { log.Debug().Err(err).Msg("connection") } // link has said it
	connected, err := link.dial(ctx, cfg)
	if err != nil {
		return err
	}
	if connected != nil {
		log.Info().Strs("addr", cfg.Addrs).Str("database", db.Name()).Str("name", cfg.Name).Str("version", version).Msg("ready")
		l := landing.Start(landing.Config{
			Source: connected.Lander(), Database: db, Who: cfg.Name, Log: log,
			Prover: &prover{connected, strings.Join(cfg.Addrs, ","), "--dsn or CONFCENTER_LANDING"},
		})
		<-ctx.Done()
		log.Info().Msg("stopping")
		l.Close()
		err = connected.Close()
	}
	log.Info().Msg("stopped")
	return err
}

// longestRedial is the longest wait between two attempts to reach a server that is away.
const longestRedial = time.Second

// serverLink says once that the server is away, and that it is back.
type serverLink struct {
	log zerolog.Logger

	mu   sync.Mutex
	away bool // guarded by mu
}

// dial waits for the server, so that both may be started in any order. It returns nil if ctx
// ends before.
func (l *serverLink) dial(ctx context.Context, cfg client.Config) (*client.Client, error) {
	for {
		connected, err := client.Dial(ctx, cfg)
		if err == nil {
			return connected, nil
		}
		l.isAway(err)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(longestRedial):
		}
	}
}

func (l *serverLink) changed(change client.StateChange) {
	switch change.State {
	case client.StateDisconnected:
		l.isAway(change.Err)
	case client.StateConnected:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.away {
			l.away = false
			l.log.Info().Str("address", change.Addr).Msg("connected to the server")
		}
	}
}

func (l *serverLink) isAway(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away {
		l.away = true
		l.log.Warn().Err(why).Msg("landing waits for the server, and goes on by itself")
	}
}

// prover asks a server for what was written to a database: a landing.Prover.
type prover struct {
	connected *client.Client
	addr      string // of the server
	flag      string // that names the database
}

// Connection implements landing.Prover.
func (p *prover) Connection() any { return p.connected.Lander().Connection() }

// Prove implements landing.Prover.
func (p *prover) Prove(ctx context.Context, db *landing.Database) error {
	o := landing.Proof
	return db.Prove(ctx, func(name string) error {
		err := p.connected.Landing().Rescan(ctx, o.App, o.Region, 0)
		if codes.Of(err) == codes.NotImplemented {
			return codes.Errorf(codes.NotImplemented, "the server at %s would not find the rows in %s: %w", p.addr, db.Name(), err)
		} else if err != nil {
			return err
		}
		found, err := p.connected.StorageOf(o.App, o.Region).Owner(o.Logic, o.ID).GetVersions(ctx, name)
		if err == nil && len(found) == 0 {
			err = codes.Errorf(codes.Conflict, "the server at %s does not load from %s, and would not find the rows: give as %s the database that it was started with", p.addr, db.Name(), p.flag)
		}
		return err
	})
}
