// Package servertest adds raw peers to the server of package clienttest, for our own
// tests: they speak the protocol frame by frame and connect to the server directly.
//
//	srv := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": `{"k":1}`}})
//	peer := srv.Peer("app")
//	peer.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`)
//
// Nothing sleeps: a peer waits for frames, and Quiet proves that there is none by round
// trips.
package servertest

import (
	"net"
	"testing"
	"time"

	"confcenter/clienttest"
	"confcenter/internal/roster"
	"confcenter/server/tcp"
)

// Patience is how long a test waits for what must happen.
const Patience = time.Minute

// Options are clienttest's.
type Options = clienttest.Options

// running gives the field of Server another name than *tcp.Server's.
type running = clienttest.Server

// Server is a running server; see clienttest.Server.
type Server struct {
	*running
	*tcp.Server

	t testing.TB
}

// Start starts a server that stops with the test, on the transport that the tests run on.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	opts.Server = OnTransport(opts.Server)
	s := &Server{running: clienttest.Start(t, opts), t: t}
	s.Server = s.TCP()
	return s
}

// Addr is the server's own address, which each Restart changes.
func (s *Server) Addr() net.Addr { return s.Server.Addr() }

// Clients are all clients, by id.
func (s *Server) Clients() (all []roster.Client) {
	for after, more := int32(0), true; more; more = after != 0 {
		var page []roster.Client
		page, after = s.Server.Clients(after, 1000)
		all = append(all, page...)
	}
	return all
}

// Restart is clienttest's.
func (s *Server) Restart() {
	s.t.Helper()
	s.running.Restart()
	s.Server = s.TCP()
}
