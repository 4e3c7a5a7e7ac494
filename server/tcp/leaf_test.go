package tcp

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/authority"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

// Identities will be taken from certificates.
func TestASessionKnowsItsPeersCertificate(t *testing.T) {
	from, err := authority.New()
	require.NoError(t, err)
	issue := func(name string) []tls.Certificate {
		pair, err := from.Issue(name, time.Now().Add(time.Hour))
		require.NoError(t, err)
		cert, err := pair.Certificate()
		require.NoError(t, err)
		return []tls.Certificate{cert}
	}
	srv := New(Config{TLSListen: "127.0.0.1:0", TLS: &tls.Config{Certificates: issue("server"), ClientCAs: from.Pool(), ClientAuth: tls.VerifyClientCertIfGiven}},
		Stores{Config: gatetest.Documents(t, nil)})
	seen := make(chan string, 1)
	srv.gate.Permits = func(s *gate.Session, _ *gate.Route) error {
		if leaf := loop.LeafOf(&s.Conn); leaf != nil {
			seen <- leaf.Subject.CommonName
		} else {
			seen <- ""
		}
		return nil
	}
	require.NoError(t, srv.Start())
	defer func() { require.NoError(t, srv.Shutdown(t.Context())) }()
	for _, name := range []string{"some program", ""} {
		cfg := &tls.Config{RootCAs: from.Pool(), ServerName: "localhost"}
		if name != "" {
			cfg.Certificates = issue(name)
		}
		c, err := tls.Dial("tcp", srv.Addr().String(), cfg)
		require.NoError(t, err)
		_, err = c.Write(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0}`)))
		require.NoError(t, err)
		require.Equal(t, name, <-seen)
		require.NoError(t, c.Close())
	}
}
