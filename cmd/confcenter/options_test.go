package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// origin finds a setting in what --print-config has printed.
func origin(t *testing.T, printed, name string) (value, from string) {
	t.Helper()
	for line := range strings.Lines(printed) {
		if rest, ok := strings.CutPrefix(line, name+" = "); ok {
			comment := strings.LastIndex(rest, "# ")
			return strings.TrimSpace(rest[:comment]), strings.TrimSpace(rest[comment+2:])
		}
	}
	t.Fatalf("no setting %s in\n%s", name, printed)
	return "", ""
}

func TestPrintConfigGolden(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "conf/a.json", "{}")
	write(t, dir, "confcenter.conf", "# ours\nloops = 2\ndata = \"with # inside\"\n")
	t.Setenv("CONFCENTER_LISTEN", "127.0.0.1:4801")
	t.Setenv("CONFCENTER_CONFIG", "confcenter.conf")
	t.Setenv("CONFCENTER_ADDR", "127.0.0.1:1") // the client verbs'
	const golden = `listen = 127.0.0.1:4801                     # env CONFCENTER_LISTEN
http = 127.0.0.1:8080                       # default
http-tls = ""                               # default
http-host = ""                              # default
http-cors-origin = ""                       # default
http-max-connections = 0                    # default
http-access-log = true                      # default
slow-request = 500ms                        # default
tls-listen = ""                             # default
tls-cert = ""                               # default
tls-key = ""                                # default
tls-client-ca = ""                          # default
tls-client-crl = ""                         # default
access-control = false                      # default
listen-as = ""                              # default
administrators = ""                         # default
refusal-delay = 250ms                       # default
oidc-issuer = ""                            # default
oidc-client-id = ""                         # default
oidc-client-secret-file = ""                # default
external-url = ""                           # default
oidc-groups-claim = groups                  # default
oidc-scopes = email,profile                 # default
oidc-domains = ""                           # default
session-idle = 2h0m0s                       # default
session-age = 12h0m0s                       # default
max-sessions = 1000                         # default
max-reviews = 1000                          # default
review-keep = 168h0m0s                      # default
secret-key-file = ""                        # default
secret-key-command = ""                     # default
audit = auto                                # default
audit-days = 90                             # default
audit-bytes = 1GiB                          # default
audit-file = ""                             # default
audit-syslog = ""                           # default
conf = ./conf                               # default
data = "with # inside"                      # file confcenter.conf:3
server-id = 7                               # flag --server-id
loops = 2                                   # file confcenter.conf:2
memory = 0                                  # default
max-connections = 0                         # default
max-unidentified = 0                        # default
max-per-address = 0                         # default
exempt-networks = 127.0.0.0/8,::1/128       # default
rate = off                                  # default
rate-per-address = off                      # default
log-level = info                            # default
frame-exact = true                          # flag --frame-exact
doc-literal = false                         # default
allow-open = false                          # default
keep-alive = 10m0s                          # default
identify-timeout = 30s                      # default
drain-timeout = 10s                         # default
kv-memory = 0                               # default
kv-log-bytes = 512MiB                       # default
kv-log-age = 24h0m0s                        # default
kv-history-versions = 100                   # default
kv-history-bytes = 1GiB                     # default
kv-history-age = 168h0m0s                   # default
kv-quota = 0                                # default
kv-reserve = 256MiB                         # default
kv-ack-before-disk-may-lose-writes = false  # default
kv-accept-loss = false                      # default
landing = ""                                # default
landing-moved = false                       # default
lander = true                               # default
landing-settings = landing.json             # default
`
	r := call(t, "", "serve", "--server-id", "7", "--frame-exact", "--print-config")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, golden, r.stdout)

	write(t, dir, "printed.conf", r.stdout)
	again := call(t, "", "serve", "--config", "printed.conf", "--print-config", "--check-config")
	require.Equal(t, exitOK, again.code, again.stderr)
	value, from := origin(t, again.stdout, "data")
	require.Equal(t, `"with # inside"`, value)
	require.Equal(t, "file printed.conf:38", from)
}

