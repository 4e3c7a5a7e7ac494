package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// TLSFiles is a Config.TLS of PEM files. ca has the authorities that the server's certificate
// must come from; empty: those that the machine trusts. cert and key are the program's own
// certificate, which some servers ask for; empty: it has none. They are read for each
// connection, so that a program takes renewed ones when it connects again.
func TLSFiles(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", ca)
		}
	}
	if cert != "" || key != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("certificate %q and key %q: %w", cert, key, err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return c, nil
}

// secure is nc after a TLS handshake. It takes ownership of nc.
func secure(ctx context.Context, nc net.Conn, addr string, cfg *tls.Config) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil && cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	conn := tls.Client(nc, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		nc.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, new(tls.RecordHeaderError)) {
			return nil, fmt.Errorf("no TLS is spoken there: it may be the plain port; give that of TLS, or ask for none (Config.TLS, --tls, --tls-ca)")
		}
		return nil, fmt.Errorf("TLS with %s: %w", addr, err)
	}
	return abrupt{conn}, nil
}

// abrupt is a TLS connection whose Close does not wait: saying that no more comes takes
// seconds if the server does not read, and its frames say where they end.
type abrupt struct{ *tls.Conn }

// Close implements net.Conn.
func (c abrupt) Close() error { return c.NetConn().Close() }
