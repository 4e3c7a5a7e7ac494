package tcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/admission"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/internal/metric"
	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kv/lock"
	"confcenter/op"
	"confcenter/server/clients"
	"confcenter/server/config"
	"confcenter/server/edge"
	"confcenter/server/player"
	"confcenter/server/state"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/netio"
	"confcenter/server/watch"
)

// Config are a Server's settings. The zero value listens on DefaultListen and behaves like
// CppCloud without its defects.
//
// wide: settings.
type Config struct {
	// Listen is where plain connections come in: HOST:PORT, where port 0 takes a free one,
	// or unix:PATH. Default DefaultListen, or with TLSListen none.
	// Anyone who reaches it may read and write: the caller decides what is safe.
	Listen string
	// TLSListen is where TLS connections come in, in the form of Listen; TLS is their
	// configuration.
	TLSListen string
	TLS       *tls.Config
	// HandshakeTimeout is how long a TLS handshake may take. Default 10 s.
	HandshakeTimeout time.Duration
	// Std serves plain connections with package net rather than with gnet, as builds without
	// gnet do in any case.
	Std bool
	// ServerID is this server's place in the id space: the first client gets
	// ServerID*1000+1001. Default 1.
	ServerID int
	// Loops is the number of event loops. Default the number of CPUs.
	Loops int
	// MaxConnections is how many clients there may be; one more is told to try again
	// later. Default 10000. Each takes a descriptor.
	MaxConnections int
	// Edge has the stages that every request passes, over HTTP as well. Default one that lets everyone do everything.
	Edge *edge.Edge
	// Connections is where connections begin, which other fronts of the process share. Default
	// one of its own.
	Connections *admission.Limiter
	// FrameExact pushes for a changed base only the base's name, as CppCloud
	// does, without a second frame for the subscribed file.
	FrameExact bool
	// DocLiteral answers GETCONFIG with the design document's bare ok and fail instead of 1
	// and an object. CppCloud's SDKs log an error for each.
	DocLiteral bool
	// KeepAlive is the interval of the sweep that probes silent peers and closes those
	// silent for two intervals. Default 10 min; less than 1 min would disturb C++ programs
	// that are still starting.
	KeepAlive time.Duration
	// IdentifyTimeout is how long a connection may stay open without WHOAMI. Default 30 s.
	IdentifyTimeout time.Duration
	// SlowRequest is how long a request may take before it is logged, with its command and
	// sender, never with a value. Default 500 ms.
	SlowRequest time.Duration
	// Limits bound what peers can make the server hold.
	Limits loop.Limits
	// Memory is what input, output and routed frames draw from. Default a pool of
	// Limits.Memory.
	Memory *memory.Pool
	// Clock is the time. Default the real one.
	Clock clock.Clock
	// Log gets what an operator must know. The zero value logs nothing.
	Log zerolog.Logger
}

// DefaultListen is the default of Config.Listen.
const DefaultListen = "127.0.0.1:4800"

func (c Config) withDefaults() Config {
	if c.TLSListen == "" {
		c.Listen = cmp.Or(c.Listen, DefaultListen)
	}
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 10*time.Second)
	c.ServerID = cmp.Or(c.ServerID, 1)
	c.Loops = cmp.Or(c.Loops, runtime.GOMAXPROCS(0))
	c.MaxConnections = cmp.Or(c.MaxConnections, 10000)
	c.KeepAlive = cmp.Or(c.KeepAlive, 10*time.Minute)
	c.IdentifyTimeout = cmp.Or(c.IdentifyTimeout, 30*time.Second)
	c.SlowRequest = cmp.Or(c.SlowRequest, 500*time.Millisecond)
	c.Clock = cmp.Or(c.Clock, clock.Real())
	c.Connections = cmp.Or(c.Connections, admission.New(admission.Limits{}))
	c.Limits = c.Limits.WithDefaults()
	c.Edge = cmp.Or(c.Edge, edge.New(nil, nil, nil, c.Log))
	return c
}

