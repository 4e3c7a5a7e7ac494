package gateway

import (
	"net/http"
	"strings"
	"time"

	"confcenter/access/control"
	"confcenter/access/guard"
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
	wait, done := g.cfg.Control.Delay(err)
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

// admit finds out what a request's sender may do, by what the request proves. A proof that is
// there must hold: a program whose token has ended is to learn of it.
func admit(c *control.Control, cookies jar, r *http.Request) (*guard.Caller, error) {
	p := control.Proof{Listener: PlainListener, Session: cookies.session(r)}
	if peer := peerOf(r); peer != nil {
		p.Address = peer.socket.Peer.Addr()
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
			return nil, codes.Errorf(codes.NotIdentified, "the header Authorization must be Bearer and a token")
		}
		p.Token = strings.TrimSpace(token)
	}
	return c.Admit(&p)
}
