// Package servertest runs a real server for tests: a config store and a state
// store on directories of their own, a listener on a free port, and peers that speak the
// wire byte by byte.
//
//	srv := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": `{"k":1}`}})
//	peer := srv.Peer("app")
//	peer.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`)
//
// Everything is stopped when the test ends. Nothing sleeps: a peer waits for
// frames, and Quiet proves the absence of one with a round trip.
package servertest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/gateway"
	"confcenter/kv"
	"confcenter/kvlock"
	"confcenter/kvstore"
	"confcenter/kvstore/pebblekv"
	"confcenter/protocol"
	"confcenter/server"
)

// Patience is how long a test waits for what must happen.
const Patience = 20 * time.Second

// Options are what a test wants to be different. The zero value is a server on
// an empty directory.
type Options struct {
	// Files are written before the server starts, by name.
	Files map[string]string
	// Before, if set, is called with the conf directory when Files lie there and
	// nothing runs yet: for file times, links and whatever else is special.
	Before func(confDir string)
	// Server and Store are taken as they are, but for the address, the
	// directories and, if they have none, a log that goes to the test's output.
	Server server.Config
	Store  confstore.Config
	// StateConfig is taken as it is, but for what Store is treated alike in.
	StateConfig pebblekv.Config
	// State, if set, is the state store that is served instead of a real one: the
	// test's own, which closes it, and the same one after a Restart.
	State kv.Store
	// HTTP, if set, has HTTP served too, on the same stores; it is taken as Server is.
	HTTP *gateway.Config
}

// Server is a running server and its directories.
type Server struct {
	*server.Server
	Store   *confstore.Store
	State   kv.Store
	ConfDir string
	DataDir string
	HTTP    *gateway.Gateway // nil unless Options wants it

	t     testing.TB
	opts  Options
	close []func() error // what start opened, to be closed in this order
	up    bool
}

// Start starts a server that stops with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{t: t, opts: opts, ConfDir: filepath.Join(dir, "conf"), DataDir: filepath.Join(dir, "data")}
	require.NoError(t, os.Mkdir(s.ConfDir, 0o755))
	for name, text := range opts.Files {
		s.Write(name, text)
	}
	if opts.Before != nil {
		opts.Before(s.ConfDir)
	}
	t.Cleanup(s.Stop)
	s.start()
	return s
}

func (s *Server) start() {
	s.t.Helper()
	log := zerolog.New(zerolog.NewTestWriter(s.t)).Level(zerolog.WarnLevel)
	cfg := s.opts.Store
	cfg.Dir, cfg.DataDir, cfg.Log = s.ConfDir, s.DataDir, log
	store, err := confstore.Open(cfg)
	require.NoError(s.t, err)
	scfg := s.opts.Server
	scfg.Listen, scfg.Log = "127.0.0.1:0", log
	if scfg.Loops == 0 {
		scfg.Loops = 2
	}
	s.Store, s.close = store, nil
	if s.State = s.opts.State; s.State == nil {
		s.State = s.openState(log)
	}
	locks := kvlock.New(s.State, kvlock.Config{Clock: scfg.Clock})
	s.close = append([]func() error{func() error { locks.Close(); return nil }}, s.close...)
	s.close = append(s.close, store.Close)
	s.Server = server.New(scfg, server.Stores{Config: store, State: s.State, StateStats: statsOf(s.State), Locks: locks})
	require.NoError(s.t, s.Server.Start())
	if s.opts.HTTP != nil {
		s.startHTTP(log)
	}
	s.up = true
}

func (s *Server) startHTTP(log zerolog.Logger) {
	s.t.Helper()
	cfg := *s.opts.HTTP
	cfg.Listen, cfg.Log = "127.0.0.1:0", log
	stores := gateway.Stores{Config: s.Store, State: s.State}
	if engine, ok := s.State.(kvstore.Engine); ok {
		stores.StateStats = engine.Stats
	}
	var err error
	s.HTTP, err = gateway.New(cfg, stores, nil)
	require.NoError(s.t, err)
	require.NoError(s.t, s.HTTP.Start())
}

// statsOf is where the numbers come from, if the store has any.
func statsOf(state kv.Store) func() protocol.KVStats {
	engine, ok := state.(kvstore.Engine)
	if !ok {
		return nil
	}
	return func() protocol.KVStats { return protocol.KVStats(engine.Stats()) }
}

func (s *Server) openState(log zerolog.Logger) kv.Store {
	s.t.Helper()
	cfg := s.opts.StateConfig
	cfg.Log = log
	if cfg.Clock == nil {
		cfg.Clock = s.opts.Server.Clock
	}
	if cfg.Disk.Dir == "" {
		cfg.Disk.Dir = filepath.Join(s.DataDir, "state")
	}
	if cfg.Disk.ReserveBytes == 0 {
		cfg.Disk.ReserveBytes = 1 // tests run on full disks too
	}
	state, err := pebblekv.Open(cfg)
	require.NoError(s.t, err)
	s.close = append(s.close, state.Close)
	return state
}

// Stop drains the server and closes the stores.
func (s *Server) Stop() {
	if !s.up {
		return
	}
	s.up = false
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if s.HTTP != nil {
		if err := s.HTTP.Shutdown(ctx); err != nil {
			s.t.Errorf("shutdown of HTTP: %v", err)
		}
	}
	if err := s.Server.Shutdown(ctx); err != nil {
		s.t.Errorf("shutdown: %v", err)
	}
	for _, closeOne := range s.close {
		if err := closeOne(); err != nil {
			s.t.Errorf("close a store: %v", err)
		}
	}
}

// Restart stops the server and starts it again on the same directories and a new
// port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start()
}

// Write writes a file into the conf directory the way an editor that replaces
// files does.
func (s *Server) Write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.ConfDir, name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	tmp := filepath.Join(filepath.Dir(path), ".write."+filepath.Base(path))
	require.NoError(s.t, os.WriteFile(tmp, []byte(text), 0o644))
	require.NoError(s.t, os.Rename(tmp, path))
}

// Remove removes a file from the conf directory.
func (s *Server) Remove(name string) {
	s.t.Helper()
	require.NoError(s.t, os.Remove(filepath.Join(s.ConfDir, name)))
}