// listeners are the ways in, plain before TLS.
func (c *Config) listeners() (list []netio.Listen) {
	if c.Listen != "" {
		list = append(list, netio.Listen{Address: c.Listen})
	}
	if c.TLSListen != "" {
		list = append(list, netio.Listen{Address: c.TLSListen, TLS: c.TLS, Handshake: c.HandshakeTimeout})
	}
	return list
}

// Stores are what a Server serves. The caller closes them after Shutdown.
type Stores struct {
	Config config.Store // must be given
	// State answers the KV commands; nil: they get codes.NotImplemented.
	State kv.Store
	// Revisions are the documents for those who watch them; nil: no one can.
	Revisions follow.Store
	// StateStats returns State's figures; nil: only its revision is known. It must be cheap.
	StateStats func() kv.Stats
	// Locks is made on State; nil only without State. It is closed before State.
	Locks *lock.Manager
	// Storage is made on State and answers the commands of player storage; nil: they get
	// codes.NotImplemented. It is closed before State.
	Storage player.Store
	// Models are models of a cluster's state. The commands of those that are not there get
	// codes.NotImplemented.
	Models []op.Model
}

// Server is the TCP side of confcenter. Make one with New.
type Server struct {
	// set at open
	cfg     Config
	group   *loop.Group
	gate    *gate.Gate
	configs *config.Handlers
	clients *clients.Handlers
	states  *state.Handlers   // nil: there is no state store
	watches []*watch.Handlers // of keys and of documents, as far as there are
	engine  *netio.Engine
	life    context.Context // of the ticker and of what workers read
	end     context.CancelFunc
	ticking chan struct{} // closed when it has ended

	nextSweep      time.Time // the ticker's
	unfollowRights func()    // set by Start
}

// New makes a server for stores. It does nothing before Start.
func New(cfg Config, stores Stores) *Server {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, ticking: make(chan struct{}), unfollowRights: func() {}}
	s.life, s.end = context.WithCancel(context.Background())
	s.group = loop.NewGroup(loop.Config{
		Limits: cfg.Limits, Memory: cfg.Memory, SlowRequest: cfg.SlowRequest, Clock: cfg.Clock, Log: cfg.Log,
	})
	s.gate = gate.New(s.group, gate.Config{
		ServerID: cfg.ServerID, IdentifyTimeout: cfg.IdentifyTimeout, Life: s.life, Edge: cfg.Edge,
	})
	s.clients = clients.Add(s.gate, stores.Config, int32(cfg.ServerID), cfg.Clock)
	s.configs = config.Add(s.gate, stores.Config, config.Config{FrameExact: cfg.FrameExact, DocLiteral: cfg.DocLiteral, Changed: s.clients.Changed})
	if stores.State == nil {
		state.AddNone(s.gate)
	} else {
		s.states = state.Add(s.gate, stores.State, stores.Locks, stores.StateStats)
		s.watches = append(s.watches, watch.Add(s.gate, stores.State))
	}
	if documents := watch.AddDocuments(s.gate, stores.Revisions); documents != nil {
		s.watches = append(s.watches, documents)
	}
	player.Add(s.gate, stores.Storage)
	Add(s.gate, stores.Models)
	s.engine = netio.New(netio.Config{
		Listen: cfg.listeners(), Loops: cfg.Loops, Front: cfg.Connections.Front(cfg.MaxConnections, memory.TCPCost), Group: s.group, Std: cfg.Std,
		NewLoop: func(exec func(fn func()) error) netio.Opener { return s.gate.NewLocal(exec) },
	})
	return s
}

