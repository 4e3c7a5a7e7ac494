package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/authority"
)

func TestServeWithTLSAlone(t *testing.T) {
	from, err := authority.New()
	require.NoError(t, err)
	conf, flags := home(t)
	dir := filepath.Dir(conf)
	for _, name := range []string{"server", "client"} {
		pair, err := from.Issue(name, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".pem"), pair.Cert, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".key"), pair.Key, 0o600))
	}
	ca := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(ca, from.PEM(), 0o600))
	p := startServer(t, append(flags, "--listen", "", "--http", "", "--tls-listen", "127.0.0.1:0", "--http-tls", "127.0.0.1:0",
		"--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key", filepath.Join(dir, "server.key"), "--tls-client-ca", ca)...)
	ready := p.log.await(t, "ready")
	addr := ready.TLS
	require.Equal(t, ready.Address, addr, "there is no plain one")

	r := call(t, "", at(addr, "get", "a")...)
	require.Equal(t, exitUnreachable, r.code, r.stderr)
	require.Contains(t, r.stderr, "if TLS is served there, ask for it (Config.TLS, --tls, --tls-ca)")
	mine := []string{"--tls-ca", ca, "--client-cert", filepath.Join(dir, "client.pem"), "--client-key", filepath.Join(dir, "client.key")}
	r = call(t, "", append(at(addr, "get", "a"), mine...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.JSONEq(t, `{"v": 1}`, r.stdout)
	r = call(t, "", append(at(addr, "get", "a"), mine[:4]...)...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "give both")
	for i, variable := range []string{"CONFCENTER_TLS_CA", "CONFCENTER_CLIENT_CERT", "CONFCENTER_CLIENT_KEY"} {
		t.Setenv(variable, mine[2*i+1])
	}
	t.Setenv("CONFCENTER_TLS", "true")
	t.Setenv("CONFCENTER_TLS_CERT", "the server's") // who shares an environment with it
	r = call(t, "", at(addr, "get", "a")...)
	require.Equal(t, exitOK, r.code, r.stderr)

	keys := filepath.Join(dir, "keys.log")
	t.Setenv("SSLKEYLOGFILE", keys)
	r = call(t, "", at(addr, "get", "a")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.JSONEq(t, `{"v": 1}`, r.stdout)
	require.Contains(t, r.stderr, "the keys of this connection go to "+keys)
	text, err := os.ReadFile(keys)
	require.NoError(t, err)
	require.Contains(t, string(text), "CLIENT_TRAFFIC_SECRET_0 ")
	info, err := os.Stat(keys)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	t.Setenv("SSLKEYLOGFILE", filepath.Join(dir, "missing", "keys.log"))
	r = call(t, "", at(addr, "get", "a")...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "SSLKEYLOGFILE: the keys of TLS connections cannot be written there")
	require.True(t, strings.HasPrefix(ready.HTTPS, "127.0.0.1:"))
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}
