package tcp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/internal/admission"
	"confcenter/internal/authority"
	"confcenter/internal/clock"
	"confcenter/internal/servertest"
	"confcenter/internal/tlsfiles"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// tlsKit is a server with plain and TLS listeners, and who issues its certificates.
type tlsKit struct {
	*tcp.Server
	t       *testing.T
	from    *authority.Authority
	paths   tlsfiles.Paths
	limiter *admission.Limiter
	log     servertest.Log
}

func startTLS(t *testing.T, clientCA bool, change func(cfg *tcp.Config)) *tlsKit {
	dir := t.TempDir()
	k := &tlsKit{t: t, limiter: admission.New(admission.Limits{Unidentified: 256}), paths: tlsfiles.Paths{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}}
	var err error
	k.from, err = authority.New()
	require.NoError(t, err)
	k.replace("server")
	if clientCA {
		k.paths.ClientCA = filepath.Join(dir, "ca")
		require.NoError(t, os.WriteFile(k.paths.ClientCA, k.from.PEM(), 0o600))
	}
	log := zerolog.New(&k.log)
	certs, err := tlsfiles.Open(k.paths, clock.Real(), log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, certs.Close()) })
	files := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": `{"n":1}`}})
	cfg := tcp.Config{Listen: "127.0.0.1:0", TLSListen: "127.0.0.1:0", TLS: certs.Config(), Connections: k.limiter, Log: log}
	if change != nil {
		change(&cfg)
	}
	k.Server = tcp.New(cfg, tcp.Stores{Config: files.Store})
	require.NoError(t, k.Start())
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.Background())) })
	return k
}

// replace replaces the server's certificate by one of that name.
func (k *tlsKit) replace(name string) {
	pair, err := k.from.Issue(name, time.Now().Add(time.Hour))
	require.NoError(k.t, err)
	require.NoError(k.t, os.WriteFile(k.paths.Cert, pair.Cert, 0o600))
	require.NoError(k.t, os.WriteFile(k.paths.Key, pair.Key, 0o600))
}

func (k *tlsKit) trusting(with ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: k.from.Pool(), ServerName: "localhost", Certificates: with}
}

func (k *tlsKit) dial(cfg *tls.Config) *servertest.Peer {
	k.t.Helper()
	c, err := tls.Dial("tcp", k.TLSAddr().String(), cfg)
	require.NoError(k.t, err)
	k.t.Cleanup(func() { c.Close() })
	return servertest.Over(k.t, c)
}

func (k *tlsKit) eventually(fact func() bool) {
	k.t.Helper()
	require.Eventually(k.t, fact, servertest.Patience, time.Millisecond)
}

func TestPlainAndTLSAreServedSideBySide(t *testing.T) {
	k := startTLS(t, false, nil)
	plain, err := net.Dial("tcp", k.Addr().String())
	require.NoError(t, err)
	defer plain.Close()
	one := servertest.Over(t, plain)
	one.Identify(`{"svrid":0,"svrname":"plain"}`)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := k.trusting()
		cfg.MaxVersion = version
		two := k.dial(cfg)
		two.Identify(`{"svrid":0,"svrname":"tls"}`)
		require.Equal(t, version, two.Conn.(*tls.Conn).ConnectionState().Version)
		one.Send(protocol.Exchang, fmt.Sprintf(`{"to":%d,"n":1}`, two.ID))
		require.Contains(t, two.Next().Body, `"n":1`)
		two.Close()
	}
	old := k.trusting()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 //nolint:gosec // they are refused
	_, err = tls.Dial("tcp", k.TLSAddr().String(), old)
	require.ErrorContains(t, err, "protocol version")
}

