package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvlock"
	"confcenter/protocol"
)

// Config is how a Server behaves. The zero value listens on DefaultListen and is
// CppCloud with the mended edges.
type Config struct {
	// Listen is the TCP address. Default DefaultListen; port 0 takes a free one.
	// Whoever reaches it may read and write: the caller decides what is safe.
	Listen string
	// ServerID is this server's place in the id space: the first client is
	// given ServerID*1000+1001. Default 1.
	ServerID int
	// Loops is the number of event loops. Default the number of CPUs.
	Loops int
	// MaxConnections is how many connections may be open; one more is turned
	// away. Default 10000. It must stay well below the process's file limit:
	// running out of descriptors ends the event engine.
	MaxConnections int
	// FrameExact pushes for a changed base only the base's name, as CppCloud
	// does, without a second frame for the subscribed file.
	FrameExact bool
	// DocLiteral answers GETCONFIG with the design document's bare ok and fail
	// in place of 1 and an object. CppCloud's SDKs log an error at each.
	DocLiteral bool
	// KeepAlive is the interval of the sweep that asks silent peers for a sign
	// of life and closes those silent for two intervals. Default 10 min; below
	// 1 min C++ programs that are still starting would be disturbed.
	KeepAlive time.Duration
	// IdentifyTimeout is how long a connection may stay without WHOAMI. Default
	// 30 s.
	IdentifyTimeout time.Duration
	// SlowRequest is how long a request may take before it is logged, with its
	// command and who sent it, never with a value. Default 500 ms.
	SlowRequest time.Duration
	// Limits bound what peers can make the server hold.
	Limits Limits
	// Clock is the time. Default the real one.
	Clock clock.Clock
	// Log gets what an operator has to know. The zero value logs nothing.
	Log zerolog.Logger
}

// DefaultListen is where a Server listens unless it is told otherwise.
const DefaultListen = "127.0.0.1:4800"

func (c Config) withDefaults() Config {
	setDefault(&c.Listen, DefaultListen)
	setDefault(&c.ServerID, 1)
	setDefault(&c.Loops, runtime.GOMAXPROCS(0))
	setDefault(&c.MaxConnections, 10000)
	setDefault(&c.KeepAlive, 10*time.Minute)
	setDefault(&c.IdentifyTimeout, 30*time.Second)
	setDefault(&c.SlowRequest, 500*time.Millisecond)
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	c.Limits = c.Limits.withDefaults()
	return c
}

// Stores are what a Server serves. They outlive it: whoever made them closes them
// after Shutdown.
type Stores struct {
	Config Store // must be given
	// State answers the KV commands; nil: they get codes.NotImplemented.
	State kv.Store
	// StateStats is what State says about itself; nil: only its revision is told.
	// It must be cheap.
	StateStats func() protocol.KVStats
	// Locks are made of State; nil only without it. It is closed before State.
	Locks *kvlock.Manager
}

// Store is what the server needs of a config store.
type Store interface {
	Snapshot() *confstore.Snapshot
	Epoch() string
	Problems() []confstore.Problem
	// Set calls done once, after every function given to Subscribe has returned.
	Set(req confstore.SetRequest, done func(confstore.SetResult, error)) error
	// Subscribe ends with cancel: then fn is not called again.
	Subscribe(fn func(*confstore.Batch)) (cancel func())
}

// Server is the TCP side of confcenter. Make one with New.
type Server struct {
	// set at open
	group
	cfg        Config
	store      Store
	state      kv.Store        // nil: there is none
	locks      *kvlock.Manager // nil: there is no state
	stateStats func() protocol.KVStats
	log        zerolog.Logger
	upToDate   []byte
	routes     routeTable
	engine     *engine
	registry   registry
	oplog      oplog
	feed       kvFeed
	life       context.Context // of the ticker and of what workers read
	end        context.CancelFunc
	ticking    chan struct{} // closed when it has ended
	leave      func()        // ends the subscription to store

	// the ticker's
	nextSweep time.Time

	asking sync.Mutex // held by Clients, so that questions do not pile up
}

