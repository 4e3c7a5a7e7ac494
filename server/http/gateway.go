package http

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access/audit"
	"confcenter/access/openid"
	"confcenter/confstore"
	"confcenter/internal/admission"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/internal/metric"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/server/edge"
	"confcenter/server/http/search"
	"confcenter/server/http/sse"
	"confcenter/server/http/status"
)

// Config says how a Gateway serves. The zero value of each field means its default.
//
// wide: settings.
type Config struct {
	// Listen is the address, default 127.0.0.1:8080, or with TLSListen none; port 0 takes a
	// free one.
	Listen string
	// TLSListen is the address of HTTPS, and TLS its configuration.
	TLSListen string
	TLS       *tls.Config
	// Certificates says what is wrong with the files that TLS comes from; nil: nothing can be.
	Certificates func() error
	// Restart says why a restart would have a store take writes again; nil: nothing says so.
	Restart func() error
	// Hosts are further names accepted in the Host header. Always accepted are
	// localhost, the host of Listen and the address that the request came to, and any
	// IP address unless the request came to loopback.
	Hosts []string
	// CORSOrigins are the origins of web pages that may use the API, such as
	// https://ops.example.com. Without any there are no CORS headers.
	CORSOrigins []string
	// MaxBody is the longest request body, default 8 MiB or, of a small Memory, what one
	// request may have of it.
	MaxBody int64
	// MaxConnections is how many connections may ask for more than probes, metrics and
	// status, default 8192; further ones are told to try again later.
	MaxConnections int
	// Connections is where connections begin, which other fronts of the process share. Default
	// one of its own.
	Connections *admission.Limiter
	// Memory has the pools that the gateway draws from, and is what it reports. Default one
	// of 1 GiB.
	Memory *memory.Budget
	// SlowRequest is how long a request may take without being logged as slow,
	// default 500 ms.
	SlowRequest time.Duration
	// Open are addresses, of any of the listeners, that anyone can reach from outside this
	// machine, to do everything. Probes tell of them.
	Open []string
	// Edge has the stages that every request passes, over TCP as well. Default one that lets everyone do everything.
	Edge *edge.Edge
	// OpenID is the provider that people sign in at; nil: there is none.
	OpenID *openid.Provider
	// Secrets says why there are not all keys of sealed values; nil: there are. It must not wait.
	Secrets func() error
	// AccessLog logs every request.
	AccessLog bool

	// HeaderTimeout and BodyTimeout bound how long a request may take to arrive,
	// default 10 s and 30 s; IdleTimeout bounds the wait for the next request, default
	// 2 min; WriteTimeout bounds how long a peer may take to read a reply or a piece
	// of a long one, default 30 s.
	HeaderTimeout, BodyTimeout, IdleTimeout, WriteTimeout time.Duration
	// Heartbeat is the interval of comments on a stream, default 3 s.
	Heartbeat time.Duration

	Version string
	// Clock defaults to the machine's.
	Clock clock.Clock
	// Log receives what operators should know; the zero Logger is silent.
	Log zerolog.Logger
}

func (cfg Config) withDefaults() Config {
	if cfg.TLSListen == "" {
		cfg.Listen = cmp.Or(cfg.Listen, "127.0.0.1:8080")
	}
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 8192)
	cfg.SlowRequest = cmp.Or(cfg.SlowRequest, 500*time.Millisecond)
	cfg.HeaderTimeout = cmp.Or(cfg.HeaderTimeout, 10*time.Second)
	cfg.BodyTimeout = cmp.Or(cfg.BodyTimeout, 30*time.Second)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 2*time.Minute)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 30*time.Second)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 3*time.Second)
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.Connections = cmp.Or(cfg.Connections, admission.New(admission.Limits{}))
	if cfg.Memory == nil {
		cfg.Memory = memory.Divide(1 << 30)
	}
	cfg.Edge = cmp.Or(cfg.Edge, edge.New(nil, nil, nil, cfg.Log))
	cfg.MaxBody = cmp.Or(cfg.MaxBody, min(8<<20, mostRoom(cfg.Memory.Bodies)))
	return cfg
}

func (cfg *Config) jar() jar {
	if cfg.OpenID == nil {
		return jar{}
	}
	return jar{cfg.OpenID.External()}
}

// Stores are what a Gateway serves. They outlive it: their owner closes them after
// Shutdown.
type Stores struct {
	Config *confstore.Store
	State  kv.Store
	// StateStats returns the figures of State; it may be nil, and must be cheap.
	StateStats func() kv.Stats
	Storage    PlayerStorage // fields of players, kept in State
	Models     []op.Model    // models of a cluster's state
	// Audit is who did what; nil: no notes are taken.
	Audit *audit.Audit
	// Lander returns the numbers of the lander in this process; nil: there is none.
	Lander func() metric.Readings
}

// Gateway is the HTTP side of confcenter. Make one with New.
//
// wide: each route has a method as its handler.
type Gateway struct {
	// set at open
	cfg     Config
	edge    *edge.Edge
	stores  Stores
	tcp     TCPServer
	hub     *hub // nil without a state store
	changes *hub // of documents; nil without a config store
	clock   clock.Clock
	log     zerolog.Logger
	table   []route
	handler http.Handler
	server  *http.Server
	hosts   map[string]bool // accepted in the Host header, in lower case
	cors    map[string]bool // origins
	guard   *http.CrossOriginProtection
	jar     jar
	// attempts seals what browsers keep of people who are at the provider.
	attempts attempts
	traffic  *status.Traffic
	status   *status.Server
	closers  []func() // called by Shutdown when no handler runs any more

	searchers  *search.Searchers
	backups    chan struct{} // holds one per running backup
	configFeed *configFeed   // of the streams of configuration changes

	listeners   []*admission.Listener // plain before TLS
	connections connections
	closing     chan struct{} // closed when Shutdown begins: streams end
	streams     streams
	sse         *sse.Streams
	once        sync.Once
	running     sync.WaitGroup
	done        chan struct{} // closed when serving has ended
	over        func()        // closes it, once
	ended       atomic.Pointer[error]
}

