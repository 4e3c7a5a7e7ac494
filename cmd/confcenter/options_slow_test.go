//go:build !race || soak

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrecedenceOfEverySetting(t *testing.T) {
	dir := t.TempDir()
	settings := []struct{ name, def, file, env, flag string }{
		{"listen", "127.0.0.1:4800", "127.0.0.1:1", "127.0.0.2:2", "[::1]:3"},
		{"http", "127.0.0.1:8080", "127.0.0.1:1", "127.0.0.2:2", "[::1]:3"},
		{"http-tls", `""`, "127.0.0.1:1", "127.0.0.2:2", "[::1]:3"},
		{"http-host", `""`, "plum-controller", "a,b", "c"},
		{"http-cors-origin", `""`, "https://a", "https://b,http://c:1", "https://d"},
		{"http-max-connections", "0", "10", "20", "30"},
		{"http-access-log", "true", "false", "true", "false"},
		{"slow-request", "500ms", "1s", "2s", "3s"},
		{"tls-listen", `""`, "127.0.0.1:1", "127.0.0.2:2", "[::1]:3"},
		{"tls-cert", `""`, "a.pem", "b.pem", "c.pem"},
		{"tls-key", `""`, "a.pem", "b.pem", "c.pem"},
		{"tls-client-ca", `""`, "a.pem", "b.pem", "c.pem"},
		{"tls-client-crl", `""`, "a.pem", "b.pem", "c.pem"},
		{"access-control", "false", "true", "false", "true"},
		{"listen-as", `""`, "listen=a", "10.0.0.0/8=b,http=c", "http@::1=d"},
		{"administrators", `""`, "cert:CN=a", "person:a@b,cert:CN=b", "cert:CN=c"},
		{"refusal-delay", "250ms", "0s", "1s", "100ms"},
		{"oidc-issuer", `""`, "https://a", "https://b", "https://c"},
		{"oidc-client-id", `""`, "a", "b", "c"},
		{"oidc-client-secret-file", `""`, "a", "b", "c"},
		{"external-url", `""`, "https://a", "https://b", "https://c"},
		{"oidc-groups-claim", "groups", "a", "b", "c"},
		{"oidc-scopes", "email,profile", "a", "b,c", "d"},
		{"oidc-domains", `""`, "a.org", "b.org,c.org", "d.org"},
		{"session-idle", "2h0m0s", "1h0m0s", "2m0s", "3m0s"},
		{"session-age", "12h0m0s", "1h0m0s", "2h0m0s", "3h0m0s"},
		{"max-sessions", "1000", "1", "2", "3"},
		{"max-reviews", "1000", "1", "2", "3"},
		{"review-keep", "168h0m0s", "1h0m0s", "2h0m0s", "3h0m0s"},
		{"secret-key-file", `""`, "a.key", "b.key", "c.key"},
		{"secret-key-command", `""`, "echo a", "echo b", "echo c"},
		{"audit", "auto", "off", "no-keys", "all"},
		{"audit-days", "90", "1", "2", "3"},
		{"audit-bytes", "1GiB", "1MiB", "2MiB", "3MiB"},
		{"audit-file", `""`, "a.jsonl", "b.jsonl", "c.jsonl"},
		{"audit-syslog", `""`, "/dev/log", "udp:a:514", "tcp:b:601"},
		{"conf", "./conf", dir + "/.", dir + "/./", dir},
		{"data", "./data", "d1", "d2", "d3"},
		{"server-id", "1", "2", "3", "4"},
		{"loops", "0", "1", "2", "3"},
		{"memory", "0", "8GiB", "9GiB", "10GiB"},
		{"max-connections", "0", "10", "20", "30"},
		{"max-unidentified", "0", "10", "20", "30"},
		{"max-per-address", "0", "10", "20", "30"},
		{"exempt-networks", "127.0.0.0/8,::1/128", "10.0.0.0/8", "10.0.0.0/8,::/0", "192.0.2.0/24"},
		{"rate", "off", "100/s", "1KiB/s", "200/s,1MiB/s"},
		{"rate-per-address", "off", "100/s", "1KiB/s", "200/s,1MiB/s"},
		{"log-level", "info", "warn", "error", "debug"},
		{"frame-exact", "false", "true", "false", "true"},
		{"doc-literal", "false", "true", "false", "true"},
		{"allow-open", "false", "true", "false", "true"},
		{"keep-alive", "10m0s", "1s", "2s", "3s"},
		{"identify-timeout", "30s", "1s", "2s", "3s"},
		{"drain-timeout", "10s", "1s", "2s", "3s"},
		{"kv-memory", "0", "1GiB", "2GiB", "3GiB"},
		{"kv-log-bytes", "512MiB", "1MiB", "2MiB", "3MiB"},
		{"kv-log-age", "24h0m0s", "1s", "2s", "3s"},
		{"kv-history-versions", "100", "1", "2", "-1"},
		{"kv-history-bytes", "1GiB", "1MiB", "2MiB", "3MiB"},
		{"kv-history-age", "168h0m0s", "1s", "2s", "3s"},
		{"kv-quota", "0", "1GiB", "2GiB", "3GiB"},
		{"kv-reserve", "256MiB", "64MiB", "128MiB", "67108865"},
		{"kv-ack-before-disk-may-lose-writes", "false", "true", "false", "true"},
		{"kv-accept-loss", "false", "true", "false", "true"},
		{"landing", `""`, "mysql://h/a", "mysql://h/b", "mysql://h/c"},
		{"landing-moved", "false", "true", "false", "true"},
		{"lander", "true", "false", "true", "false"},
		{"landing-settings", "landing.json", "a.json", "b.json", "c.json"},
	}
	t.Chdir("../..") // where ./conf is
	require.Len(t, settings, strings.Count(call(t, "", "serve", "--print-config").stdout, "\n"), "every setting has a row here")
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			variable := "CONFCENTER_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
			config := write(t, dir, "c.conf", "# by "+s.name+"\n"+s.name+" = "+s.file+"\n")
			expect := func(value, from string, args ...string) {
				t.Helper()
				r := call(t, "", append([]string{"serve", "--print-config"}, args...)...)
				if !strings.Contains(s.name, "tls") && !strings.HasPrefix(s.name, "oidc") && !slices.Contains([]string{"listen-as", "administrators", "external-url", "audit-file", "audit-syslog"}, s.name) { // those need each other, and are printed all the same
					require.Equal(t, exitOK, r.code, r.stderr)
				}
				gotValue, gotFrom := origin(t, r.stdout, s.name)
				require.Equal(t, value, gotValue)
				require.Equal(t, from, gotFrom)
			}
			flag := fmt.Sprintf("--%s=%s", s.name, s.flag)
			expect(s.def, "default")
			expect(s.file, "file "+config+":2", "--config", config)
			expect(s.flag, "flag --"+s.name, flag, "--config", config)
			t.Setenv(variable, s.env)
			expect(s.env, "env "+variable)
			expect(s.env, "env "+variable, "--config", config)
			expect(s.flag, "flag --"+s.name, flag)
			expect(s.flag, "flag --"+s.name, flag, "--config", config)
		})
	}
}