func TestBadSettingsAreRefused(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "conf/a.json", "{}")
	cases := []struct {
		name, file, env string
		args            []string
		want            []string
	}{
		{"open address", "", "", []string{"--listen", "0.0.0.0:4800"}, []string{"anyone who reaches the port could read and write everything", "--allow-open"}},
		{"open address, no host", "", "", []string{"--listen", ":4800"}, []string{"--allow-open"}},
		{"open address, by file", "listen = [::]:4800", "", nil, []string{"--allow-open"}},
		{"host name", "", "", []string{"--listen", "example.org:4800"}, []string{"--allow-open"}},
		{"no port", "", "", []string{"--listen", "127.0.0.1"}, []string{"must be HOST:PORT"}},
		{"port out of range", "", "", []string{"--listen", "127.0.0.1:70000"}, []string{"65535"}},
		{"http open", "", "", []string{"--http", "0.0.0.0:8080"}, []string{"http = 0.0.0.0:8080 is not a loopback address", "--allow-open"}},
		{"tls without certificate", "", "", []string{"--tls-listen", "127.0.0.1:0"}, []string{"--tls-cert and --tls-key"}},
		{"certificate without tls", "", "", []string{"--tls-cert", "a"}, []string{"of which neither is set"}},
		{"nothing to listen on", "", "", []string{"--listen", ""}, []string{"listen = : must be HOST:PORT"}},
		{"open tls", "", "", []string{"--tls-listen", "0.0.0.0:1", "--tls-cert", "a", "--tls-key", "b"}, []string{"tls-listen = 0.0.0.0:1 is not a loopback address"}},
		{"socket without path", "", "", []string{"--listen", "unix:"}, []string{"listen = unix:: must be unix:PATH"}},
		{"http on a socket", "", "", []string{"--http", "unix:/a"}, []string{"http = unix:/a: must be HOST:PORT"}},
		{"http without port", "", "", []string{"--http", "localhost"}, []string{"http = localhost: must be HOST:PORT"}},
		{"any origin", "", "", []string{"--http-cors-origin", "*"}, []string{"http-cors-origin: origin \"*\" must be as browsers send it"}},
		{"host with scheme", "", "", []string{"--http-host", "http://a"}, []string{"http-host = http://a: must be a host name"}},
		{"any host", "", "", []string{"--http-host", "a,*"}, []string{"http-host = *: must be a host name, without scheme, path and wildcards"}},
		{"http connections", "", "", []string{"--http-max-connections", "-1"}, []string{"http-max-connections = -1: must not be negative"}},
		{"slow request", "", "", []string{"--slow-request", "0s"}, []string{"slow-request = 0s: must be at least 1ms"}},
		{"server id 0", "", "", []string{"--server-id", "0"}, []string{"server-id = 0: must be from 1 to 2000000"}},
		{"server id too large", "", "", []string{"--server-id", "2000001"}, []string{"must be from 1"}},
		{"negative loops", "", "", []string{"--loops", "-1"}, []string{"must not be negative"}},
		{"negative connections", "", "", []string{"--max-connections", "-1"}, []string{"must not be negative"}},
		{"no keep-alive", "", "", []string{"--keep-alive", "0s"}, []string{"keep-alive = 0s: must be at least 1ms"}},
		{"too little memory", "", "", []string{"--memory", "64MiB"}, []string{"memory = 64MiB: must be at least 128MiB, or 0"}},
		{"more for the store than there is", "kv-memory = 4GiB", "", []string{"--memory", "1GiB"}, []string{"kv-memory = 4GiB does not fit into memory = 1GiB", "make that at least 11", "leave kv-memory out"}},
		{"size without a number", "", "", []string{"--kv-reserve", "much"}, []string{"must be a number of bytes like 1048576, 512MiB or 4GiB"}},
		{"no log", "", "", []string{"--kv-log-age", "0s"}, []string{"kv-log-age = 0s: must be at least 1s"}},
		{"history of nothing", "", "", []string{"--kv-history-versions", "0"}, []string{"must be above 0, or -1 for none"}},
		{"no conf", "", "", []string{"--conf", "none"}, []string{"conf = none: there is no such directory; create it"}},
		{"conf is a file", "", "", []string{"--conf", "conf/a.json"}, []string{"is not a directory"}},
		{"no data", "", "", []string{"--data", ""}, []string{"must name a directory"}},
		{"unknown key", "\nlisen = 127.0.0.1:1", "", nil, []string{`c.conf:2: there is no setting "lisen"; did you mean listen?`}},
		{"an action is no key", "print-config = true", "", nil, []string{`there is no setting "print-config"`}},
		{"a file names no file", "config = x", "", nil, []string{`there is no setting "config"`}},
		{"unknown variable", "", "CONFCENTER_LISTNE=x", nil, []string{"CONFCENTER_LISTNE: there is no such setting; did you mean CONFCENTER_LISTEN?"}},
		{"bad number", "loops = two", "", nil, []string{"c.conf:1: loops = two: invalid syntax"}},
		{"bad boolean", "access-control = yes", "", nil, []string{"c.conf:1: access-control = yes: must be true or false"}},
		{"bad boolean in a variable", "", "CONFCENTER_ACCESS_CONTROL=on", nil, []string{"CONFCENTER_ACCESS_CONTROL=on: must be true or false"}},
		{"bad boolean of a flag", "", "", []string{"--access-control=maybe"}, []string{`invalid argument "maybe" for "--access-control" flag: must be true or false`}},
		{"byte order mark", "\ufefflisten = 127.0.0.1:0\nlisen = x", "", nil, []string{"c.conf:1: the file begins with a byte order mark; save it without", `c.conf:2: there is no setting "lisen"`}},
		{"UTF-16", "\xff\xfel\x00i\x00s\x00", "", nil, []string{"c.conf:1: the file is UTF-16; save it as UTF-8"}},
		{"bad word", "log-level = loud", "", nil, []string{"must be one of trace, debug, info, warn, error"}},
		{"several at once", "", "", []string{"--loops", "-1", "--server-id", "0"}, []string{"loops = -1", "server-id = 0"}},
		{"no config file", "", "", []string{"--config", "none.conf"}, []string{"the config file cannot be read", "none.conf"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"serve", "--check-config"}
			if c.file != "" {
				args = append(args, "--config", filepath.Base(write(t, dir, "c.conf", c.file)))
			}
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			r := call(t, "", append(args, c.args...)...)
			require.Equal(t, exitUsage, r.code, r.stderr)
			for _, want := range c.want {
				require.Contains(t, r.stderr, want)
			}
			require.NoDirExists(t, filepath.Join(dir, "data"), "a check leaves nothing behind")
		})
	}
}

