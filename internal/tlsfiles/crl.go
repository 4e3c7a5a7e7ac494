package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// certificateID is a certificate as its authority knows it.
type certificateID struct{ issuer, serial string }

func idOf(c *x509.Certificate) certificateID {
	return certificateID{string(c.RawIssuer), string(c.SerialNumber.Bytes())}
}

// revocations are the certificates that their authorities have revoked.
type revocations struct {
	list map[certificateID]struct{}
	due  time.Time // when the first of the lists should have been replaced; zero: none says
}

// parseRevocations reads lists in PEM, each of one of the authorities.
func parseRevocations(text, authorities []byte) (*revocations, error) {
	var issuers []*x509.Certificate
	for block, rest := pem.Decode(authorities); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			issuers = append(issuers, c)
		}
	}
	r := &revocations{list: map[certificateID]struct{}{}}
	lists := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(issuers, func(c *x509.Certificate) bool { return list.CheckSignatureFrom(c) == nil }) {
			return nil, fmt.Errorf("the list of %s is signed by none of the authorities", list.Issuer)
		}
		for _, one := range list.RevokedCertificateEntries {
			r.list[certificateID{string(list.RawIssuer), string(one.SerialNumber.Bytes())}] = struct{}{}
		}
		if r.due.IsZero() || list.NextUpdate.Before(r.due) && !list.NextUpdate.IsZero() {
			r.due = list.NextUpdate
		}
		lists++
	}
	if lists == 0 {
		return nil, errors.New("there is no revocation list in PEM")
	}
	return r, nil
}

func (r *revocations) has(c *x509.Certificate) bool {
	if r == nil || len(r.list) == 0 {
		return false
	}
	_, revoked := r.list[idOf(c)]
	return revoked
}

// verify refuses a connection whose every chain has a certificate that is revoked.
func (r *revocations) verify(s tls.ConnectionState) error {
	if len(s.VerifiedChains) == 0 || slices.ContainsFunc(s.VerifiedChains, func(chain []*x509.Certificate) bool { return !slices.ContainsFunc(chain, r.has) }) {
		return nil // there is none, or one way to trust it is left
	}
	return fmt.Errorf("the certificate of %s is revoked", s.PeerCertificates[0].Subject)
}
