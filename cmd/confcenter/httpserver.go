package main

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/confstore"
	"confcenter/gateway"
	"confcenter/internal/admission"
	"confcenter/internal/memory"
	"confcenter/server/tcp"
)

// defaultHTTP is the default address of the HTTP side.
const defaultHTTP = "127.0.0.1:8080"

// httpOptions are the settings of the HTTP side.
type httpOptions struct {
	listen         string // empty: none
	tls            string // likewise
	hosts          list
	maxConnections int
	origins        list
	slowRequest    time.Duration
	accessLog      bool
	given          bool // listen was set, even to the default
}

func (o *httpOptions) define(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "http", defaultHTTP, "HTTP address, for REST, streams, metrics and the console; empty = off; port 0 takes a free one")
	f.StringVar(&o.tls, "http-tls", "", "HTTPS address, beside --http or, if that is empty, alone")
	f.Var(&o.hosts, "http-host", "host names by which HTTP is reached besides localhost, separated by commas, for example plum-controller; requests for other names are refused, IP addresses are always allowed")
	f.Var(&o.origins, "http-cors-origin", "origins of web pages that may use HTTP, separated by commas, for example https://ops.example.com; they may read and write everything")
	f.IntVar(&o.maxConnections, "http-max-connections", 0, "HTTP connections at the same time, streams included; beyond that, only probes, metrics, status and clients are answered; 0 = a quarter of the limit on open files, at most 8192")
	f.BoolVar(&o.accessLog, "http-access-log", true, "log every HTTP request except health checks")
	f.DurationVar(&o.slowRequest, "slow-request", 500*time.Millisecond, "log requests that take longer than this")
}

func (o *httpOptions) off() bool { return o.listen == "" && o.tls == "" }

// check finds names that HTTP cannot be served under.
func (o *httpOptions) check(refuse func(format string, args ...any)) {
	for _, host := range o.hosts {
		if strings.ContainsAny(host, "/ *") {
			refuse("http-host = %s: must be a host name, without scheme, path and wildcards", host)
		}
	}
	for _, origin := range o.origins {
		if err := gateway.CheckOrigin(origin); err != nil {
			refuse("http-cors-origin: %w", err)
		}
	}
}

func (o *httpOptions) config(lobby *admission.Lobby, budget *memory.Budget, certs certificates, access gatekeeper, state *state, log zerolog.Logger) gateway.Config {
	return gateway.Config{
		Control:        access.control,
		OpenID:         access.provider,
		Secrets:        access.secrets,
		Audit:          access.notes,
		Open:           access.open,
		TLSListen:      o.tls,
		TLS:            certs.config,
		Certificates:   certs.trouble,
		Restart:        state.restart.helps,
		Lobby:          lobby,
		Memory:         budget,
		Listen:         o.listen,
		Hosts:          o.hosts,
		CORSOrigins:    o.origins,
		MaxConnections: o.maxConnections,
		SlowRequest:    o.slowRequest,
		AccessLog:      o.accessLog,
		Version:        version,
		Log:            log,
	}
}

// startHTTP starts the HTTP side on the stores of the TCP server. It returns nil if
// HTTP is off, or if another process has the default port and no other was asked
// for, so that a second server for TCP alone starts without further flags.
func startHTTP(o *options, lobby *admission.Lobby, budget *memory.Budget, certs certificates, access gatekeeper, srv *tcp.Server, store *confstore.Store, state *state, log zerolog.Logger) (*gateway.Gateway, error) {
	if o.http.off() {
		return nil, nil
	}
	stores := gateway.Stores{Config: store, State: state.edge, StateStats: state.store.Stats, Storage: state.players, Models: state.models.Models(), Audit: state.models.Audit(), Lander: state.landed.readings}
	g, err := gateway.New(o.http.config(lobby, budget, certs, access, state, log), stores, srv)
	if err != nil {
		return nil, err
	}
	if err = g.Start(); err == nil {
		return g, nil
	}
	err = errors.Join(err, g.Shutdown(context.Background()))
	if errors.Is(err, syscall.EADDRINUSE) && !o.http.given && o.http.tls == "" {
		log.Warn().Err(err).Msg("HTTP is off: its default port is taken; choose another with --http, or turn HTTP off with --http=")
		return nil, nil
	}
	return nil, err
}

// both is the TCP server and, unless it is off, the HTTP side. They start and stop
// together.
type both struct {
	*tcp.Server
	http *gateway.Gateway // may be nil
}

// Done is closed when the HTTP side has ended.
func (b *both) Done() <-chan struct{} {
	if b.http == nil {
		return nil
	}
	return b.http.Done()
}

// Err says why.
func (b *both) Err() error { return b.http.Err() }

// Shutdown stops both at the same time, so that neither waits for the other's peers.
func (b *both) Shutdown(ctx context.Context) error {
	if b.http == nil {
		return b.Server.Shutdown(ctx)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- b.http.Shutdown(ctx) }()
	return errors.Join(b.Server.Shutdown(ctx), <-stopped)
}

// list is a setting with several values.
type list []string

// Set takes words separated by commas, all of them at once.
func (l *list) Set(text string) error {
	*l = nil
	for _, word := range strings.Split(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			*l = append(*l, word)
		}
	}
	return nil
}

// String is what Set takes.
func (l *list) String() string { return strings.Join(*l, ",") }

// Type is how help shows the flag's argument.
func (l *list) Type() string { return "list" }