// New makes a Gateway that does not listen yet. tcp is nil if there is no TCP
// server to show.
func New(cfg Config, stores Stores, tcp TCPServer) (*Gateway, error) {
	cfg = cfg.withDefaults()
	g := &Gateway{
		cfg:      cfg,
		edge:     cfg.Edge,
		stores:   stores,
		tcp:      tcp,
		clock:    cfg.Clock,
		log:      cfg.Log,
		closing:  make(chan struct{}),
		backups:  make(chan struct{}, maxBackups),
		done:     make(chan struct{}),
		jar:      cfg.jar(),
		attempts: newAttempts(cfg.Clock),
		streams:  streams{open: map[*reply]stream{}},
	}
	g.searchers = search.New(g.clock, g.closing)
	g.over = sync.OnceFunc(func() { close(g.done) })
	if err := g.allow(); err != nil {
		return nil, err
	}
	ids := sse.IDs("")
	if stores.Config != nil {
		ids = sse.IDs(stores.Config.Epoch() + "-")
	}
	g.sse = sse.New(sse.Config{Pool: cfg.Memory.Streams, IDs: ids, Clock: cfg.Clock, Heartbeat: cfg.Heartbeat, WriteTimeout: cfg.WriteTimeout, Closing: g.closing})
	if stores.State != nil {
		g.hub = newHub(stores.State, g.sse, ofKeys)
		g.closers = append(g.closers, g.hub.Close)
	}
	if stores.Config != nil {
		g.changes = newHub(stores.Config.Revisions(), g.sse, ofDocuments)
		g.closers = append(g.closers, g.changes.Close)
	}
	g.traffic = status.NewTraffic(cfg.SlowRequest, cfg.Clock, cfg.Log)
	g.status = status.New(g.sources(), g.traffic)
	g.table = g.routes()
	g.closers = append(g.closers, cfg.Edge.Control.Follow(g.streams.renew))
	g.handler = g.middleware(newMux(g, g.table))
	g.server = &http.Server{
		Handler:           g.handler,
		ReadHeaderTimeout: cfg.HeaderTimeout,
		ReadTimeout:       cfg.HeaderTimeout + cfg.BodyTimeout,
		WriteTimeout:      cfg.HeaderTimeout + cfg.BodyTimeout + cfg.WriteTimeout, // it counts from the header
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    mostHead,
		ErrorLog:          newServerLog(g.log),
		ConnState:         g.connections.state,
		ConnContext:       withSocket,
	}
	return g, nil
}

// Start begins to listen. It fails if an address is not available.
func (g *Gateway) Start() error {
	front := g.cfg.Connections.Front(g.cfg.MaxConnections, memory.HTTPCost)
	var serve []func() error
	for _, in := range []struct {
		address string
		tls     *tls.Config
	}{{g.cfg.Listen, nil}, {g.cfg.TLSListen, g.cfg.TLS}} {
		if in.address == "" {
			continue
		}
		tcp, err := net.Listen("tcp", in.address)
		if err != nil {
			return fmt.Errorf("cannot listen for HTTP: %w", err)
		}
		l := front.Listen(tcp, g.log)
		g.listeners = append(g.listeners, l)
		accepted := net.Listener(sockets{l, g.cfg.Memory.Bodies, in.tls != nil})
		if in.tls != nil {
			l.Extra = memory.TLSCost
			accepted = tls.NewListener(accepted, in.tls)
		}
		serve = append(serve, func() error { return g.server.Serve(accepted) })
	}
	g.running.Go(g.status.Sampling(g.closing))
	for _, serve := range serve {
		g.running.Go(func() {
			err := serve()
			select {
			case <-g.closing:
			default:
				g.ended.Store(&err)
			}
			g.over()
		})
	}
	return nil
}

// Addr is the listening address, of the plain listener if there is one; nil before Start.
func (g *Gateway) Addr() net.Addr {
	if len(g.listeners) == 0 {
		return nil
	}
	return g.listeners[0].Addr()
}

// TLSAddr is the listening address of HTTPS; nil: there is none.
func (g *Gateway) TLSAddr() net.Addr {
	if g.cfg.TLSListen == "" || len(g.listeners) == 0 {
		return nil
	}
	return g.listeners[len(g.listeners)-1].Addr()
}

// Done is closed when serving has ended, by Shutdown or on its own.
func (g *Gateway) Done() <-chan struct{} { return g.done }

// Err is why serving ended on its own; nil before Done is closed and after
// Shutdown.
func (g *Gateway) Err() error {
	if err := g.ended.Load(); err != nil {
		return *err
	}
	return nil
}

// Shutdown ends the streams at once, lets other requests finish until ctx ends, and
// returns when nothing runs any more: requests that are cut off may still wait for
// the stores. Only the first call has an effect.
func (g *Gateway) Shutdown(ctx context.Context) (err error) {
	g.once.Do(func() {
		close(g.closing)
		for _, l := range g.listeners {
			_ = l.Close() // net/http would wait five seconds for each unidentified connection
		}
		if g.listeners != nil {
			g.streams.end()
			if err = g.server.Shutdown(ctx); err != nil {
				err = errors.Join(err, g.server.Close())
			}
			g.running.Wait()
			g.connections.serving.Wait()
		}
		for _, closeOne := range g.closers {
			closeOne()
		}
	})
	return err
}
