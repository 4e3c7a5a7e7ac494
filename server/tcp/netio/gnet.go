//go:build linux && !nognet

package netio

import (
	"cmp"
	"context"
	"errors"
	"io"
	"reflect"
	"sync"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"confcenter/internal/admission"
	"confcenter/server/tcp/loop"
)

// newTransport makes a transport that does nothing before start.
func newTransport(cfg *Config, std bool) transport {
	if std {
		return newStd(cfg)
	}
	return &events{cfg: cfg, byLoop: make(map[gnet.EventLoop]gnetLoop)}
}

// events is the transport of the event-loop library. The server's tests check the
// undocumented behaviour that this code relies on.
//
// The library's acceptor is not used: it has no hook that could refuse a connection, and
// ends all loops when the process runs out of descriptors.
type events struct {
	gnet.BuiltinEventEngine

	cfg   *Config      // set at open
	loops *gnet.Client // set by start

	mu     sync.Mutex
	byLoop map[gnet.EventLoop]gnetLoop // guarded by mu
}

func (e *events) start() (err error) {
	e.loops, err = gnet.NewClient(e,
		gnet.WithNumEventLoop(e.cfg.Loops),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // the net package has set it already
		gnet.WithLogger(quiet{e.cfg.Group.Log}),
		gnet.WithLogLevel(logging.ErrorLevel),
	)
	if err == nil {
		err = e.loops.Start()
	}
	return err
}

// stop relies on open not being called any more: the library never answers who enrols a
// connection at a stopped loop.
func (e *events) stop() { _ = e.loops.Stop() }

// accepted is a connection on its way to a loop.
type accepted struct {
	*admission.Conn // set at open

	opened bool // written on the loop, before EnrollContext returns
}

var errUnregistered = errors.New("the event loop could not watch the connection")

func (e *events) open(c *admission.Conn, _ *secured) error {
	v := &accepted{Conn: c}
	// It takes a copy of the descriptor, and reports success also for what it could not
	// register, so only OnOpen counts.
	if _, err := e.loops.EnrollContext(c.Stream, v); !v.opened {
		return cmp.Or(err, errUnregistered)
	}
	return nil
}

// OnOpen makes a session of the connection.
func (e *events) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	v := c.Context().(*accepted)
	v.opened = true
	d := e.loopOf(c)
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

// gnetLoop is one of the library's loops.
type gnetLoop struct {
	Opener
	epoll int // the loop's descriptor
}

// loopOf returns the connection's.
func (e *events) loopOf(c gnet.Conn) gnetLoop {
	el := c.EventLoop()
	e.mu.Lock()
	defer e.mu.Unlock()
	d, ok := e.byLoop[el]
	if !ok {
		d.epoll = epollOf(el)
		d.Opener = e.cfg.NewLoop(func(fn func()) error {
			return el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
				fn()
				return nil
			}))
		})
		e.byLoop[el] = d
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
func (e *events) OnTraffic(c gnet.Conn) gnet.Action {
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
func (e *events) OnClose(c gnet.Conn, err error) gnet.Action {
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
