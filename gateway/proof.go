package gateway

import (
	"net/http"
	"strings"

	"confcenter/access/control"
	"confcenter/access/guard"
	"confcenter/codes"
)

// The names of the listeners, as the settings call them.
const (
	PlainListener = "http"
	TLSListener   = "http-tls"
)

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