func TestClientsWithoutAGoodCertificateAreRefused(t *testing.T) {
	k := startTLS(t, true, nil)
	stranger, err := authority.New()
	require.NoError(t, err)
	issue := func(by *authority.Authority, expires time.Time) []tls.Certificate {
		pair, err := by.Issue("some client", expires)
		require.NoError(t, err)
		cert, err := pair.Certificate()
		require.NoError(t, err)
		return []tls.Certificate{cert}
	}
	for _, c := range []struct {
		with []tls.Certificate
		said []string
	}{
		{nil, []string{"client didn't provide a certificate"}},
		{issue(stranger, time.Now().Add(time.Hour)), []string{"unknown authority", "some client"}},
		{issue(k.from, time.Now().Add(-time.Minute)), []string{"expired", "some client"}},
	} {
		k.log.Reset()
		before := k.Stats().Get("server_tls_handshakes_failed_total")
		cfg := k.trusting()
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // also one that it should not show
			if c.with == nil {
				return new(tls.Certificate), nil
			}
			return &c.with[0], nil
		}
		if conn, err := tls.Dial("tcp", k.TLSAddr().String(), cfg); err == nil { // of TLS 1.3 the client is done before the server
			_, err = conn.Read(make([]byte, 1))
			require.Error(t, err)
			conn.Close()
		}
		k.eventually(func() bool { return k.Stats().Get("server_tls_handshakes_failed_total") == before+1 })
		k.eventually(func() bool { return strings.Contains(k.log.String(), "TLS handshake failed") })
		for _, text := range c.said {
			require.Contains(t, k.log.String(), text)
		}
	}
	k.dial(k.trusting(issue(k.from, time.Now().Add(time.Hour))...)).Identify(`{"svrid":0}`)
	require.EqualValues(t, 1, k.Stats().Get("server_connections"))
	require.Zero(t, k.limiter.Unidentified())
}

func TestAHandshakeThatNeverEndsIsCut(t *testing.T) {
	k := startTLS(t, false, func(cfg *tcp.Config) { cfg.HandshakeTimeout = 50 * time.Millisecond })
	for _, first := range []string{"", "\x16\x03\x01\x00\x80\x01", "GET / HTTP/1.1\r\n\r\n"} {
		c, err := net.Dial("tcp", k.TLSAddr().String())
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte(first))
		require.NoError(t, err)
		peer := servertest.Over(t, c)
		for err == nil { // an alert may come first
			_, err = peer.Read(make([]byte, 64))
		}
	}
	// Connections are closed first, and then counted and told of.
	k.eventually(func() bool { return strings.Count(k.log.String(), "TLS handshake failed") == 3 })
	require.Contains(t, k.log.String(), "first record does not look like a TLS handshake")
	require.Zero(t, k.limiter.Unidentified())
	require.EqualValues(t, 1, k.Stats().Get("server_tls_handshakes_failed_total"))
	require.EqualValues(t, 2, k.Stats().Get("server_limits_met_total", "handshake"))
}

