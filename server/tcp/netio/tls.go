package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"confcenter/internal/admission"
)

// secured is a connection after its handshake; without TLS it has only a wire.
type secured struct {
	*tls.Conn
	wire *wire
}

// shakeHands brings a connection to a loop after its handshake. Until then it is unidentified
// and silent: it has its place already, and may lose it.
func (e *Engine) shakeHands(d *listener, c *admission.Conn) {
	secure, err := handshake(d, c)
	if err != nil {
		_ = c.Close()
		e.refused(d, c, err)
		return
	}
	c.Place.Spoke()
	if d.to.open(c, secure) != nil {
		c.Place.Leave()
	}
}

func handshake(d *listener, c *admission.Conn) (*secured, error) {
	if !c.Place.Evictable(func() { _ = c.Stream.Close() }) {
		return nil, net.ErrClosed
	}
	w, err := newWire(c.Stream)
	if err != nil {
		return nil, err
	}
	secure := &secured{tls.Server(w, d.TLS), w}
	if err := w.SetDeadline(time.Now().Add(d.Handshake)); err != nil {
		return nil, err
	}
	if err := secure.HandshakeContext(context.Background()); err != nil {
		return nil, err
	}
	return secure, w.SetDeadline(time.Time{})
}

// refused counts a failed handshake, and logs what its peer can do something about.
func (e *Engine) refused(d *listener, c *admission.Conn, err error) {
	g := e.cfg.Group
	switch {
	case errors.Is(err, net.ErrClosed): // it had to make room, or the server is stopping
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		g.Count.Handshake.Add(1)
	default:
		g.Count.HandshakesFailed.Add(1)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return // a peer only checked whether the port is open
		}
	}
	line := g.PeerLog.Warn().Err(err).Stringer("peer", c.Peer).Stringer("listener", d.Addr())
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(unverified.UnverifiedCertificates) > 0 {
		leaf := unverified.UnverifiedCertificates[0]
		line.Stringer("subject", leaf.Subject).Stringer("issuer", leaf.Issuer).Time("expires", leaf.NotAfter)
	}
	line.Msg("TLS handshake failed; the connection is closed")
}
