package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/admission"
)

// connections are those that net/http serves: nothing else knows of handlers that are
// still running when their connection was cut off.
type connections struct {
	n       atomic.Int64
	serving sync.WaitGroup
}

// state is called by net/http when a connection begins and when its handler has ended.
func (c *connections) state(nc net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.n.Add(1)
		c.serving.Add(1)
		if conn := nc.(*admission.Conn); !conn.Place.Evictable(conn.Reset) {
			conn.Reset()
		}
	case http.StateClosed, http.StateHijacked:
		c.n.Add(-1)
		c.serving.Done()
	}
}

// peer is who is at the other end of a connection.
type peer struct {
	conn    *admission.Conn // set at open
	actor   access.Actor    // set at open; shared by the connection's requests
	settled atomic.Bool     // it has a place of its own
}

type peerKey struct{}

// withPeer makes the peer that the requests of a connection share.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn := c.(*admission.Conn)
	return context.WithValue(ctx, peerKey{}, &peer{conn: conn, actor: access.Actor{Origin: access.OverHTTP, Address: conn.Peer.String()}})
}

func peerOf(r *http.Request) *peer {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	return p
}

// actorOf is who asks: an address, since what a request says of its program proves
// nothing.
func actorOf(r *http.Request) *access.Actor {
	if p := peerOf(r); p != nil {
		return &p.actor
	}
	return nil
}

// settle takes a place for the connection with its first request. Probes, metrics and
// status do without one if there is none: then they are asked for most.
func (p *peer) settle(w http.ResponseWriter, rt *route) (err error) {
	switch {
	case p == nil || p.settled.Load():
		return nil
	case !rt.quiet:
		err = p.conn.Place.Settle("")
		p.settled.Store(err == nil)
	default:
		p.settled.Store(p.conn.Place.SettleIfRoom(""))
	}
	p.spoke()
	if err == nil {
		return nil
	}
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close")
	if rt.plain {
		err = &plainError{codes.Busy.HTTPStatus(), codes.Message(err)}
	}
	return err
}

// spoke notes that a connection without a place is not silent.
func (p *peer) spoke() {
	if p != nil && !p.settled.Load() {
		p.conn.Place.Spoke()
	}
}