// New makes a server for stores. It does nothing before Start.
func New(cfg Config, stores Stores) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:      cfg,
		store:    stores.Config,
		state:    stores.State,
		locks:    stores.Locks,
		log:      cfg.Log,
		upToDate: protocol.UpToDate,
		routes:   newRoutes(),
		ticking:  make(chan struct{}),
	}
	s.group.init(groupConfig{Limits: cfg.Limits, SlowRequest: cfg.SlowRequest, Clock: cfg.Clock, Log: cfg.Log})
	s.life, s.end = context.WithCancel(context.Background())
	if cfg.DocLiteral {
		s.upToDate = protocol.LiteralUpToDate
	}
	if s.stateStats = stores.StateStats; s.stateStats == nil {
		s.stateStats = func() protocol.KVStats { return protocol.KVStats{Revision: s.state.Revision()} }
	}
	s.leave = func() {} // until Start
	s.feed.init(s.state)
	s.registry.init(cfg.ServerID)
	s.oplog.init(cfg.Clock)
	s.engine = newEngine(s)
	return s
}

// ErrStopped is Err's answer after a Shutdown.
var ErrStopped = errors.New("server stopped")

// Start listens and returns as soon as connections are accepted. It may be
// called once.
func (s *Server) Start() error {
	s.workers.start()
	s.leave = s.store.Subscribe(s.publish)
	s.followState()
	s.nextSweep = s.cfg.Clock.Now().Add(s.cfg.KeepAlive)
	if err := s.engine.start(); err != nil {
		s.workers.close()
		s.leave()
		s.unfollowState()
		return fmt.Errorf("serve on %s: %w", s.cfg.Listen, err)
	}
	go func() {
		defer close(s.ticking)
		s.ticker()
	}()
	return nil
}

// Addr is the address the server listens on, with the port it got.
func (s *Server) Addr() net.Addr { return s.engine.addr }

// Done is closed when the server has stopped, by Shutdown or by itself; Err then
// says why.
func (s *Server) Done() <-chan struct{} { return s.engine.done }

// Err is why the server stopped: ErrStopped after Shutdown. It must not be
// called before Done is closed.
func (s *Server) Err() error { return s.engine.err }

// drainPoll is how often Shutdown looks whether all sessions are done.
const drainPoll = 10 * time.Millisecond

// Shutdown takes no more connections and requests, waits until every accepted
// write is answered and all replies have left this process, and stops. It gives up
// waiting when ctx ends, but always stops; a second or two more than ctx may
// pass.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	err := s.drain(ctx)
	s.engine.stop()
	s.leave()
	s.end()
	<-s.ticking
	for _, l := range s.allLoops() {
		l.close()
	}
	s.workers.close()
	s.unfollowState()
	return err
}

// drain waits until no session owes anything.
func (s *Server) drain(ctx context.Context) error {
	for {
		owing, err := s.countOwing(ctx)
		if err != nil {
			return err
		}
		if owing == 0 {
			return nil
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return codes.Errorf(codes.Timeout, "%d sessions had replies or writes outstanding", owing)
		}
	}
}

// countOwing asks each loop how many of its sessions owe something.
func (s *Server) countOwing(ctx context.Context) (owing int, err error) {
	for _, l := range s.allLoops() {
		answer := make(chan int, 1)
		l.post(mailFunc(func(l *loop) {
			n := 0
			for _, c := range l.conns {
				if !c.quiet() {
					n++
				}
			}
			answer <- n
		}))
		select {
		case n := <-answer:
			owing += n
		case <-s.engine.done:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return owing, nil
}

// open makes a session for a new connection; nil if it has to be turned away.
func (s *Server) open(l *loop, t transport, peer netip.AddrPort, fd int) *session {
	sess := &session{srv: s, conn: conn{t: t, peer: peer, fd: fd}}
	sess.conn.open(l, sess)
	if s.draining.Load() || !s.registry.enter(sess, s.cfg.MaxConnections) {
		s.count.TurnedAway.Add(1)
		s.peerLog.Warn().Stringer("peer", sess.peer).Int("limit", s.cfg.MaxConnections).Msg("connection turned away: the limit is reached")
		return nil
	}
	s.count.Opened.Add(1)
	l.add(&sess.conn)
	sess.expire(sess.opened + s.cfg.IdentifyTimeout.Nanoseconds())
	return sess
}

// sessionClosed is the last anybody hears of a session.
func (s *Server) sessionClosed(sess *session, err error) {
	s.count.Closed.Add(1)
	if sess.client != nil {
		name := sess.name()
		s.oplog.add("CLIENT_CLOSE", name, sess.peer.String())
		s.log.Debug().Stringer("peer", sess.peer).Str("client", name).AnErr("error", err).Msg("client gone")
	}
	s.registry.leave(sess, s.cfg.Clock.Now().Unix())
}
