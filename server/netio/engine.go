// Package netio has the sockets: it is the adapter to the event-loop library, which no
// other package of the server imports. It knows loops and connections but no commands.
package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"confcenter/server/loop"
)

// The kernel's keep-alive detects dead peers: a half-open connection would block its client
// id as long as it lasts.
const (
	tcpKeepIdle     = 30 * time.Second
	tcpKeepInterval = 10 * time.Second
	tcpKeepCount    = 3
	tcpUserTimeout  = 60 * time.Second
)

// tcpUnsent is how much unsent output the kernel accepts for one connection, in bytes.
// Without it, a few thousand peers that do not read fill the kernel's memory for TCP, and
// every connection of the machine stalls for seconds.
const tcpUnsent = 128 << 10

// Engine is the event-loop library as the rest of the server sees it. The server's tests
// check the undocumented behaviour that this code relies on.
type Engine struct {
	gnet.BuiltinEventEngine
	cfg Config // set at open

	// set before start returns
	Addr   net.Addr
	handle gnet.Engine

	booted chan error
	Done   chan struct{} // closed when Run has returned
	Err    error         // why; set before done is closed

	mu sync.Mutex
	// guarded by mu
	desks   map[gnet.EventLoop]Opener
	stopped bool // stop was called
}

// Config are an engine's settings.
type Config struct {
	Listen string // TCP address
	Loops  int
	Log    zerolog.Logger
	// NewLoop makes the Opener of one event loop. exec runs a function on that loop, from
	// any goroutine, in no order.
	NewLoop func(exec func(fn func()) error) Opener
}

// Opener makes a connection from a socket; nil refuses it.
type Opener interface {
	Open(t loop.Transport, peer netip.AddrPort, fd int) *loop.Conn
}

// ErrStopped is the error of an engine that was stopped.
var ErrStopped = errors.New("server stopped")

// New makes an engine. It does nothing before Start.
func New(cfg Config) *Engine {
	return &Engine{
		cfg:    cfg,
		booted: make(chan error, 1),
		Done:   make(chan struct{}),
		desks:  make(map[gnet.EventLoop]Opener),
	}
}

// Start runs the engine and returns when it accepts connections.
func (e *Engine) Start() error {
	cfg := e.cfg
	if err := probe(cfg.Listen); err != nil {
		return err
	}
	go func() {
		defer close(e.Done)
		err := gnet.Run(e, "tcp://"+cfg.Listen,
			gnet.WithNumEventLoop(cfg.Loops),
			gnet.WithReuseAddr(true), // a restart on the same port works at once
			gnet.WithTCPNoDelay(gnet.TCPNoDelay),
			gnet.WithTCPKeepAlive(tcpKeepIdle),
			gnet.WithTCPKeepInterval(tcpKeepInterval),
			gnet.WithTCPKeepCount(tcpKeepCount),
			gnet.WithLogger(quiet{cfg.Log}),
			gnet.WithLogLevel(logging.ErrorLevel),
		)
		e.Err = e.reason(err)
		select {
		case e.booted <- e.Err:
		default:
		}
	}()
	return <-e.booted
}

// probe finds out why listening on an address fails: the library reports a taken port as a
// bad file descriptor.
func probe(address string) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return ln.Close()
}

// reason explains the result of Run: an engine that runs out of file descriptors ends
// without an error.
func (e *Engine) reason(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.stopped:
		return ErrStopped
	case err != nil:
		return err
	default:
		return errors.New("the event engine ended by itself; it does so when the process runs out of file descriptors")
	}
}

// Stop ends the engine and waits for it.
func (e *Engine) Stop() {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	_ = e.handle.Stop(context.Background())
	<-e.Done
}

// OnBoot finds out the port and sets options that accepted connections inherit.
func (e *Engine) OnBoot(handle gnet.Engine) gnet.Action {
	e.handle = handle
	addr, err := prepareListener(handle)
	e.Addr = addr
	e.booted <- err
	if err != nil {
		return gnet.Shutdown
	}
	return gnet.None
}

func prepareListener(handle gnet.Engine) (net.Addr, error) {
	fd, err := handle.Dup()
	if err != nil {
		return nil, fmt.Errorf("prepare the listener: %w", err)
	}
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	for option, value := range map[int]int{
		unix.TCP_USER_TIMEOUT:  int(tcpUserTimeout.Milliseconds()),
		unix.TCP_NOTSENT_LOWAT: tcpUnsent,
	} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, option, value); err != nil {
			return nil, fmt.Errorf("prepare the listener: option %d: %w", option, err)
		}
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("prepare the listener: %w", err)
	}
	defer ln.Close()
	return ln.Addr(), nil
}

// OnOpen makes a session of the connection.
func (e *Engine) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	peer, _ := c.RemoteAddr().(*net.TCPAddr)
	if peer == nil {
		return nil, gnet.Close
	}
	s := e.deskOf(c).Open(socket{c}, netip.AddrPortFrom(peer.AddrPort().Addr().Unmap(), uint16(peer.Port)), c.Fd())
	if s == nil {
		return nil, gnet.Close
	}
	c.SetContext(s)
	return nil, gnet.None
}

// deskOf returns the Opener of the library's loop.
func (e *Engine) deskOf(c gnet.Conn) Opener {
	el := c.EventLoop()
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.desks[el]
	if d == nil {
		d = e.cfg.NewLoop(func(fn func()) error {
			return el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
				fn()
				return nil
			}))
		})
		e.desks[el] = d
	}
	return d
}

// OnTraffic passes on all input: the session keeps what cannot be decoded yet, where it
// counts against a limit.
func (e *Engine) OnTraffic(c gnet.Conn) gnet.Action {
	s, _ := c.Context().(*loop.Conn)
	data, err := c.Next(-1)
	if s == nil || err != nil {
		return gnet.Close
	}
	s.Arrive(data)
	s.Loop.AfterTraffic()
	return gnet.None
}

// OnClose tells the session that the connection has ended. A failing write calls it, too.
func (e *Engine) OnClose(c gnet.Conn, err error) gnet.Action {
	if s, _ := c.Context().(*loop.Conn); s != nil {
		if errors.Is(err, io.EOF) {
			s.Loop.HandOn() // its last requests are handled before it ends
		}
		s.Lost(err)
	}
	return gnet.None
}

// socket is a transport over the library's connection. A session never calls it after Lost:
// the descriptor may then be another connection's.
type socket struct{ c gnet.Conn }

func (t socket) TrySend(p []byte) int {
	n, err := unix.Write(t.c.Fd(), p)
	switch {
	case err == nil:
		return n
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0
	default:
		t.Close()
		return 0
	}
}

func (t socket) Send(p []byte) { _, _ = t.c.Write(p) }

func (t socket) Buffered() int { return t.c.OutboundBuffered() }

func (t socket) CloseWrite() { _ = unix.Shutdown(t.c.Fd(), unix.SHUT_WR) }

func (t socket) Close() { _ = t.c.EventLoop().Close(t.c) }

// quiet writes the library's few messages to our log.
type quiet struct{ log zerolog.Logger }

func (q quiet) Debugf(string, ...any) {}
func (q quiet) Infof(string, ...any)  {}
func (q quiet) Warnf(format string, args ...any) {
	q.log.Warn().Msgf(format, args...)
}
func (q quiet) Errorf(format string, args ...any) {
	q.log.Error().Msgf(format, args...)
}
func (q quiet) Fatalf(format string, args ...any) {
	q.log.Error().Msgf(format, args...)
}
