// Package server is a whole server: it opens what one keeps, connects the parts, lets peers in
// over TCP and HTTP, and closes everything again. `confcenter serve`, package clienttest and
// tests all get theirs here, so that none of them lacks a connection that the others have.
//
//	srv, err := server.Open(server.Config{State: engine, Documents: confstore.Config{…}})
//	err = srv.Start(ctx, server.Fronts{TCP: tcp.Config{Listen: "127.0.0.1:4800"}})
//	…
//	err = srv.Shutdown(ctx)
//	err = srv.Close()
//
// Between Open and Start a caller can have the first token made: what guards the way in is among
// what a server keeps.
//
//	Open:   engine ◄── documents ◄── players, models ◄── reviews' guard ◄── locks
//	Start:  access control ──► TCP (server/tcp) ──► HTTP (gateway)
//
// Settings come from the caller; what the parts need of each other is filled in here. An arrow
// back, from the documents to those who judge their changes and open after them, is in later.go.
package server

import (
	"cmp"
	"errors"
	"slices"

	"github.com/rs/zerolog"

	"confcenter/access/control"
	"confcenter/access/review"
	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/internal/memory"
	"confcenter/internal/roster"
	"confcenter/kv/lock"
	"confcenter/kvstore"
	"confcenter/player"
	"confcenter/player/landing"
	"confcenter/server/host"
	"confcenter/server/http"
	"confcenter/server/tcp"
)

// Config is what a server keeps, and how.
type Config struct {
	// State is the engine of the state store. It is the server's from then on: Close closes it,
	// and so does Open if it fails.
	State *kvstore.Store
	// Documents are remembered in State, unless they have a store of their own.
	Documents confstore.Config
	Players   player.Config
	Models    host.Config
	Locks     lock.Config
	Landing   Landing
	// Probe fails as long as State's disk takes no writes. It may hang. nil: there is no disk.
	Probe func() error
	// Memory has the pools of all parts; nil: each has those of its own settings.
	Memory *memory.Budget
	// Clock is the time of all that has none of its own settings, except the documents: files
	// have the machine's. Default that as well.
	Clock clock.Clock
	// Log is that of all parts.
	Log zerolog.Logger
}

// Server is a whole server. Make one with Open.
type Server struct {
	// set at open
	Documents *confstore.Store
	Players   *player.Storage
	Models    *host.Host
	Landing   *landing.Database // of Players; nil: none

	// set by Start
	Control *control.Control // nil: there is no access control
	TCP     *tcp.Server
	HTTP    *http.Gateway // nil: there is none

	// set at open
	cfg     Config
	edge    *review.Store // the state store for what writes on behalf of peers
	locks   *lock.Manager
	later   later
	lander  *landing.Lander // nil: others land, or no one
	restart restartDue

	closers []func() error // of what was opened, in that order
}

// Open opens what a server keeps. No one gets in before Start.
func Open(cfg Config) (*Server, error) {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	if b := cfg.Memory; b != nil {
		cfg.Documents.Documents, cfg.Documents.Caches, cfg.Documents.Queues = b.Documents, b.Caches, b.Queues
		cfg.Players.Memory, cfg.Locks.Queues = b.Store, b.Queues
		cfg.Models.Pool, cfg.Models.Review.Memory = b.Queues, b.Bodies
		cfg.Models.History.Memory, cfg.Models.History.Staged = b.Bodies, b.Staged
	}
	s := &Server{cfg: cfg}
	s.later.Store(&judges{})
	s.Own(cfg.State.Close)
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open() error {
	if err := s.openDocuments(s.cfg.Documents); err != nil {
		return err
	}
	if err := s.openPlayers(s.cfg.Players); err != nil {
		return err
	}
	s.openModels(s.cfg.Models)
	s.restart.troubles, s.restart.probe = []func() *health.Trouble{s.cfg.State.Trouble, s.Documents.Trouble}, s.cfg.Probe
	s.Own(s.run(s.remind))
	s.startLanding()
	return nil
}

func (s *Server) openDocuments(cfg confstore.Config) (err error) {
	if cfg.State == nil {
		cfg.State = s.cfg.State
	}
	l := &s.later
	cfg.Check, cfg.Lessens, cfg.MayChange, cfg.Ring, cfg.Approval = l.check, l.lessens, l.mayChange, l.ring, l
	cfg.Log = s.cfg.Log
	if s.Documents, err = confstore.Open(cfg); err == nil {
		s.Own(s.Documents.Close)
	}
	return err
}

func (s *Server) openPlayers(cfg player.Config) (err error) {
	if cfg.Settings, err = s.openDatabase(); err != nil {
		return err
	}
	if s.Landing != nil {
		cfg.Backing = s.Landing
		s.Own(s.Landing.Close)
	}
	cfg.Store, cfg.Clock, cfg.Log = s.cfg.State, cmp.Or(cfg.Clock, s.cfg.Clock), s.cfg.Log
	if s.Players, err = player.Open(cfg); err == nil {
		s.Own(s.Players.Close)
	}
	return err
}

// openModels opens the models, and what follows from them: the guard of the reviews, and the locks
// on it.
func (s *Server) openModels(cfg host.Config) {
	cfg.Clock, cfg.Log = cmp.Or(cfg.Clock, s.cfg.Clock), s.cfg.Log
	cfg.History.Documents, cfg.Review.Documents = s.Documents, s.Documents
	cfg.History.Clients = func(after int32, most int) ([]roster.Client, int32) { return s.TCP.Clients(after, most) }
	s.Models = host.Open(s.cfg.State, cfg)
	s.edge = s.Models.Reviews().Guard(s.cfg.State)
	locks := s.cfg.Locks
	locks.Clock = cmp.Or(locks.Clock, s.cfg.Clock)
	s.locks = lock.New(s.edge, locks)
	s.Own(func() error {
		s.Models.Close()
		s.locks.Close()
		return nil
	})
}

// run runs fn, until end is called, which waits for it.
func (s *Server) run(fn func(closing <-chan struct{})) (end func() error) {
	closing, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		fn(closing)
	}()
	return func() error {
		close(closing)
		<-ended
		return nil
	}
}

// Own has Close close what else was opened for the server, before all that was opened earlier.
func (s *Server) Own(closeOne func() error) { s.closers = append(s.closers, closeOne) }

// Close closes everything, what was opened last first. A server that was started has been shut
// down before.
func (s *Server) Close() error {
	var errs []error
	for _, closeOne := range slices.Backward(s.closers) {
		errs = append(errs, closeOne())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Failed is why a server that is stopped now has failed; nil: it has not.
func (s *Server) Failed() error { return s.restart.err() }
