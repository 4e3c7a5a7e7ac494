package http

import (
	"crypto/tls"
	"net"

	"confcenter/internal/admission"
	"confcenter/internal/memory"
	"confcenter/server/edge"
	"confcenter/server/http/sse"
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
	return &socket{Conn: sse.NewConn(accepted), conn: edge.Conn{Place: accepted.Place}, head: head{pool: l.bodies}, secure: l.secure}, nil
}

// socket is a connection that net/http serves.
type socket struct {
	*sse.Conn
	head head

	// of the connection's requests, one after the other
	conn    edge.Conn
	settled bool   // it has a place of its own
	known   string // who has last proved who they are, as the audit was told

	secure bool // set at open: what it carries is TLS
}

// socketOf is the socket below a connection of net/http.
func socketOf(nc net.Conn) *socket {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	return nc.(*socket)
}
