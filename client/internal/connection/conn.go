// Package connection is one connection of a client to a server: frames go out, replies reach
// the requests they belong to, pushes reach those who follow, and silence ends it. It knows
// what is on the wire, but not what it is about: documents, keys, leases and the next
// connection are package client's.
//
// A newcomer reads this file, then call.go (a request) and read.go (what comes).
package connection

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"confcenter/internal/clock"
	"confcenter/protocol"
)

const (
	// bufferSize is the size of the read buffer, and about how many bytes of small
	// requests are written together.
	bufferSize = 64 << 10
	// maxKept is the largest write buffer that is reused.
	maxKept = 1 << 20
	// firstChunk limits what is allocated for a reply before its bytes arrive.
	firstChunk = 1 << 20
	// maxForsaken is how many abandoned requests may be unanswered before the server
	// counts as broken.
	maxForsaken = 16384
	// maxControl limits the queued answers to the server's own requests, in bytes.
	maxControl = 64 << 10
)

// Settings are how a connection is made, what it limits, and who gets what comes unasked.
type Settings struct {
	TLS              *tls.Config   // nil: without
	DialTimeout      time.Duration // for connecting, and for the handshake of TLS
	KeepAlive        time.Duration // how long the server may be silent before it is asked
	KeepAliveTimeout time.Duration // how long it has to answer
	MaxBody          int           // of an answer or event, in bytes
	Clock            clock.Clock
	// OnChange and OnGrant get the server's pushes, one at a time, before anything that comes
	// behind them is read. They must not block.
	OnChange func(protocol.Change)
	OnGrant  func(protocol.KVGranted)
	// Lost is the Kind of errors that say that there is no connection any more, or never was.
	Lost error
}

// Conn is one connection. It has three goroutines, which end when the connection fails
// and which Close waits for. The reader completes calls by their sequence numbers and
// passes on pushes; only the writer writes; the keeper checks that the peer is alive.
type Conn struct {
	// set at open
	nc      net.Conn
	addr    string
	set     Settings
	onEvent sync.Map      // eventsOf: func(body []byte, refused error) error
	dead    chan struct{} // closed when err is set
	doubt   chan struct{} // capacity 1: tells the keeper that a request was not answered in time
	wake    chan struct{} // capacity 1: tells the writer that something is queued
	wg      sync.WaitGroup

	// any goroutine
	reads    atomic.Uint64 // number of reads that returned bytes
	lastRead atomic.Int64  // time of the last one, in nanoseconds since 1970

	mu sync.Mutex
	books
}

// books are a connection's requests; guarded by Conn.mu.
type books struct {
	err      *Error // of what was sent and is lost with the connection; nil while it works
	pending  map[uint16]*Call
	seq      uint16
	queue    []*Call
	control  []byte // frames that answer the server's own requests
	forsaken int
}

// Dial connects to addr, which is host:port or unix:path. The caller must close the Conn.
func Dial(ctx context.Context, addr string, set Settings) (*Conn, error) {
	nc, err := dial(ctx, addr, set)
	if err != nil {
		return nil, &Error{Text: "cannot connect", Kind: set.Lost, Cause: err}
	}
	return newConn(nc, addr, set), nil
}

// dial makes the connection. The kernel does not use the injected clock, so the
// limit is in real time.
func dial(ctx context.Context, addr string, set Settings) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, set.DialTimeout)
	defer cancel()
	var d net.Dialer
	network, at := "tcp", addr
	if path, local := strings.CutPrefix(addr, "unix:"); local {
		network, at = "unix", path
	}
	nc, err := d.DialContext(ctx, network, at)
	if err != nil || set.TLS == nil {
		return nc, err
	}
	return secure(ctx, nc, at, set.TLS)
}

// newConn takes ownership of nc, a connection to addr. The caller must close the Conn.
func newConn(nc net.Conn, addr string, set Settings) *Conn {
	c := &Conn{
		nc: nc, addr: addr, set: set,
		dead: make(chan struct{}), doubt: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		books: books{pending: make(map[uint16]*Call)},
	}
	c.lastRead.Store(set.Clock.Now().UnixNano())
	c.wg.Go(func() { c.fail(c.read()) })
	c.wg.Go(func() { c.fail(c.write()) })
	c.wg.Go(func() { c.fail(c.keep()) })
	return c
}

// fail ends the connection because of reason; nil does nothing.
func (c *Conn) fail(reason error) {
	if reason != nil {
		c.end(&Error{Text: "lost the connection to " + c.addr, Kind: c.set.Lost, Cause: reason, Sent: true})
	}
}

