package server

import (
	"cmp"
	"context"
	"errors"
	"syscall"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/quota"
	"confcenter/internal/tlsfiles"
	"confcenter/server/edge"
	"confcenter/server/http"
	"confcenter/server/tcp"
)

// Fronts are the ways into a server.
type Fronts struct {
	// Control says who gets in; nil: everyone gets in, and may do everything.
	Control *control.Config
	// Audit takes down who gets in and what is refused, of a server that keeps no audit; nil: no one does.
	Audit access.Notes
	TCP   tcp.Config
	// HTTP shares the lobby of TCP unless it has its own; nil: there is none.
	HTTP *http.Config
	// SpareHTTP starts the server without HTTP, and logs it, if its port is taken.
	SpareHTTP bool
	// Certificates are those of TLS; nil: the settings have them, or there are none.
	Certificates *tlsfiles.Files
}

// Start lets peers in. It may be called once. If it fails, what it has started has ended, by ctx at
// the latest, and everything is left to be closed.
func (s *Server) Start(ctx context.Context, f Fronts) error {
	if f.Control != nil {
		s.openControl(*f.Control, f.Certificates)
	}
	s.Models.Secret().Over(s.Documents)
	s.later.Store(&judges{s.Control, s.Models})
	if f.Certificates != nil {
		f.TCP.TLS = f.Certificates.Config()
	}
	if audit := s.Models.Audit(); audit.On() {
		f.Audit = audit.Note
	}
	f.TCP.Edge = edge.New(s.Control, f.Audit, s.Models.Secret().Ring, s.cfg.Log)
	err := s.startTCP(f.TCP)
	if err == nil && f.HTTP != nil {
		if err = s.startHTTP(*f.HTTP, &f); err != nil {
			err = errors.Join(err, s.TCP.Shutdown(ctx))
		}
	}
	return err
}

// openControl opens access control, and has the state store and the models obey it.
func (s *Server) openControl(cfg control.Config, certificates *tlsfiles.Files) {
	state, tokens, reviews := s.cfg.State, s.Models.Tokens(), s.Models.Reviews()
	cfg.Clock, cfg.Log = cmp.Or(cfg.Clock, s.cfg.Clock), s.cfg.Log
	cfg.Roles, cfg.Tokens, cfg.Store, cfg.Leases = s.Documents, tokens, s.Models.Store(), state
	cfg.Quotas = quota.New(cfg.Clock)
	cfg.Quotas.MeasureBy(state.Quotas())
	state.Quotas().Obey(cfg.Quotas)
	if certificates != nil {
		cfg.Revoked = certificates.Revoked
	}
	s.Control = control.Open(cfg)
	s.Own(func() error { s.Control.Close(); return nil })
	if certificates != nil {
		certificates.Follow(s.Control.Renew)
	}
	tokens.Obey(s.Control)
	tokens.Count(cfg.Quotas)
	tokens.Await(reviews.HoldToken)
	reviews.Obey(s.Control)
	s.Models.Secret().Guard()
}

func (s *Server) startTCP(cfg tcp.Config) error {
	cfg.Clock, cfg.Log = cmp.Or(cfg.Clock, s.cfg.Clock), s.cfg.Log
	if s.cfg.Memory != nil {
		cfg.Memory = s.cfg.Memory.Peers
	}
	s.TCP = tcp.New(cfg, tcp.Stores{
		Config: s.Documents, Revisions: s.Documents.Revisions(), State: s.edge, Locks: s.locks,
		StateStats: s.cfg.State.Stats, Storage: s.Players, Models: s.Models.Models(),
	})
	return s.TCP.Start()
}

func (s *Server) startHTTP(cfg http.Config, f *Fronts) error {
	cfg.Clock, cfg.Log, cfg.Connections = cmp.Or(cfg.Clock, s.cfg.Clock), s.cfg.Log, cmp.Or(cfg.Connections, f.TCP.Connections)
	cfg.Edge, cfg.Secrets = f.TCP.Edge, s.Models.Secret().Trouble
	cfg.Restart, cfg.Memory = s.restart.helps, cmp.Or(s.cfg.Memory, cfg.Memory)
	if f.Certificates != nil {
		cfg.TLS, cfg.Certificates = f.TCP.TLS, f.Certificates.Trouble
	}
	stores := http.Stores{
		Config: s.Documents, State: s.edge, StateStats: s.cfg.State.Stats, Storage: s.Players,
		Models: s.Models.Models(), Audit: s.Models.Audit(),
	}
	if s.lander != nil {
		stores.Lander = s.lander.Readings
	}
	web, err := http.New(cfg, stores, s.TCP)
	if err != nil {
		return err
	}
	if err = web.Start(); err == nil {
		s.HTTP = web
		return nil
	}
	err = errors.Join(err, web.Shutdown(context.Background()))
	if f.SpareHTTP && errors.Is(err, syscall.EADDRINUSE) {
		s.cfg.Log.Warn().Err(err).Msg("HTTP is off: its default port is taken; choose another with --http, or turn HTTP off with --http=")
		return nil
	}
	return err
}

// Done is closed when HTTP has ended, which it does not do by itself; nil without HTTP. The event
// loops of TCP cannot tell: /livez sees them stand still.
func (s *Server) Done() <-chan struct{} {
	if s.HTTP == nil {
		return nil
	}
	return s.HTTP.Done()
}

// Err says why; it may be nil.
func (s *Server) Err() error { return s.HTTP.Err() }

// Shutdown stops accepting connections, finishes what has begun, and returns when ctx ends at the
// latest. TCP and HTTP stop at the same time, so that neither waits for the other's peers.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.HTTP == nil {
		return s.TCP.Shutdown(ctx)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.HTTP.Shutdown(ctx) }()
	return errors.Join(s.TCP.Shutdown(ctx), <-stopped)
}
