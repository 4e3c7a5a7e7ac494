// Package tlsfiles has the configuration of TLS servers whose certificates are in files, and
// follows these files: what replaces them is used from the next connection on, and what
// cannot be used is reported while the last good ones stay in service.
package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/internal/clock"
)

// Paths name the files, all PEM.
type Paths struct {
	Cert, Key string
	// ClientCA has the authorities that clients' certificates must come from; empty: clients
	// need none.
	ClientCA string
	// ClientCRL has what these authorities have revoked; empty: nothing.
	ClientCRL string
	// Optional says that clients need not show a certificate, but that one they show must come
	// from there.
	Optional bool
}

// Files are the certificates in force.
type Files struct {
	// set at open
	paths Paths
	clock clock.Clock
	log   zerolog.Logger

	used    atomic.Pointer[tls.Config]
	revoked atomic.Pointer[revocations]
	told    atomic.Pointer[func()] // when something was taken; nil: no one
	trouble atomic.Pointer[error]  // of the files as they are; nil: none

	life   context.Context
	end    context.CancelFunc
	follow sync.WaitGroup

	// the follower's, after Open
	seen  [][]byte // what the files had when they were last read
	taken [][]byte // what was last taken from them, or refused
}

// period is how often the files are read. What two readings agree on is taken, so that a
// certificate that is revoked is out within a second.
const period = 400 * time.Millisecond

// Open reads the files, which must be good, and follows them until Close.
func Open(paths Paths, c clock.Clock, log zerolog.Logger) (*Files, error) {
	f := &Files{paths: paths, clock: c, log: log}
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	if err := f.take(text); err != nil {
		return nil, err
	}
	f.seen = text
	f.life, f.end = context.WithCancel(context.Background())
	ticker := c.NewTicker(period)
	f.follow.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-f.life.Done():
				return
			case <-ticker.C():
				f.look()
			}
		}
	})
	return f, nil
}

// Close ends the following of the files.
func (f *Files) Close() error {
	f.end()
	f.follow.Wait()
	return nil
}

// Config is for servers. Each connection gets the certificates that are in force when it
// begins.
func (f *Files) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.used.Load(), nil }}
}

// Follow has fn called after other files were taken, instead of whom Follow had called before.
// fn must not wait.
func (f *Files) Follow(fn func()) { f.told.Store(&fn) }

// Revoked reports whether the authorities have revoked a client's certificate. New connections
// with it are refused in any case.
func (f *Files) Revoked(c *x509.Certificate) bool { return f.revoked.Load().has(c) }

// Trouble is what is wrong with the files as they are, nil if they are in force and valid.
func (f *Files) Trouble() error {
	if trouble := f.trouble.Load(); trouble != nil {
		return *trouble
	}
	leaf := f.used.Load().Certificates[0].Leaf
	if now := f.clock.Now(); now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate in %s has expired, at %s; replace it", f.paths.Cert, leaf.NotAfter.Format(time.RFC3339))
	}
	if r := f.revoked.Load(); r != nil && !r.due.IsZero() && f.clock.Now().After(r.due) {
		return fmt.Errorf("the revocation list in %s should have been replaced at %s; what it says still counts", f.paths.ClientCRL, r.due.Format(time.RFC3339))
	}
	return nil
}

func (f *Files) read() (text [][]byte, err error) {
	for _, of := range []struct{ setting, path string }{
		{"tls-cert", f.paths.Cert}, {"tls-key", f.paths.Key}, {"tls-client-ca", f.paths.ClientCA}, {"tls-client-crl", f.paths.ClientCRL},
	} {
		var one []byte
		if of.path != "" {
			if one, err = os.ReadFile(of.path); err != nil {
				return nil, fmt.Errorf("%s: %w", of.setting, err)
			}
		}
		text = append(text, one)
	}
	return text, nil
}

// look takes what has changed and is the same as a period before: pairs are mostly replaced
// one file after the other.
func (f *Files) look() {
	text, err := f.read()
	if err != nil {
		text = [][]byte{[]byte(err.Error())}
	}
	settled := slices.EqualFunc(text, f.seen, bytes.Equal)
	f.seen = text
	if !settled || slices.EqualFunc(text, f.taken, bytes.Equal) {
		return
	}
	if err == nil {
		err = f.take(text)
	}
	f.taken = text
	if err != nil {
		f.trouble.Store(&err)
		f.log.Error().Err(err).Msg("the TLS certificates have changed and cannot be used; those of before stay in service")
		return
	}
	f.trouble.Store(nil)
	leaf := f.used.Load().Certificates[0].Leaf
	f.log.Info().Stringer("subject", leaf.Subject).Time("expires", leaf.NotAfter).Msg("TLS certificates reloaded")
	if tell := f.told.Load(); tell != nil {
		(*tell)()
	}
}

// suites are those of TLS 1.2, without the ones whose padding has let readers on the way find out what
// was said. TLS 1.3 has none such.
var suites = func() (ids []uint16) {
	for _, suite := range tls.CipherSuites() {
		if !strings.Contains(suite.Name, "_CBC_") {
			ids = append(ids, suite.ID)
		}
	}
	return ids
}()

// take puts the certificates in force, if they are good.
func (f *Files) take(text [][]byte) error {
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("tls-cert = %s, tls-key = %s: %w", f.paths.Cert, f.paths.Key, err)
	}
	c := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		CipherSuites: suites,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"}, // who asks for nothing gets nothing
		// A ticket would bring a client back whose certificate is not trusted any more.
		SessionTicketsDisabled: true,
		// Small records would cost a write each; no one waits for the first byte of a frame.
		DynamicRecordSizingDisabled: true,
	}
	if f.paths.ClientCA != "" {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if f.paths.Optional {
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
		if !c.ClientCAs.AppendCertsFromPEM(text[2]) {
			return fmt.Errorf("tls-client-ca = %s: has no certificate in PEM", f.paths.ClientCA)
		}
	}
	var revoked *revocations
	if f.paths.ClientCRL != "" {
		if revoked, err = parseRevocations(text[3], text[2]); err != nil {
			return fmt.Errorf("tls-client-crl = %s: %w", f.paths.ClientCRL, err)
		}
		c.VerifyConnection = revoked.verify
	}
	f.revoked.Store(revoked)
	f.used.Store(c)
	f.taken = text
	return nil
}
