// Package authority issues certificates for tests and benchmarks, of servers on this machine
// and of their clients. Nothing keeps its keys.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Authority issues certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate and its key, both in PEM.
type Pair struct{ Cert, Key []byte }

// New makes an authority with a key of its own.
func New() (*Authority, error) {
	a := &Authority{}
	var err error
	a.cert, a.key, err = sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		NotAfter: time.Now().Add(time.Hour),
	}, nil, nil)
	return a, err
}

// sign makes a key and its certificate; without an issuer it is its own.
func sign(c, issuer *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if by == nil {
		issuer, by = c, key
	}
	c.NotBefore = c.NotAfter.Add(-24 * time.Hour)
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, &key.PublicKey, by)
	if err != nil {
		return nil, nil, err
	}
	signed, err := x509.ParseCertificate(der)
	return signed, key, err
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Pool has it, for who trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue makes a certificate for a server on this machine, or a client, that is called name.
func (a *Authority) Issue(name string, expires time.Time) (Pair, error) {
	leaf, key, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: expires, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, a.cert, a.key)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, err
}

// Revoke is the authority's list of certificates that it has revoked, in PEM: those of pairs.
func (a *Authority) Revoke(due time.Time, pairs ...Pair) ([]byte, error) {
	list := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: due.Add(-24 * time.Hour), NextUpdate: due}
	for _, p := range pairs {
		c, err := p.Certificate()
		if err != nil {
			return nil, err
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), err
}

// Certificate is the pair as crypto/tls takes it.
func (p Pair) Certificate() (tls.Certificate, error) { return tls.X509KeyPair(p.Cert, p.Key) }
