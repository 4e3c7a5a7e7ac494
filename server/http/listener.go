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

// peer is who is at the other end of a connection.
type peer struct {
	socket  *socket     // set at open
	settled atomic.Bool // it has a place of its own
}

type peerKey struct{}

// withPeer makes the peer that the requests of a connection share.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn := socketOf(c)
	return context.WithValue(ctx, peerKey{}, &peer{socket: conn})
}

func peerOf(r *http.Request) *peer {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	return p
}

// connOf is the connection of a request; nil in tests.
func connOf(r *http.Request) *sse.Conn {
	if p := peerOf(r); p != nil {
		return p.socket.Conn
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
		by.Address = p.socket.Peer.String()
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
func (p *peer) settle(w *reply) (err error) {
	switch {
	case p == nil || p.settled.Load():
		return nil
	case w.route.quiet && !w.Account.Administrator():
		p.settled.Store(p.socket.Place.SettleIfRoom(""))
	default:
		err = p.socket.conn.Settle("")
		p.settled.Store(err == nil)
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
func (p *peer) spoke() {
	if p != nil && !p.settled.Load() {
		p.socket.Place.Spoke()
	}
}
