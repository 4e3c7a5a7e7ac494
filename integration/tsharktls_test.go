package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
)

// overTLS is a capture of commands that have asked a server over TLS, by a tap, and the keys that they wrote.
func overTLS(t *testing.T, dir string, commands ...[]string) {
	t.Helper()
	from := newAuthority(t)
	pair, err := from.Issue("server", time.Now().Add(time.Hour))
	require.NoError(t, err)
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string][]byte{"ca.pem": from.PEM(), "server.pem": pair.Cert, "server.key": pair.Key} {
		require.NoError(t, os.WriteFile(path(name), text, 0o600))
	}
	conf := sampleConf(t)
	require.NoError(t, os.WriteFile(filepath.Join(conf, "large.json"), []byte(largeDocument), 0o600))
	srv := process.Start(t, conf, "--tls-listen", "127.0.0.1:0", "--tls-cert", path("server.pem"), "--tls-key", path("server.key"))
	tap := startDump(t, "tap", "--listen", "127.0.0.1:0", "--to", srv.TLS, "--write", path("odd.pcapng"))
	addr := strings.Fields(strings.SplitN(tap.wait(tap.stderr, "listening on"), "listening on ", 2)[1])[0]
	binary, err := process.Binary()
	require.NoError(t, err)
	for _, args := range commands {
		cmd := exec.Command(binary, append(args, "--addr", addr, "--tls-ca", path("ca.pem"))...)
		cmd.Env = []string{"SSLKEYLOGFILE=" + path("keys.log")}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		tap.wait(tap.stdout, "! not this protocol: ")
		tap.wait(tap.stdout, "# closed by the client without a frame")
	}
	require.Zero(t, tap.end(syscall.SIGINT))
}

// largeDocument needs several records of TLS.
var largeDocument = `{"long":"` + strings.Repeat("0123456789", 20000) + `"}`

// What ccdump leaves to tshark, tshark reads by the line of the documents.
func TestTsharkReadsTLSAsTheDocumentsSay(t *testing.T) {
	dir := t.TempDir()
	tools, err := filepath.Abs("../tools")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(tools, filepath.Join(dir, "tools")))
	overTLS(t, dir, []string{"get", "large"}, []string{"kv", "put", "shop", "n", "7"})

	for _, page := range []string{"../docs/debugging.md", "../docs/zh/debugging.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		lines := regexp.MustCompile(`(?m)^tshark .*tls\.keylog_file:.*$`).FindAllString(string(text), -1)
		require.Len(t, lines, 1, page)
		out := string(tsharkBy(t, dir, "bash", "-ec", lines[0]))
		for _, want := range []string{"WHOAMI seq=", "GETCONFIG seq=", "GETCONFIG_RSP seq=", "KVTXN seq=", "KVTXN_RSP seq="} {
			require.Contains(t, out, want, page)
		}
	}

	bodies := map[string]string{}
	for _, frame := range dissect(t, filepath.Join(dir, "odd.pcapng"), "-o", "tls.keylog_file:"+filepath.Join(dir, "keys.log")) {
		require.Empty(t, frame.experts)
		bodies[frame.text("name")] = frame.octets(t, "body")
	}
	require.Contains(t, bodies["GETCONFIG_RSP"], largeDocument)
	require.Contains(t, bodies["KVTXN"], `"key":"n"`)
	require.Empty(t, dissect(t, filepath.Join(dir, "odd.pcapng")), "without the keys there is nothing to see")
}