func TestAThousandHalfOpenHandshakesDoNoHarm(t *testing.T) {
	k := startTLS(t, false, nil)
	there := k.dial(k.trusting())
	there.Identify(`{"svrid":0,"svrname":"there"}`)
	for i := range 1000 {
		c, err := net.Dial("tcp", k.TLSAddr().String())
		require.NoError(t, err)
		defer c.Close()
		_, _ = c.Write([]byte("\x16\x03\x01\x00\x80\x01")) // it may have had to leave already
		if i%100 == 0 {
			newcomer := k.dial(k.trusting())
			newcomer.Identify(`{"svrid":0,"svrname":"newcomer"}`)
			require.Contains(t, newcomer.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`), `{"n":1}`)
		}
	}
	k.eventually(func() bool { return k.limiter.Unidentified() <= 256 })
	require.Contains(t, there.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`), `{"n":1}`)
}

func TestCertificatesAreReloadedUnderLoad(t *testing.T) {
	k := startTLS(t, false, nil)
	stay := k.dial(k.trusting())
	stay.Identify(`{"svrid":0,"svrname":"stay"}`)
	var comers sync.WaitGroup
	var stop atomic.Bool
	var renewed atomic.Int64
	for range 4 {
		comers.Go(func() {
			for !stop.Load() {
				c, err := tls.Dial("tcp", k.TLSAddr().String(), k.trusting())
				if err != nil {
					t.Errorf("refused while certificates change: %v", err)
					return
				}
				if c.ConnectionState().PeerCertificates[0].Subject.CommonName == "renewed" {
					renewed.Add(1)
				}
				c.Close()
			}
		})
	}
	k.replace("renewed")
	k.eventually(func() bool { return renewed.Load() > 10 })
	require.NoError(t, os.WriteFile(k.paths.Key, []byte("broken"), 0o600))
	k.eventually(func() bool { return strings.Contains(k.log.String(), "cannot be used") })
	before := renewed.Load()
	k.eventually(func() bool { return renewed.Load() > before+10 })
	stop.Store(true)
	comers.Wait()
	stay.Quiet()
}

// A peer that asks for new keys again and again, and reads nothing, is answered each time.
func TestAPeerThatReadsNothingIsClosedOverTLS(t *testing.T) {
	k := startTLS(t, false, func(cfg *tcp.Config) {
		cfg.Limits.Frames, cfg.Limits.Pending = 64, 1<<30
	})
	deaf := k.dial(k.trusting())
	deaf.Identify(`{"svrid":0,"svrname":"deaf"}`)
	from := k.dial(k.trusting())
	from.Identify(`{"svrid":0,"svrname":"from"}`)
	body := fmt.Sprintf(`{"to":%d,"x":%q}`, deaf.ID, strings.Repeat("x", 60<<10))
	other := k.dial(k.trusting())
	other.Identify(`{"svrid":0,"svrname":"other"}`)
	for k.Stats().Get("server_clients") == 3 {
		from.Send(protocol.Exchang, body)
		other.Quiet() // no one else waits
	}
	require.EqualValues(t, 1, k.Stats().Get("server_limits_met_total", "output"))
	require.True(t, bytes.Contains([]byte(k.log.String()), []byte("too many frames wait")))
}

// Peers that attack handshakes in every way are cut off one by one, and who is there notices
// nothing: a second handshake in a session, garbage in its place and in a session, and handshakes
// that come byte by byte, over and over.
func TestAttacksOnHandshakesDisturbNobody(t *testing.T) {
	k := startTLS(t, false, func(cfg *tcp.Config) { cfg.HandshakeTimeout = 500 * time.Millisecond })
	there := k.dial(k.trusting())
	there.Identify(`{"svrid":0,"svrname":"there"}`)
	hello := clientHello(t, k.trusting())
	var stop atomic.Bool
	var all sync.WaitGroup
	var attacks [4]atomic.Int64
	attack := func(kind int, do func(c net.Conn)) {
		for range 2 {
			all.Go(func() {
				for !stop.Load() {
					c, err := net.Dial("tcp", k.TLSAddr().String())
					if err != nil {
						t.Errorf("the listener accepts no more: %v", err)
						return
					}
					_ = c.SetDeadline(time.Now().Add(servertest.Patience))
					do(c)
					if _, err := io.Copy(io.Discard, c); err != nil && os.IsTimeout(err) {
						t.Errorf("attack %d is not cut off", kind)
					}
					c.Close()
					attacks[kind].Add(1)
				}
			})
		}
	}
	attack(0, func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("garbage"), 1000)) })
	attack(1, func(c net.Conn) { _, _ = c.Write(hello[:len(hello)-1]) }) // the rest never comes
	attack(2, func(c net.Conn) {
		for i := range hello {
			if _, err := c.Write(hello[i : i+1]); err != nil {
				return
			}
		}
		_, _ = c.Write(hello) // and again, instead of what comes next
	})
	attack(3, func(c net.Conn) {
		cfg := k.trusting()
		cfg.MaxVersion = tls.VersionTLS12
		secure := tls.Client(c, cfg)
		if err := secure.Handshake(); err != nil {
			return // it may have had to make room
		}
		_, _ = c.Write(hello) // a second handshake, or what looks like one
	})
	for done := false; !done; {
		require.Contains(t, there.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`), `{"n":1}`)
		done = true
		for kind := range attacks {
			done = done && attacks[kind].Load() >= 5
		}
	}
	newcomer := k.dial(k.trusting())
	newcomer.Identify(`{"svrid":0,"svrname":"newcomer"}`)
	stop.Store(true)
	all.Wait()
	there.Quiet()
	k.eventually(func() bool { return k.Stats().Get("server_connections") == 2 && k.limiter.Unidentified() == 0 })
}

// clientHello is what a client sends first.
func clientHello(t *testing.T, cfg *tls.Config) []byte {
	here, there := net.Pipe()
	go func() { _ = tls.Client(here, cfg).Handshake() }()
	hello := make([]byte, 5)
	_, err := io.ReadFull(there, hello)
	require.NoError(t, err)
	rest := make([]byte, int(hello[3])<<8|int(hello[4]))
	_, err = io.ReadFull(there, rest)
	require.NoError(t, err)
	require.NoError(t, here.Close())
	require.NoError(t, there.Close())
	return append(hello, rest...)
}
