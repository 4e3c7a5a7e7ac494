// Package netio has the sockets. It knows loops and connections but no commands.
//
// There are two transports. That of gnet, the event-loop library, which no other package
// of the server imports, serves plain connections on Linux. That of package net serves
// TLS, and everything where there is no gnet: on other systems, and in a build with the
// tag nognet.
//
// Socket buffers are the kernel's: no pool of the process counts them.
package netio

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"confcenter/internal/admission"
	"confcenter/internal/memory"
	"confcenter/server/tcp/loop"
)

// Engine has the listeners and the transports. It accepts connections itself, for all
// transports.
type Engine struct {
	cfg Config // set at open

	// set before Start returns
	listeners []*listener
	running   []transport
	accepting sync.WaitGroup // also for handshakes

	Done chan struct{} // closed when Stop has ended
}

// Config are an engine's settings.
type Config struct {
	Listen []Listen
	Loops  int              // of each transport
	Front  *admission.Front // of the listeners
	Group  *loop.Group      // of the loops
	// Std serves plain connections with package net, too.
	Std bool
	// NewLoop makes the Opener of one event loop. exec runs a function on that loop, from
	// any goroutine, in no order.
	NewLoop func(exec func(fn func()) error) Opener
}

// Listen is a way in.
type Listen struct {
	Address   string        // HOST:PORT, or unix:PATH
	TLS       *tls.Config   // nil: plain
	Handshake time.Duration // how long a TLS handshake may take
}

// Opener makes a connection from a socket; nil refuses it.
type Opener interface {
	Open(t loop.Transport, place *admission.Place, peer netip.AddrPort, fd int) *loop.Conn
}

// transport runs event loops.
type transport interface {
	start() error
	// open brings a connection to a loop and returns when it is there. If it fails the
	// connection has been closed, but not its place left.
	open(c *admission.Conn, secure *secured) error
	// stop ends the loops and their connections, and waits for them. open is not called any
	// more.
	stop()
}

// listener is a listening socket and where its connections go.
type listener struct {
	Listen
	*admission.Listener
	to transport
}

// New makes an engine. It does nothing before Start.
func New(cfg Config) *Engine { return &Engine{cfg: cfg, Done: make(chan struct{})} }

// acceptors is how many goroutines accept for each loop. Each waits until a loop has taken
// its connection, so the turns of a busy loop would bound the rate of a single one.
const acceptors = 4

// Start listens, and returns when the engine accepts connections.
func (e *Engine) Start() (err error) {
	defer func() {
		if err != nil {
			e.Stop()
		}
	}()
	to := map[bool]transport{} // by whether it is of package net
	for _, cfg := range e.cfg.Listen {
		l, err := listen(cfg.Address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", cfg.Address, err)
		}
		std := e.cfg.Std || cfg.TLS != nil
		if to[std] == nil {
			to[std] = newTransport(&e.cfg, std)
			if err := to[std].start(); err != nil {
				return errors.Join(err, l.Close())
			}
			e.running = append(e.running, to[std])
		}
		d := &listener{Listen: cfg, Listener: e.cfg.Front.Listen(l, e.cfg.Group.Log), to: to[std]}
		if cfg.TLS != nil {
			d.Extra = memory.TLSCost
		}
		e.listeners = append(e.listeners, d)
	}
	for _, d := range e.listeners {
		for range acceptors * e.cfg.Loops {
			e.accepting.Go(func() { e.accept(d) })
		}
	}
	return nil
}

// Addr is where the listener with that number listens.
func (e *Engine) Addr(i int) net.Addr { return e.listeners[i].Addr() }

// Stop ends the engine and waits for it. The acceptors end first: a connection cannot be
// opened on a loop that has stopped.
func (e *Engine) Stop() {
	for _, d := range e.listeners {
		_ = d.Close()
	}
	e.accepting.Wait()
	for _, t := range e.running {
		t.stop()
	}
	close(e.Done)
}

// accept lets connections in until the listener is closed.
func (e *Engine) accept(d *listener) {
	for {
		c, err := d.Accept()
		if err != nil {
			return
		}
		accepted := c.(*admission.Conn)
		if d.TLS != nil {
			e.accepting.Go(func() { e.shakeHands(d, accepted) })
			continue
		}
		if err := d.to.open(accepted, nil); err != nil {
			accepted.Place.Leave()
			d.Rest(err)
		}
	}
}
