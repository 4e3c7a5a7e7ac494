package admission

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// Listener accepts for a front. It turns away whom the front refuses, and survives the
// process running out of descriptors.
type Listener struct {
	net.Listener // of TCP or unix sockets

	// Extra is what each connection takes beyond the front's cost, in bytes; set at open.
	Extra int64

	// set at open
	front   *Front
	log     zerolog.Logger
	closing chan struct{} // closed by Close

	once sync.Once

	mu sync.Mutex
	// guarded by mu
	told  time.Time     // when a failure was logged
	last  time.Time     // when accepting failed last; zero: it works
	pause time.Duration // until it is tried again
}

// Listen makes a listener of l, which it owns from then on.
func (f *Front) Listen(l net.Listener, log zerolog.Logger) *Listener {
	return &Listener{Listener: l, front: f, log: log, closing: make(chan struct{})}
}

// Stream is what *net.TCPConn and *net.UnixConn have in common.
type Stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// Conn is an accepted connection. Its place is left when it is closed.
type Conn struct {
	Stream                // set at open
	Place  *Place         // set at open
	Peer   netip.AddrPort // set at open; of a unix socket 127.0.0.1:0
}

// Close ends the connection.
func (c *Conn) Close() error {
	defer c.Place.Leave()
	return c.Stream.Close()
}

// Reset ends it so that the kernel forgets it at once; what the peer has not read is lost.
func (c *Conn) Reset() {
	c.Forget()
	_ = c.Close()
}

// Forget makes the kernel forget the connection when it is closed, and what the peer has not
// read.
func (c *Conn) Forget() {
	if tcp, ok := c.Stream.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// onMachine stands for the address of a peer that came through a unix socket.
var onMachine = netip.MustParseAddrPort("127.0.0.1:0")

// addressOf is who the peer of a connection is to all limits.
func addressOf(c net.Conn) netip.AddrPort {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return onMachine
	}
	peer := tcp.AddrPort()
	return netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
}

// Accept implements net.Listener; its connections are of type *Conn. It fails only once
// the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !l.Rest(err) {
				return nil, err
			}
			continue
		}
		l.works()
		c := &Conn{Stream: nc.(Stream), Peer: addressOf(nc)}
		if c.Place, err = l.front.AdmitAt(c.Peer.Addr(), l.front.cost+l.Extra); err == nil {
			return c, nil
		}
		c.Forget() // a reset leaves nothing behind, however often they come
		_ = c.Stream.Close()
	}
}

// Close ends Accept and has the front's unidentified leave. It may be called more than once.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		err = l.Listener.Close()
		close(l.closing)
		l.front.Close()
	})
	return err
}

// How long the listener rests when a connection cannot be had, and how often that is
// logged.
const (
	shortestRest = 5 * time.Millisecond
	longestRest  = time.Second
	tellAgain    = time.Minute
)

// Rest is called when there was no descriptor or memory for a connection. It waits,
// longer each time, and reports false if the listener was closed.
func (l *Listener) Rest(err error) bool {
	timer := time.NewTimer(l.failed(err))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closing:
		return false
	}
}

func (l *Listener) failed(err error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.front.limiter.Count.Exhausted.Add(1)
	l.last = time.Now()
	if l.told.IsZero() || l.last.Sub(l.told) >= tellAgain {
		l.told = l.last
		l.log.Error().Err(err).Stringer("listener", l.Addr()).Msg("connections cannot be accepted; trying again")
	}
	l.pause = min(max(2*l.pause, shortestRest), longestRest)
	return l.pause
}

// works notes that a connection was had. Several goroutines accept and take turns at
// failing, so one success is not the end.
func (l *Listener) works() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && time.Since(l.last) > longestRest {
		l.last, l.pause = time.Time{}, 0
		l.log.Info().Stringer("listener", l.Addr()).Msg("connections are accepted again")
	}
}
