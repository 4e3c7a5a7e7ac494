package http

import (
	"crypto/tls"
	"net"
	"os"
	"syscall"

	"confcenter/internal/admission"
	"confcenter/internal/memory"
	"confcenter/server/edge"
)

// sockets makes a socket of each connection that a listener accepts.
type sockets struct {
	*admission.Listener
	bodies *memory.Pool
	secure bool // what they carry is TLS
}

// Accept implements net.Listener.
func (l sockets) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	accepted := c.(*admission.Conn)
	s := &socket{Conn: accepted, conn: edge.Conn{Place: accepted.Place}, head: head{pool: l.bodies}, secure: l.secure}
	s.raw, _ = s.SyscallConn() // fails only for what is no connection
	_ = s.raw.Control(holdLittle)
	return s, nil
}

// socket is a connection that net/http serves.
type socket struct {
	*admission.Conn
	raw  syscall.RawConn // set at open
	out  *outlet         // of the stream that it carries; nil: none. Its handler's
	head head

	// of the connection's requests, one after the other
	conn  edge.Conn
	known string // who has last proved who they are, as the audit was told

	secure bool // set at open: what it carries is TLS
}

// socketOf is the socket below a connection of net/http.
func socketOf(nc net.Conn) *socket {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	return nc.(*socket)
}

// Write implements net.Conn.
func (s *socket) Write(b []byte) (int, error) {
	if s.out == nil {
		return s.Conn.Write(b)
	}
	return s.out.write(b)
}

// unsentBytes is how much the kernel holds of an answer or stream beyond what it has sent.
// By default that is megabytes for each peer that does not read.
const unsentBytes = 64 << 10

// outlet writes a stream to its socket, in turns. While the socket is full the stream
// has no turn, and is listed with those that wait for their peer.
type outlet struct {
	turn

	// set at open
	raw    syscall.RawConn
	try    func(fd uintptr) bool // attempt, made once
	stalls *stalls
	size   func() stalled // what the stream holds while it waits

	b    []byte // left of what is being written
	err  error
	wait *wait // nil: it is not waiting
}

// open makes the outlet write to a socket until the socket's out is taken away.
func (o *outlet) open(s *socket) { o.raw, o.try, s.out = s.raw, o.attempt, o }

func (o *outlet) write(b []byte) (int, error) {
	o.b, o.err = b, nil
	err := o.raw.Write(o.try)
	o.goOn() // also if the deadline was what ended it
	if o.err != nil {
		err = o.err
	}
	n := len(b) - len(o.b)
	o.b = nil
	return n, err
}

// attempt writes as much as the socket takes. It returns false if the peer has to
// read first.
func (o *outlet) attempt(fd uintptr) bool {
	o.begin()
	o.goOn()
	for len(o.b) > 0 {
		n, err := transmit(fd, o.b[:min(len(o.b), turnBytes)])
		switch err { //nolint:errorlint // as the kernel says
		case nil:
			o.b = o.b[n:]
			o.spend(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			o.end()
			o.wait = o.stalls.enter(o.size())
			o.stalls.relieve()
			return false
		default:
			o.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}

// goOn ends the wait for the peer.
func (o *outlet) goOn() {
	if o.wait != nil {
		o.stalls.leave(o.wait)
		o.wait = nil
	}
}
