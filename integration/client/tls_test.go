package client_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/internal/authority"
	"confcenter/server/tcp"
)

func TestAClientSpeaksTLSAndShowsItsCertificate(t *testing.T) {
	from, err := authority.New()
	require.NoError(t, err)
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	issue := func(name string) authority.Pair {
		pair, err := from.Issue(name, time.Now().Add(time.Hour))
		require.NoError(t, err)
		return pair
	}
	cert, err := issue("server").Certificate()
	require.NoError(t, err)
	srv := clienttest.Start(t, clienttest.Options{Files: map[string]string{"a.json": `{"n":1}`}, Server: tcp.Config{
		TLSListen: "127.0.0.1:0",
		TLS:       &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: from.Pool(), ClientAuth: tls.RequireAndVerifyClientCert},
	}})
	mine := issue("client")
	ca, certFile, keyFile := file("ca", from.PEM()), file("cert", mine.Cert), file("key", mine.Key)

	_, err = client.TLSFiles(file("none", nil), "", "")
	require.ErrorContains(t, err, "no certificate in PEM")
	_, err = client.TLSFiles("", certFile, ca)
	require.ErrorContains(t, err, certFile)
	bare, err := client.TLSFiles(ca, "", "")
	require.NoError(t, err)
	with, err := client.TLSFiles(ca, certFile, keyFile)
	require.NoError(t, err)
	cfg := client.Config{Addrs: []string{srv.Address()}, Name: "app", MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond, TLS: bare}
	_, err = client.Dial(t.Context(), cfg)
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.ErrorContains(t, err, "certificate required")
	cfg.TLS = &tls.Config{}
	_, err = client.Dial(t.Context(), cfg)
	require.ErrorContains(t, err, "unknown authority")

	cfg.TLS = with
	c, err := client.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	seen := make(chan string, 10)
	_, err = c.Watch(t.Context(), client.Query{Name: "a.json"}, func(d *client.Document) { seen <- string(d.Raw()) })
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, <-seen)
	srv.Cut() // it connects again
	srv.Write("a.json", `{"n":2}`)
	require.Equal(t, `{"n":2}`, <-seen)
}
