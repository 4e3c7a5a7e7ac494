package http

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/server/http/sse"
)

// connections are those that net/http serves: nothing else knows of handlers that are
// still running when their connection was cut off.
type connections struct {
	n       atomic.Int64
	serving sync.WaitGroup
}

// state is called by net/http when a connection begins, when a request and its body are over,
// and when its handler has ended.
func (c *connections) state(nc net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.n.Add(1)
		c.serving.Add(1)
		if conn := socketOf(nc); !conn.Place.Evictable(conn.Reset) {
			conn.Reset()
		}
	case http.StateIdle: // the next request begins
		socketOf(nc).head.end()
	case http.StateClosed, http.StateHijacked:
		socketOf(nc).head.end()
		socketOf(nc).conn.Leave()
		c.n.Add(-1)
		c.serving.Done()
	}
}

type socketKey struct{}

// withSocket has the requests of a connection know it.
func withSocket(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, socketKey{}, socketOf(c))
}

// peerOf is the socket that a request came by; nil in tests.
func peerOf(r *http.Request) *socket {
	s, _ := r.Context().Value(socketKey{}).(*socket)
	return s
}

// connOf is what the request's stream is written to; nil in tests.
func connOf(r *http.Request) *sse.Conn {
	if p := peerOf(r); p != nil {
		return p.Conn
	}
	return nil
}

// What a request says of who makes a change, and why. Author and comment are text as in a URL,
// percent-encoded where it has to be.
const (
	headerAuthor  = "X-Confcenter-Author"
	headerComment = "X-Confcenter-Comment"
	headerToken   = "X-Confcenter-Token"
	headerOrigin  = "X-Confcenter-Origin"
	headerIdle    = "X-Confcenter-Idle" // of the console: its page asks by itself, and no one is there
)

// by is who sends a request, as far as that is proved.
func (w *reply) by(r *http.Request) *access.Actor {
	by := access.Actor{Origin: access.OverHTTP, Identity: w.Rights.Identity()}
	if p := peerOf(r); p != nil {
		by.Address = p.Peer.String()
	}
	return &by
}

// actor is who asks: an address, and what the request says of itself.
func (w *reply) actor(r *http.Request) (by *access.Actor, err error) {
	by = w.by(r)
	switch origin := r.Header.Get(headerOrigin); origin {
	case "":
	case access.InConsole:
		by.Origin = origin
	default:
		return nil, codes.Errorf(codes.BadRequest, "%s is %.80q: it is %q or absent; nothing was written", headerOrigin, origin, access.InConsole)
	}
	return by.Says(access.Said{Author: headerText(r, headerAuthor), Comment: headerText(r, headerComment), Token: r.Header.Get(headerToken)})
}

// headerText is the text of a header. One that is not valid as a part of a URL is meant as it
// stands.
func headerText(r *http.Request, name string) string {
	text := r.Header.Get(name)
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return text
}

// settle takes a place for the connection with its first request. Probes, metrics and
// status do without one if there is none: then they are asked for most.
func (p *socket) settle(w *reply) (err error) {
	switch {
	case p == nil || p.settled:
		return nil
	case w.route.quiet && !w.Account.Administrator():
		p.settled = p.Place.SettleIfRoom("")
	default:
		err = p.conn.Settle("")
		p.settled = err == nil
	}
	p.spoke()
	if err != nil {
		w.Header().Set("Connection", "close")
	}
	return err
}

type paidBody struct {
	io.ReadCloser
	pay func(n int)
}

// Read implements io.Reader.
func (b *paidBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.pay(n)
	return n, err
}

// spoke notes that a connection without a place is not silent.
func (p *socket) spoke() {
	if p != nil && !p.settled {
		p.Place.Spoke()
	}
}