func TestGoodSettingsPassTheCheck(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "conf/a.json", "{}")
	for _, args := range [][]string{
		nil,
		{"--listen", "localhost:4800"}, {"--listen", "127.8.8.8:0"}, {"--listen", "[::1]:4800"}, {"--listen", "[::ffff:127.0.0.1]:1"},
		{"--listen", "0.0.0.0:4800", "--allow-open"},
		{"--server-id", "2000000"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			r := call(t, "", append([]string{"serve", "--check-config"}, args...)...)
			require.Equal(t, exitOK, r.code, r.stderr)
			require.NoDirExists(t, filepath.Join(dir, "data"))
		})
	}
}

func TestPrintConfigShowsBadSettingsToo(t *testing.T) {
	r := call(t, "", "serve", "--conf", "none", "--listen", "0.0.0.0:1", "--print-config")
	require.Equal(t, exitUsage, r.code)
	value, from := origin(t, r.stdout, "listen")
	require.Equal(t, "0.0.0.0:1", value)
	require.Equal(t, "flag --listen", from)
}

func TestClientVerbsReadTheirVariables(t *testing.T) {
	t.Setenv("CONFCENTER_ADDR", "nonsense")
	require.Contains(t, call(t, "", "ls").stderr, "addr = nonsense: must be HOST:PORT")
	require.Equal(t, exitUnreachable, call(t, "", "ls", "--addr", "127.0.0.1:1").code, "a flag is stronger")
	t.Setenv("CONFCENTER_LISTEN", "127.0.0.1:1") // serve's
	require.Equal(t, exitUnreachable, call(t, "", "ls", "--addr", "127.0.0.1:1").code)
	t.Setenv("CONFCENTER_TIMEOUTS", "1s")
	r := call(t, "", "ls", "--addr", "127.0.0.1:1")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "did you mean CONFCENTER_TIMEOUT?")
}
