package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
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
