// Package netio has the sockets: it is the adapter to the event-loop library, which no
// other package of the server imports. It knows loops and connections but no commands.
//
// Socket buffers are the kernel's: no pool of the process counts them.
package netio

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"reflect"
	"sync"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"confcenter/internal/admission"
	"confcenter/server/loop"
)

// Engine is the event-loop library as the rest of the server sees it. The server's tests
// check the undocumented behaviour that this code relies on.
//
// The engine accepts connections itself. The library's acceptor has no hook that could
// refuse one, and ends all loops when the process runs out of descriptors.
type Engine struct {
	gnet.BuiltinEventEngine
	cfg Config // set at open

	// set before Start returns
	Addr      net.Addr
	listener  *admission.Listener
	loops     *gnet.Client
	accepting sync.WaitGroup

	Done chan struct{} // closed when Stop has ended

	mu    sync.Mutex
	desks map[gnet.EventLoop]desk // guarded by mu
}

// Config are an engine's settings.
type Config struct {
	Listen string // TCP address
	Loops  int
	Front  *admission.Front // of the listener
	Log    zerolog.Logger
	// NewLoop makes the Opener of one event loop. exec runs a function on that loop, from
	// any goroutine, in no order.
	NewLoop func(exec func(fn func()) error) Opener
}

// Opener makes a connection from a socket; nil refuses it.
type Opener interface {
	Open(t loop.Transport, place *admission.Place, peer netip.AddrPort, fd int) *loop.Conn
}

// New makes an engine. It does nothing before Start.
func New(cfg Config) *Engine {
	return &Engine{
		cfg:   cfg,
		Done:  make(chan struct{}),
		desks: make(map[gnet.EventLoop]desk),
	}
}

// Start listens, and returns when the engine accepts connections.
func (e *Engine) Start() error {
	l, err := listen(e.cfg.Listen)
	if err != nil {
		return err
	}
	e.listener = e.cfg.Front.Listen(l, e.cfg.Log)
	e.Addr = e.listener.Addr()
	e.loops, err = gnet.NewClient(e,
		gnet.WithNumEventLoop(e.cfg.Loops),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // the net package has set it already
		gnet.WithLogger(quiet{e.cfg.Log}),
		gnet.WithLogLevel(logging.ErrorLevel),
	)
	if err == nil {
		err = e.loops.Start()
	}
	if err != nil {
		return errors.Join(err, e.listener.Close())
	}
	for range acceptors * e.cfg.Loops {
		e.accepting.Go(e.accept)
	}
	return nil
}

// Stop ends the engine and waits for it. The acceptors end first: the library never
// answers who enrols a connection at a stopped loop.
func (e *Engine) Stop() {
	_ = e.listener.Close()
	e.accepting.Wait()
	_ = e.loops.Stop()
	close(e.Done)
}

// OnOpen makes a session of the connection.
func (e *Engine) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	v := c.Context().(*visitor)
	v.opened = true
	d := e.deskOf(c)
	s := d.Open(socket{c, d.epoll}, v.Place, v.Peer, c.Fd())
	if s == nil {
		v.Place.Leave()
		c.SetContext(nil)
		_ = c.SetLinger(0)
		return nil, gnet.Close
	}
	c.SetContext(s)
	return nil, gnet.None
}

// desk is one of the library's loops.
type desk struct {
	Opener
	epoll int // the loop's descriptor
}

// deskOf returns the connection's.
func (e *Engine) deskOf(c gnet.Conn) desk {
	el := c.EventLoop()
	e.mu.Lock()
	defer e.mu.Unlock()
	d, ok := e.desks[el]
	if !ok {
		d.epoll = epollOf(el)
		d.Opener = e.cfg.NewLoop(func(fn func()) error {
			return el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
				fn()
				return nil
			}))
		})
		e.desks[el] = d
	}
	return d
}

// epollOf is the descriptor with which a loop of the library waits for its sockets. The
// library does not show it, and offers no other way to stop reading a connection.
func epollOf(el gnet.EventLoop) int {
	return int(reflect.ValueOf(el).Elem().FieldByName("poller").Elem().FieldByName("fd").Int())
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
type socket struct {
	c     gnet.Conn
	epoll int
}

// Listen changes what the loop waits for. The library sets its own idea of it again when a
// Send does not fit into the socket, and when the rest of that has left. (A high SO_RCVLOWAT
// would not do: the kernel reports a socket as readable in any case once its buffer is full.)
func (t socket) Listen(on bool) {
	var events uint32
	if on {
		events = netpoll.ReadEvents
	}
	if t.Buffered() > 0 {
		events |= netpoll.WriteEvents
	}
	fd := t.c.Fd()
	_ = unix.EpollCtl(t.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Fd: int32(fd), Events: events})
}

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

func (t socket) Reset() {
	_ = t.c.SetLinger(0)
	t.Close()
}

// quiet puts the library's few messages into our log.
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
