package http

import (
	"net/http"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/codes"
)

// The names of the listeners, as the settings call them.
const (
	PlainListener = "http"
	TLSListener   = "http-tls"
)

// tarry waits with the refusal that err is, if it is that of a wrong token. Another request on the same
// connection waits behind it.
func (g *Gateway) tarry(w *reply, r *http.Request, err error) {
	wait, done := g.edge.Control.Delay(err)
	if wait == 0 {
		return
	}
	defer done()
	g.pause(w, r, wait)
}

// pause waits, unless the peer or the gateway ends before. It does not count as time that the request took.
func (g *Gateway) pause(w *reply, r *http.Request, wait time.Duration) {
	began := g.clock.Now()
	timer := g.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-r.Context().Done():
	case <-g.closing:
	}
	w.rested += g.clock.Now().Sub(began)
}

// identify finds out who the sender is and what they may do.
func (g *Gateway) identify(w *reply, r *http.Request) error {
	if w.LetIn == nil {
		return nil
	}
	p, err := g.proofOf(r)
	if err == nil {
		w.Rights, err = w.LetIn(&p)
	}
	if err != nil {
		g.tarry(w, r, err)
		w.Deny()
		if w.route.right == access.Anyone {
			return nil
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		return err
	}
	g.noteLogin(w, r)
	if rt := w.route; w.Control != nil && !rt.quiet && !rt.stream && r.Header.Get(headerIdle) == "" { // else a page that was left open would keep its session
		w.Control.Used(w.Rights)
	}
	return nil
}

// known reports whether a request is from a caller that may take a place: with access control only
// one that is known may, or no one else could get one.
func (w *reply) known() bool { return w.LetIn == nil || w.Rights.Identity() != nil }

// proofOf is what a request proves. A proof that is there must hold: a program whose token has ended is to
// learn of it.
func (g *Gateway) proofOf(r *http.Request) (control.Proof, error) {
	p := control.Proof{Listener: PlainListener, Session: g.jar.session(r)}
	if peer := peerOf(r); peer != nil {
		p.Address = peer.Peer.Addr()
	}
	if r.TLS != nil {
		p.Listener = TLSListener
		if len(r.TLS.VerifiedChains) > 0 {
			p.Certificate = r.TLS.PeerCertificates[0]
		}
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return p, codes.Errorf(codes.NotIdentified, "the header Authorization must be Bearer and a token")
		}
		p.Token = strings.TrimSpace(token)
	}
	return p, nil
}

// noteLogin has the audit know of a program that proves who it is with each of its requests, once for
// a connection: of those that are the same it makes a line when they begin, and then one from time to
// time. People who have signed in have had theirs.
func (g *Gateway) noteLogin(w *reply, r *http.Request) {
	p, id := peerOf(r), w.Rights.Identity()
	if p == nil || id == nil || p.known == id.Name || w.Control.SessionOf(w.Rights) != nil {
		return
	}
	p.known = id.Name
	w.Audit.Note(access.Event{Kind: access.EventLogin, By: w.by(r), Do: "request", Often: true})
}