// Start listens and returns as soon as connections are accepted. It may be
// called once.
func (s *Server) Start() error {
	s.group.Start()
	s.configs.Follow()
	s.unfollowRights = s.gate.Follow()
	for _, w := range s.watches {
		w.Follow()
	}
	s.nextSweep = s.cfg.Clock.Now().Add(s.cfg.KeepAlive)
	if err := s.engine.Start(); err != nil {
		s.unfollow()
		return err
	}
	go func() {
		defer close(s.ticking)
		s.ticker()
	}()
	return nil
}

// unfollow ends what Start began: the workers and the stores' feeds.
func (s *Server) unfollow() {
	s.unfollowRights()
	s.configs.Unfollow()
	s.group.Close()
	for _, w := range s.watches {
		w.Unfollow()
	}
}

// Addr is the address the server listens on, with the port it got: the plain one, if there
// is one.
func (s *Server) Addr() net.Addr { return s.engine.Addr(0) }

// TLSAddr is the address for TLS; nil: there is none.
func (s *Server) TLSAddr() net.Addr {
	if s.cfg.TLSListen == "" {
		return nil
	}
	return s.engine.Addr(len(s.cfg.listeners()) - 1)
}

// drainPoll is how often Shutdown checks whether all sessions are done.
const drainPoll = 10 * time.Millisecond

// Shutdown accepts no more connections and requests, waits until every accepted write is
// answered and all replies have left this process, and stops. It stops waiting when ctx
// ends, but always shuts down; that may take a second or two longer than ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.group.Drain()
	err := s.drain(ctx)
	s.engine.Stop()
	s.end()
	<-s.ticking
	s.unfollow()
	return err
}

// drain waits until no session has replies or writes outstanding.
func (s *Server) drain(ctx context.Context) error {
	for {
		owing, err := s.group.Owing(ctx, s.engine.Done)
		if err != nil {
			return err
		}
		if owing == 0 {
			return nil
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return codes.Errorf(codes.Timeout, "%d sessions had replies or writes outstanding: %w", owing, ctx.Err())
		}
	}
}

// tickPeriod is how often the loops are sent the time.
const tickPeriod = time.Second

// markTicks is after how many ticks watches get their bookmarks.
const markTicks = 10

// ticker posts the time to every loop until the server stops.
func (s *Server) ticker() {
	t := s.cfg.Clock.NewTicker(tickPeriod)
	defer t.Stop()
	for ticks := 0; ; {
		select {
		case <-s.life.Done():
			return
		case <-t.C():
			now := s.cfg.Clock.Now()
			s.group.Tick(now)
			if ticks++; ticks%markTicks == 0 {
				for _, w := range s.watches {
					w.Mark()
				}
			}
			if s.sweepDue(now) {
				s.clients.AskSilent(now, s.cfg.KeepAlive)
			}
		}
	}
}

// sweepDue reports whether an interval has passed since the start or the last sweep.
func (s *Server) sweepDue(now time.Time) bool {
	if now.Before(s.nextSweep) {
		return false
	}
	for !now.Before(s.nextSweep) {
		s.nextSweep = s.nextSweep.Add(s.cfg.KeepAlive)
	}
	return true
}

// Live says why the server should be restarted: one of its loops is stuck; nil if all is
// well. It is cheap.
func (s *Server) Live() error { return s.group.Live() }

// Ready says why no requests are accepted although the server is alive: it is stopping.
func (s *Server) Ready() error {
	if s.group.IsDraining() {
		return codes.Errorf(codes.Closed, "the server is stopping")
	}
	return nil
}

// Clients returns identified connections with ids above after, ordered by id: a page of at
// most so many. Next is where the next page begins, 0 if there is none. It asks one loop after
// another by mail, for one caller at a time.
func (s *Server) Clients(after int32, most int) (list []roster.Client, next int32) {
	list, next = s.clients.Census(after, most, s.engine.Done)
	if s.states != nil {
		for i := range list {
			s.states.StillHeld(&list[i])
		}
	}
	return list, next
}

// Slow are the last requests that took longer than Config.SlowRequest, newest
// first.
func (s *Server) Slow() []metric.Slow { return s.group.Slow() }
