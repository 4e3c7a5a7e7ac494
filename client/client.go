// Package client is the Go SDK of confcenter: read, write and follow the
// configuration that a server holds, and its state store.
//
//	c, err := client.Dial(ctx, client.Config{Addrs: []string{"127.0.0.1:4800"}, Name: "app1", Tag: "dev"})
//	defer c.Close()
//	doc, err := c.Get(ctx, "app1.json")                                     // once
//	w, err := c.Watch(ctx, client.Query{Name: "app1.json"}, func(d *client.Document) { … }) // and every change
//	h, err := client.Bind[Settings](ctx, c, client.Query{Merged: true})    // the main config as a Go value that follows it
//
// A Client keeps one connection and finds a new one by itself when it breaks; watches
// and handles continue where they were, missing no change and reporting none twice.
// With Config.CacheDir a program can start without a server, from what it knew last
// time.
//
// docs/go.md has eleven recipes; package clienttest has a server to test against.
//
// A newcomer reads this file, then redial.go (one connection after the other, each of which is
// package connection's), request.go (what is asked) and subscribe.go (what is followed across
// all of them).
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/client/internal/callback"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/protocol"
)

// Config says where the servers are and who is asking. The zero value works
// with a server on this machine.
//
// wide: settings, each with a default.
type Config struct {
	// Addrs are the servers' addresses, host:port or unix:path; default 127.0.0.1:4800. They
	// are tried in turn, the one that worked last first.
	Addrs []string
	// Name is the program's name (svrname) and Tag its deployment; the server
	// chooses the main config by both.
	Name, Tag string
	// Props are further properties, shown when clients are listed. They are copied.
	Props map[string]string
	// TLS, if not nil, makes connections with TLS; see TLSFiles. It is not copied and must not
	// be changed. An empty ServerName means the host of the address.
	TLS *tls.Config
	// Token proves who the program is to a server with access control. It travels as it is, so it
	// should do so with TLS. Empty: nothing but the certificate of TLS, if there is one.
	Token string
	// CacheDir is a directory, created if missing, for the last known state of every
	// document that is read or followed, so that the program can start while no
	// server answers. Programs with different Name or Tag may share it. Empty: no
	// cache. An unusable directory is reported to OnError, and fails Dial only if no
	// server answers either.
	CacheDir string

	// DialTimeout limits connecting to one address and identifying there;
	// default 5 s.
	DialTimeout time.Duration
	// RequestTimeout limits each request, besides the context; default 10 s.
	RequestTimeout time.Duration
	// MinBackoff and MaxBackoff limit the wait between two attempts to connect,
	// which doubles each time and is varied at random by half; default 100 ms
	// and 10 s.
	MinBackoff, MaxBackoff time.Duration
	// KeepAlive is how long the server may be silent before it is asked whether it is
	// alive, and KeepAliveTimeout how long it has to answer before the connection is
	// dropped; default 30 s and 10 s.
	KeepAlive, KeepAliveTimeout time.Duration
	// CloseTimeout is how long Close waits, once for the server to release held locks
	// and once for running callbacks; default 5 s each.
	CloseTimeout time.Duration
	// StateWaits makes requests to the state store (those of KV, KVWatch, Lock and
	// Lease) wait for a connection while there is none, as long as their context lasts;
	// RequestTimeout counts from the connection on. Without it they fail with
	// ErrUnreachable as soon as one round of attempts to connect has failed, unless
	// the server may have seen them.
	StateWaits bool
	// MaxBody is the largest answer accepted, in bytes; default 64 MiB. A larger
	// one ends the connection before anything is allocated for it.
	MaxBody int
	// MaxInFlight is how many requests may be unanswered at once; further ones
	// wait for their turn. Default 1024, at most 32768.
	MaxInFlight int

	// Clock is for tests; default the real one.
	Clock clock.Clock
	// OnError gets errors that no caller gets: a lost connection, a subscription that
	// was refused after a reconnect, a change that a handle cannot decode, a damaged
	// cache file, a panic of a callback with its stack. It runs beside the callbacks,
	// one call at a time; while it is busy only the first few errors are kept. Nil:
	// no one is told, but panics and changes that a handle cannot decode are logged,
	// without Logger by slog.Default.
	OnError func(error)
	// OnState gets every change of the connection, in order, concurrently with other
	// callbacks; Close itself reports StateClosed.
	OnState func(StateChange)
	// Logger gets changes of the connection, everything that goes to OnError and, at
	// debug level, each request with command, duration and code. It never gets keys
	// or values. Nil: nothing is logged but what OnError says.
	Logger *slog.Logger
	// Observer sees requests, for metrics and traces. Nil: none.
	Observer Observer
}