// end ends the connection. Only the first reason is kept.
func (c *Conn) end(why *Error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	orphans := c.pending
	c.pending, c.queue, c.control = nil, nil, nil
	c.mu.Unlock()
	close(c.dead)
	c.nc.Close() // the error does not matter: nothing more is read or written
	for _, cl := range orphans {
		if cl.state != forsaken {
			cl.complete(nil, why.as(cl.state == sent))
		}
	}
}

// Close ends the connection and waits for its goroutines. The errors of requests that are
// under way, and of later ones, are of the kind why.
func (c *Conn) Close(why error) {
	c.end(&Error{Text: why.Error(), Kind: why, Sent: true})
	c.wg.Wait()
}

// Err returns why the connection has ended, nil while it works.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.dead }

// write is the writer. It joins small frames so that many callers share a system call.
func (c *Conn) write() error {
	var buf []byte
	for {
		if buf = c.takeQueued(buf[:0]); len(buf) == 0 {
			select {
			case <-c.wake:
				continue
			case <-c.dead:
				return nil
			}
		}
		if _, err := c.nc.Write(buf); err != nil {
			return err
		}
		if cap(buf) > maxKept {
			buf = nil
		}
	}
}

// takeQueued moves what is to be written next into buf and marks it as sent.
func (c *Conn) takeQueued(buf []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf = append(buf, c.control...)
	c.control = c.control[:0]
	taken := 0
	for taken < len(c.queue) && len(buf) < bufferSize {
		cl := c.queue[taken]
		buf = append(buf, cl.frame...)
		if cl.frame = nil; cl.state == queued {
			cl.state = sent
		}
		taken++
	}
	c.queue = slices.Delete(c.queue, 0, taken)
	return buf
}

// ErrSilent is in the error of a connection that the peer may still hold open, as a stopped
// process does.
var ErrSilent = errors.New("no sign of life")

// probeTimeout is how long a server may be silent after a request has timed out before
// the connection is dropped, if KeepAliveTimeout is not shorter.
const probeTimeout = 2 * time.Second

// keep is the keeper. After KeepAlive without a byte from the server, or when a request
// has timed out, it sends a keep-alive, and it returns an error if no byte arrives
// within KeepAliveTimeout or probeTimeout.
func (c *Conn) keep() error {
	timer := c.set.Clock.NewTimer(c.set.KeepAlive)
	defer timer.Stop()
	for {
		limit := c.set.KeepAliveTimeout
		select {
		case <-timer.C():
			if quiet := c.quiet(); quiet < c.set.KeepAlive {
				timer.Reset(c.set.KeepAlive - quiet)
				continue
			}
		case <-c.doubt:
			limit = min(limit, probeTimeout)
		case <-c.dead:
			return nil
		}
		before := c.reads.Load()
		c.Start(protocol.KeepAlive, protocol.AppendFrame(nil, protocol.KeepAlive, 0, nil))
		if !c.await(timer, limit) {
			return nil
		}
		if c.reads.Load() == before {
			return fmt.Errorf("%w for %v", ErrSilent, c.quiet().Round(time.Second))
		}
		timer.Reset(max(c.set.KeepAlive-c.quiet(), 1))
	}
}

// await waits for limit, or until probeTimeout after a doubt if that is sooner. It
// returns false if the connection ends first.
func (c *Conn) await(timer clock.Timer, limit time.Duration) bool {
	timer.Reset(limit)
	until := c.set.Clock.Now().Add(limit)
	for {
		select {
		case <-timer.C():
			return true
		case <-c.doubt:
			if left := until.Sub(c.set.Clock.Now()); left > probeTimeout {
				until = until.Add(probeTimeout - left)
				timer.Reset(probeTimeout)
			}
		case <-c.dead:
			return false
		}
	}
}

func (c *Conn) quiet() time.Duration { return c.set.Clock.Now().Sub(c.Heard()) }

// Heard is when the last bytes came.
func (c *Conn) Heard() time.Time { return time.Unix(0, c.lastRead.Load()) }

// secure is nc after a TLS handshake. It takes ownership of nc.
func secure(ctx context.Context, nc net.Conn, addr string, cfg *tls.Config) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil && cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	conn := tls.Client(nc, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		nc.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, new(tls.RecordHeaderError)) {
			return nil, fmt.Errorf("no TLS is spoken there: it may be the plain port; give that of TLS, or ask for none (Config.TLS, --tls, --tls-ca)")
		}
		return nil, fmt.Errorf("TLS with %s: %w", addr, err)
	}
	return abrupt{conn}, nil
}

// abrupt is a TLS connection whose Close does not wait: saying that no more comes takes
// seconds if the server does not read, and its frames say where they end.
type abrupt struct{ *tls.Conn }

// Close implements net.Conn.
func (c abrupt) Close() error { return c.NetConn().Close() }
