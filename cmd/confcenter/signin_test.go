package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/serving"
)

// No one can sign in at a provider that is not there, and someone has to get in.
func TestTheFirstStartMakesATokenWhoeverIsNamed(t *testing.T) {
	_, conf := serve(t, "--access-control", "--administrators", "person:zoe@example.org",
		"--oidc-issuer", "https://127.0.0.1:1", "--oidc-client-id", "c", "--external-url", "https://conf.example.org")
	require.FileExists(t, filepath.Join(filepath.Dir(conf), "data", serving.TokenFile))
}

func TestNamesOfListenersThatAreOff(t *testing.T) {
	certs := []string{"--tls-listen", "127.0.0.1:4843", "--tls-cert", "c", "--tls-key", "k"}
	for args, want := range map[string]string{
		"--listen-as listen=game":                             "",
		"--listen-as listen=listener:game":                    "",
		"--listen-as listen=game,10.0.0.0/8=office --listen=": "listen-as: listener:game is for --listen, which is off",
		"--listen-as http-tls@10.0.0.0/8=game":                "is for --http-tls, which is off",
	} {
		r := call(t, "", append(append([]string{"serve", "--check-config", "--access-control", "--conf", t.TempDir()}, certs...), words(args)...)...)
		require.Contains(t, r.stderr, want, args)
		require.NotContains(t, r.stderr, "listener:listener:")
		require.Equal(t, want == "", !strings.Contains(r.stderr, "listen-as"), r.stderr)
	}
}