func (cfg Config) withDefaults() Config {
	if len(cfg.Addrs) == 0 {
		cfg.Addrs = []string{"127.0.0.1:4800"}
	}
	positive(&cfg.DialTimeout, 5*time.Second)
	positive(&cfg.RequestTimeout, 10*time.Second)
	positive(&cfg.MinBackoff, 100*time.Millisecond)
	positive(&cfg.MaxBackoff, 10*time.Second)
	positive(&cfg.KeepAlive, 30*time.Second)
	positive(&cfg.KeepAliveTimeout, 10*time.Second)
	positive(&cfg.CloseTimeout, 5*time.Second)
	positive(&cfg.MaxBody, 64<<20)
	positive(&cfg.MaxInFlight, 1024)
	cfg.Addrs, cfg.Props = slices.Clone(cfg.Addrs), maps.Clone(cfg.Props)
	cfg.MaxBackoff = max(cfg.MaxBackoff, cfg.MinBackoff)
	cfg.MaxInFlight = min(cfg.MaxInFlight, 1<<15)
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg
}

// positive sets a field to its default unless it is positive.
func positive[N int | time.Duration](field *N, otherwise N) {
	if *field <= 0 {
		*field = otherwise
	}
}

// Client is one program's connection to the configuration center. All methods
// may be called from any goroutine, also from callbacks. Make it with Dial.
//
// wide: the face of the SDK: each request is a method.
type Client struct {
	// set at Dial
	cfg       Config
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	cache     *cache // nil without Config.CacheDir
	callbacks *callback.Runner
	errors    *callback.Backlog[error]
	states    *callback.Backlog[StateChange]
	tokens    *tokenSource
	meta      func() *follower // of _meta.json, from the first call on
	inFlight  chan struct{}    // one token per request of a caller
	fetches   chan struct{}    // one token per feed or watch that is asking the server
	wg        sync.WaitGroup   // run and the feeds; grows under mu only
	toldEnd   atomic.Bool      // OnState got StateClosed

	// Dial, then run's goroutine
	good int // the index of the address that worked last

	// moving is held while watches move to another main config, so that they all end
	// up at the newest one. It is locked before mu.
	moving sync.Mutex

	mu       sync.Mutex // guards the rest; held for a moment only
	closed   bool
	session  *session      // nil while there is none
	down     error         // why there is no session, once a round of attempts has failed
	changed  chan struct{} // closed and replaced when session, down or closed changes
	identity protocol.Identified
	feeds    map[feedKey]*feed
	mains    map[*follower]struct{}
	locks    map[kv.LeaseID]*Lock // held or requested; Close revokes their leases
}

// maxFetches is how many documents the watches fetch at the same time; each may
// take Config.MaxBody of memory.
const maxFetches = 16

// Dial connects to the first server that answers and identifies the program there;
// each address is tried once. If none answers and Config.CacheDir holds documents
// from an earlier run with the same Name and Tag, the Client starts from those and
// keeps trying; otherwise the error is ErrUnreachable or the server's refusal. ctx
// limits Dial only. The caller must Close the Client.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	c := &Client{
		cfg:      cfg,
		inFlight: make(chan struct{}, cfg.MaxInFlight),
		fetches:  make(chan struct{}, maxFetches),
		changed:  make(chan struct{}),
		feeds:    make(map[feedKey]*feed),
		mains:    make(map[*follower]struct{}),
		locks:    make(map[kv.LeaseID]*Lock),
		tokens:   newTokenSource(),
	}
	c.callbacks = callback.NewRunner(func(err error) { c.reportLoudly(slog.LevelError, "a callback has panicked", err) })
	c.errors = callback.NewBacklog(c.callbacks, maxErrors, true, c.tellError)
	c.states = callback.NewBacklog(c.callbacks, maxStates, false, c.tellState)
	c.meta = sync.OnceValue(func() *follower {
		w := c.newFollower(Query{Name: metaFile}, func(*Document) { c.renewIdentity() })
		w.begin()
		return w
	})
	cache, cacheErr := openCache(&c.cfg, c.report)
	if cacheErr != nil {
		c.report(cacheErr)
	}
	c.cache = cache
	c.ctx, c.cancel = context.WithCancel(context.Background())
	sess, err := c.connect(ctx)
	if err != nil && (ctx.Err() != nil || !c.startFromCache(err)) {
		c.Close()
		if cacheErr != nil {
			err = fmt.Errorf("%w; %w", err, cacheErr)
		}
		return nil, err
	}
	c.wg.Go(func() { c.run(sess) })
	return c, nil
}

