// Package clienttest runs a real server inside the tests of programs that use
// package client, and lets it fail in the ways a server and a network do:
//
//	srv := clienttest.Start(t, clienttest.Options{Files: map[string]string{"app.json": `{"n": 1}`}})
//	c, err := client.Dial(ctx, client.Config{Addrs: []string{srv.Address()}, Name: "app"})
//	srv.Write("app.json", `{"n": 2}`)  // as an editor does
//	srv.Freeze()                       // connections stay, nothing is answered
//	srv.Thaw()
//	srv.Stop()                         // no one answers
//	srv.Restart()                      // everything is back, at the same address
//
// Files are in a directory of the test, the state store is in memory, and everything ends
// with the test. Only tests need this package: a program that imports just client does
// not need the server's libraries. The server needs Linux; elsewhere tests that start one fail and say
// so.
package clienttest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"confcenter/confstore"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/server"
	"confcenter/server/host"
	"confcenter/server/tcp"
)

// patience is how long an orderly stop may take, and how long a disk is given to answer: a
// machine that has much else to do is not one whose disk hangs.
const patience = time.Minute

// Options change what a test needs to be different. The zero value is a server without
// files and keys.
type Options struct {
	// Files are written before the server starts: contents by name.
	Files map[string]string
	// Before, if set, is called with the conf directory after Files are written and before
	// the server starts, for example to set file times or make links.
	Before func(confDir string)
	// Server and Store are for limits and clocks. Their addresses, directories and log are
	// replaced; the log goes to the test's output. With Server.TLSListen the server has only
	// TLS, by Server.TLS.
	Server tcp.Config
	Store  confstore.Config
	// Models are for the limits of models. Their clock is that of Server.
	Models host.Config
}

// Server is a server that runs in this process. Its methods are for the test's
// own goroutine and fail the test rather than return errors.
type Server struct {
	// Store and State are what is served, for reading and writing without a client.
	// Restart replaces them.
	Store *confstore.Store
	State kv.Store
	// ConfDir has the files and DataDir their versions. If DataDir is removed, a restarted
	// server begins a new epoch.
	ConfDir, DataDir string

	t     testing.TB
	opts  Options
	state *memory.Store // closed while stopped; nil before the first start
	door  *door
	whole *server.Server // nil while stopped
}

// Start starts a server that stops with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	if err := tcp.RunsOn(runtime.GOOS); err != nil {
		t.Fatalf("clienttest: %v", err)
	}
	dir := t.TempDir()
	s := &Server{
		t: t, opts: opts, ConfDir: filepath.Join(dir, "conf"), DataDir: filepath.Join(dir, "data"),
	}
	s.must(os.Mkdir(s.ConfDir, 0o755))
	for name, text := range opts.Files {
		s.Write(name, text)
	}
	if opts.Before != nil {
		opts.Before(s.ConfDir)
	}
	var err error
	s.door, err = openDoor()
	s.must(err)
	t.Cleanup(func() {
		s.Stop()
		s.door.close()
	})
	s.start()
	return s
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("clienttest: %v", err)
	}
}

func (s *Server) start() {
	s.t.Helper()
	cfg := server.Config{
		Documents: s.opts.Store, Models: s.opts.Models, Clock: s.opts.Server.Clock,
		Log: zerolog.New(zerolog.NewTestWriter(s.t)).Level(zerolog.WarnLevel),
	}
	cfg.Documents.Dir, cfg.Documents.DataDir = s.ConfDir, s.DataDir
	cfg.Documents.SetTimeout = cmp.Or(cfg.Documents.SetTimeout, patience)
	cfg.Documents.DiskPatience = cmp.Or(cfg.Documents.DiskPatience, patience)
	front := s.opts.Server
	if front.TLSListen == "" {
		front.Listen = "127.0.0.1:0"
	} else {
		front.Listen, front.TLSListen = "", "127.0.0.1:0"
	}
	front.Loops = cmp.Or(front.Loops, 2)
	if _, err := os.Stat(s.DataDir); s.state == nil || os.IsNotExist(err) {
		s.state = memory.New(memory.Config{Clock: cfg.Clock})
	} else {
		s.state = s.state.Clone()
	}
	cfg.State = s.state.Store
	whole, err := server.Open(cfg)
	s.must(err)
	if err := whole.Start(context.Background(), server.Fronts{TCP: front}); err != nil {
		s.must(errors.Join(err, whole.Close()))
	}
	s.Store, s.State, s.whole = whole.Documents, s.state, whole
	s.door.lead(s.TCP().Addr().String())
}

// Address is where clients find the server, host:port. It stays the same across
// restarts.
func (s *Server) Address() string { return s.door.ln.Addr().String() }

// TCP is the server itself, for its numbers and for its own address, which Freeze
// and Cut do not reach and which every Restart replaces. Nil while stopped.
func (s *Server) TCP() *tcp.Server {
	if s.whole == nil {
		return nil
	}
	return s.whole.TCP
}

// Stop drains the server and closes the stores. Connections end, and new ones end as soon
// as they are made. Acknowledged writes are back after Restart.
func (s *Server) Stop() {
	s.t.Helper()
	if s.whole == nil {
		return
	}
	s.door.abandon()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.whole.Shutdown(ctx); err != nil {
		s.t.Errorf("clienttest: shutdown: %v", err)
	}
	s.door.lead("")
	if err := s.whole.Close(); err != nil {
		s.t.Errorf("clienttest: close the stores: %v", err)
	}
	s.whole = nil
}

// Restart stops the server, if it runs, and starts it again.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start()
}

// Freeze is what SIGSTOP or a silent network does to a server: connections stay and new
// ones are accepted, but from now on no request is answered and no change is pushed. What
// is already on its way may still arrive.
func (s *Server) Freeze() { s.door.freeze(true) }

// Thaw undoes Freeze; everything that was held up is delivered.
func (s *Server) Thaw() { s.door.freeze(false) }

// Cut ends all connections. The server keeps running and accepts new ones.
func (s *Server) Cut() { s.door.cut() }

// Write writes a file the way an editor that replaces files does. The server sees
// it a few milliseconds later; wait for it with a Watch rather than with a Get.
func (s *Server) Write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.ConfDir, name)
	s.must(os.MkdirAll(filepath.Dir(path), 0o755))
	tmp := filepath.Join(filepath.Dir(path), ".write."+filepath.Base(path))
	s.must(os.WriteFile(tmp, []byte(text), 0o644))
	s.must(os.Rename(tmp, path))
}

// Remove removes a file as Write writes one.
func (s *Server) Remove(name string) {
	s.t.Helper()
	s.must(os.Remove(filepath.Join(s.ConfDir, name)))
}