// startFromCache reports whether the cache has enough to start without a server.
func (c *Client) startFromCache(err error) bool {
	mainConf, ok := c.cache.loadIdentity(c.cfg.Name, c.cfg.Tag)
	if !ok {
		return false
	}
	c.mu.Lock()
	c.identity.MainConf = mainConf
	c.mu.Unlock()
	c.unreachable(err)
	return true
}

// Close ends everything and waits for it. Waiting requests end with ErrClosed. Held
// locks are released if there is a connection; a release that the server does not
// confirm within Config.CloseTimeout takes effect when the lock's time runs out. No
// more callbacks are called. Close waits for running ones up to Config.CloseTimeout,
// after which the error is codes.Timeout; called from a callback it does not wait.
// Closing twice is not an error.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	sess, locks := c.session, slices.Collect(maps.Values(c.locks))
	clear(c.locks)
	c.announceLocked()
	c.mu.Unlock()
	if sess != nil {
		c.giveUpLocks(sess, locks)
	}
	c.cancel()
	ended := c.ended()
	returned := c.callbacks.Stop(c.cfg.Clock, c.cfg.CloseTimeout) && ended
	if returned && c.cfg.OnState != nil && !c.toldEnd.Swap(true) {
		c.tellState(StateChange{State: StateClosed})
	}
	if err := c.cache.close(); err != nil || returned {
		return err
	}
	return codes.Errorf(codes.Timeout, "close: a callback has not returned within %v", c.cfg.CloseTimeout)
}

// ended waits for the client's own goroutines. It returns false if that takes too
// long, because one of them is in a function of the program, such as a handle's
// Validate.
func (c *Client) ended() bool {
	all := make(chan struct{})
	go func() { // ends with the last of them
		defer close(all)
		c.wg.Wait()
	}()
	return clock.Within(c.cfg.Clock, c.cfg.CloseTimeout, all)
}

// maxErrors is how many errors wait for OnError. Later ones are dropped, since the first
// ones say most about what happened.
const maxErrors = 16

// tellError calls Config.OnError. Its own panic is only logged: reporting it to OnError
// could go on forever.
func (c *Client) tellError(err error) {
	if p := callback.Guarded(func() { c.cfg.OnError(err) }); p != nil {
		slog.Error("confcenter: Config.OnError has panicked", "error", p)
	}
}

// report passes an error to Config.OnError. It also logs the error, unless it is a lost
// connection, which changeState logs.
func (c *Client) report(err error) {
	if !lost(err) {
		c.cfg.Logger.Warn("problem", "error", err)
	}
	if c.cfg.OnError != nil {
		c.errors.Put(err)
	}
}

// reportLoudly is report for what must not go unnoticed: panics, and changes that do not arrive.
func (c *Client) reportLoudly(level slog.Level, what string, err error) {
	if c.cfg.OnError == nil && !c.cfg.Logger.Enabled(c.ctx, slog.LevelWarn) {
		slog.Log(c.ctx, level, "confcenter: "+what, "error", err)
	}
	c.report(err)
}

// ID is the id the server gave this client, 0 before it was ever connected.
func (c *Client) ID() int32 { return c.who().ID }

// Epoch names the data of the server last connected to: versions from different
// epochs cannot be compared. Empty if it was never connected.
func (c *Client) Epoch() string { return c.who().Epoch }

// MainConfig is the name of the file that the server's _meta.json assigns to
// this program, empty if none. It is as of the last connect, and follows
// _meta.json from the first Watch or Bind of the main config on.
func (c *Client) MainConfig() string { return c.who().MainConf }

func (c *Client) who() protocol.Identified {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// Connected reports whether there is a connection now.
func (c *Client) Connected() bool {
	sess, _ := c.state()
	return sess != nil && sess.Err() == nil
}
